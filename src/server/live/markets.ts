import type { Manifest, PublishedFile } from '../../archive/format/manifest.ts';
import type { MarketFacts } from '../../archive/format/market.ts';
import { type RecordPaths, rebuildMarketRecords } from '../../archive/format/parse-market.ts';
import { findLastJournaledPoll, type JournaledMarketPoll, readJournaledPoll } from '../../archive/journal/journal.ts';
import type { Archive } from '../../archive/open-archive.ts';
import { readDayMarkets } from '../../archive/publish/day-tables.ts';
import { openPinned } from '../../archive/query/pinned-query.ts';
import { requireFileIntact } from '../../archive/read/export-file.ts';
import { type ManifestWatcher, readConsistently } from '../../archive/read/manifest-watcher.ts';
import type { Random } from '../../base/ports.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { parseDayStart } from '../../base/time.ts';
import { paths } from '../../contract/paths.ts';
import { stateLimitMax, stateValues } from '../../contract/query-parameters.ts';
import { ServedMarketsQuery, ServedMarketsResponse } from '../../contract/service.ts';
import { settingsSchema } from '../../settings/schema.ts';
import type { App, ServiceContext } from '../http/context.ts';
import { setDataTime } from '../http/data-time.ts';
import { ProblemError } from '../http/problem-details.ts';

/** Views of the documented interface; valid even if they were never polled. */
const namedViews = ['matched', 'resolving'];

/** `/api/v1/markets`: the market lists as last polled. */
export function registerMarketsRoutes(app: App, context: ServiceContext): void {
  const { archive, current, settings, clock, random, live } = context;
  const lists = openMarketPollReader(archive, current, createDefaultPaths(), random);
  const querystring = stateLimitMax(ServedMarketsQuery, settings.service.rowsLimitMax);
  app.get(
    paths.markets,
    {
      config: {
        data: { scope: 'read', datasets: ['markets'] },
        // The views that were polled under earlier settings are in the archive only; the route checks them itself.
        query: stateValues(querystring, 'view', [...new Set([...namedViews, ...settings.source.views])]),
      },
      schema: {
        operationId: 'listMarkets',
        summary: 'Markets of a list, as last polled',
        description:
          'The records of the last poll of the upstream, with all their fields. `data_time` is the time of that poll.',

        tags: ['realtime'],
        querystring,
        response: { 200: ServedMarketsResponse },
      },
    },
    async (request, reply) => {
      const { view = 'matched', source, limit = Number.POSITIVE_INFINITY } = request.query;
      let polled = await lists.readLastPoll();
      if (live) {
        await live.refreshMarkets(polled.polledAt);
        polled = await lists.readLastPoll();
      }
      setDataTime(reply, polled.polledAt);
      const matching = polled.markets.filter(
        (market) => market.views.has(view) && (source === undefined || market.sources.has(source)),
      );
      if (matching.length === 0) await requireKnown(view, polled, lists, settings.source.views);
      const markets = matching.slice(0, Math.min(limit, settings.service.rowsLimitMax));
      const text = serializeMarkets(markets, view, {
        total: matching.length,
        generated_at: clock.nowMs(),
        data_time: polled.polledAt,
      });
      return reply.type('application/json; charset=utf-8').send(text as never);
    },
  );
}

/** The records are JSON texts already. */
function serializeMarkets(
  markets: readonly PolledMarket[],
  view: string,
  { total, ...times }: { readonly total: number; readonly generated_at: number; readonly data_time: number | null },
): string {
  const rest = JSON.stringify({ count: markets.length, total, view, ...times });
  return `{"markets":[${markets.map(({ text }) => text).join(',')}],${rest.slice(1)}`;
}

async function requireKnown(
  view: string,
  { markets }: MarketPoll,
  lists: MarketPollReader,
  configured: readonly string[],
): Promise<void> {
  const known = new Set([...namedViews, ...configured, ...markets.flatMap((market) => [...market.views])]);
  if (known.has(view)) return;
  const allViews = [...new Set([...known, ...(await lists.listViews())])];
  if (allViews.includes(view)) return;
  throw new ProblemError(400, 'Unknown view.', {
    code: 'invalid_parameter',
    errors: [{ name: 'view', reason: `must be one of ${allViews.join(', ')}` }],
  });
}

/** A collector's default paths for reading records. */
function createDefaultPaths(): RecordPaths {
  const { symbol_paths, field_paths } = settingsSchema.properties.source.properties;
  const fields = field_paths.properties;
  return {
    symbolPaths: symbol_paths.default,
    fieldPaths: {
      question: fields.question.default,
      source: fields.source.default,
      opensAt: fields.opens_at.default,
      closesAt: fields.closes_at.default,
      resolvedAt: fields.resolved_at.default,
      outcome: fields.outcome.default,
      outcomeSource: fields.outcome_source.default,
      event: fields.event.default,
      exclusive: fields.exclusive.default,
      strikeLow: fields.strike_low.default,
      strikeHigh: fields.strike_high.default,
      expectedEnd: fields.expected_end.default,
      rules: fields.rules.default,
      feeSchedule: fields.fee_schedule.default,
      tickSize: fields.tick_size.default,
    },
  };
}

/** The market lists as last polled. */
interface MarketPoll {
  /** Time of the poll's response, epoch milliseconds; null if there was no poll. */
  readonly polledAt: number | null;
  readonly markets: readonly PolledMarket[];
}

interface PolledMarket {
  readonly views: ReadonlySet<string>;
  readonly sources: ReadonlySet<string>;
  /** The record as JSON, rebuilt from the archive. It may differ from the received record. */
  readonly text: string;
}

interface MarketPollReader {
  /**
   * The last poll of the lists, published or not. One poll is kept in memory until there is a later one.
   * @throws DamageError if its file is damaged
   */
  readLastPoll(): Promise<MarketPoll>;
  /** Every view in any published poll; cached per generation. */
  listViews(): Promise<readonly string[]>;
}

const emptyPoll: MarketPoll = { polledAt: null, markets: [] };
const queryBytesMax = 512 * 1024 ** 2;

/** @param paths paths of the symbols and fields within a record */
function openMarketPollReader(
  archive: Archive,
  current: ManifestWatcher,
  paths: RecordPaths,
  random: Random,
): MarketPollReader {
  let cached: { readonly key: string; readonly lists: Promise<MarketPoll> } | undefined;
  let views: { readonly manifest: Manifest; readonly names: Promise<readonly string[]> } | undefined;
  return {
    readLastPoll: () =>
      readConsistently(archive, current, (manifest) => {
        const poll = findLastPoll(archive, manifest);
        if (poll === undefined) return emptyPoll;
        if (cached?.key === poll.key) return cached.lists;
        // Concurrent requests share one read.
        const read = { key: poll.key, lists: readPoll(archive, manifest, poll, paths) };
        cached = read;
        read.lists.catch(() => {
          if (cached === read) cached = undefined;
        });
        return read.lists;
      }),
    async listViews() {
      const manifest = current.getManifest();
      if (views?.manifest !== manifest) {
        const names = readDistinctViews(archive, random);
        views = { manifest, names };
        names.catch(() => {
          views = undefined;
        });
      }
      return views.names;
    },
  };
}

/** Location of the last poll: a file, the journal, or both if files were imported in parts. */
interface PollReference {
  readonly at: number;
  readonly file: PublishedFile | null;
  readonly journaled: JournaledMarketPoll | null;
  /** Changes with the content. */
  readonly key: string;
}

function findLastPoll({ state }: Archive, { datasets }: Manifest): PollReference | undefined {
  const last = datasets.markets.files.reduce<PublishedFile | null>(
    (best, file) => (best === null || (file.t_max ?? 0) > (best.t_max ?? 0) ? file : best),
    null,
  );
  const lastJournaled = findLastJournaledPoll(state.db);
  const at = Math.max(last?.t_max ?? 0, lastJournaled?.observedAt ?? 0);
  if (at === 0) return undefined;
  const file = last?.t_max === at ? last : null;
  const journaled = lastJournaled?.observedAt === at ? lastJournaled : null;
  return { at, file, journaled, key: JSON.stringify([at, file?.sha256, journaled?.records]) };
}

/** Number of markets converted before other requests get a turn. */
const marketsPerBatch = 250;

async function readPoll(
  archive: Archive,
  manifest: Manifest,
  poll: PollReference,
  paths: RecordPaths,
): Promise<MarketPoll> {
  const { at, file, journaled } = poll;
  const published = file === null ? [] : readDayMarkets(archive, manifest, parseDayStart(file.date!));
  const journaledRows = journaled === null ? [] : readJournaledPoll(archive.state.db, journaled);
  const rows = new Map<string, MarketFacts>();
  for (const row of [...published.filter(({ lastSeen }) => lastSeen === at), ...journaledRows])
    rows.set(JSON.stringify([row.canonicalId, row.symbol]), row);
  const byMarket = Map.groupBy(
    [...rows.values()].sort((a, b) => compareUtf8(a.symbol ?? '', b.symbol ?? '')),
    ({ canonicalId }) => canonicalId,
  );
  const markets: PolledMarket[] = [];
  for (const [i, id] of [...byMarket.keys()].sort(compareUtf8).entries()) {
    if (i % marketsPerBatch === marketsPerBatch - 1) await new Promise((resolve) => setImmediate(resolve));
    for (const { record, ...rest } of rebuildMarketRecords(byMarket.get(id)!, paths))
      markets.push({ ...rest, text: JSON.stringify(record) });
  }
  return { polledAt: at, markets };
}

async function readDistinctViews(archive: Archive, random: Random): Promise<string[]> {
  const slice = { names: ['markets'], memoryBytesMax: queryBytesMax } as const;
  const { query, pinned, close } = await openPinned(archive, slice, random);
  try {
    for (const file of pinned.manifest.datasets.markets.files) requireFileIntact(archive.disk, pinned, file);
    const rows = await query.readRows('select distinct unnest(views) as name from markets order by name');
    return rows.map(({ name }) => String(name));
  } finally {
    await close();
  }
}
