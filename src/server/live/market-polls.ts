import type { Archive } from '../../archive/archive.ts';
import type { Manifest, PublishedFile } from '../../archive/format/manifest.ts';
import type { MarketFacts } from '../../archive/format/market.ts';
import { type RecordPaths, rebuildMarketRecords } from '../../archive/format/parse-market.ts';
import {
  findLastJournaledPolls,
  type JournaledMarketPoll,
  readJournaledPoll,
} from '../../archive/journal/journal-markets.ts';
import { readDayMarkets } from '../../archive/publish/day-tables.ts';
import { openPinned } from '../../archive/query/pinned-query.ts';
import { requireFileIntact } from '../../archive/read/export-file.ts';
import { type ManifestWatcher, readConsistently } from '../../archive/read/manifest-watcher.ts';
import { memoize } from '../../base/memoize.ts';
import type { Random } from '../../base/ports.ts';
import { findSource } from '../../base/source-name.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import { parseDayStart } from '../../base/time.ts';
import { settingsSchema } from '../../settings/setting-table.ts';
import { nestSettings } from '../../settings/settings.ts';

/** The market lists as last polled: of an archive with several sources, those of each source. */
export interface MarketPoll {
  /**
   * Time of the poll's response, epoch milliseconds; null if there was no poll. Of several sources, that of the one that was
   * polled longest ago.
   */
  readonly polledAt: number | null;
  /** The times of all sources that were polled. Null: the only service. */
  readonly polledAtBySource: ReadonlyMap<string | null, number>;
  readonly markets: readonly PolledMarket[];
}

export interface PolledMarket {
  readonly views: ReadonlySet<string>;
  readonly sources: ReadonlySet<string>;
  /** The record as JSON, rebuilt from the archive. It may differ from the received record. */
  readonly text: string;
}

const emptyPoll: MarketPoll = { polledAt: null, polledAtBySource: new Map(), markets: [] };
const queryBytesMax = 512 * 1024 ** 2;

/** Published days in which the last poll of each of several sources is searched, newest first. */
const daysMax = 31;

export type MarketPollReader = ReturnType<typeof openMarketPollReader>;

/** Opens a reader for an archive that this and other processes write. */
export function openMarketPollReader(archive: Archive, current: ManifestWatcher, random: Random) {
  const paths = createDefaultPaths();
  let cached: { readonly key: string; readonly lists: Promise<MarketPoll> } | undefined;
  let views: { readonly manifest: Manifest; readonly names: Promise<readonly string[]> } | undefined;
  return {
    /**
     * The last poll of the lists, published or not. One poll is kept in memory until there is a later one.
     * @throws DamageError if its file is damaged
     */
    readLastPoll: (): Promise<MarketPoll> =>
      readConsistently(archive, current, (manifest) => {
        const found = findLastPolls(archive, manifest);
        if (found.files.length === 0 && found.journaled.size === 0) return emptyPoll;
        if (cached?.key === found.key) return cached.lists;
        // Concurrent requests share one read.
        const read = { key: found.key, lists: readPolls(archive, manifest, found, paths) };
        cached = read;
        read.lists.catch(() => {
          if (cached === read) cached = undefined;
        });
        return read.lists;
      }),
    /** Every view in any published poll; cached per generation. */
    async listViews(): Promise<readonly string[]> {
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

/** Where the last polls are: in files, in the journal, or in both if files were imported in parts. */
interface FoundPolls {
  readonly sources: readonly (string | null)[];
  /** Published days that may have them, newest first. */
  readonly files: readonly PublishedFile[];
  /** The last one of each source. Null: the only service, or an import, which may be of any source. */
  readonly journaled: ReadonlyMap<string | null, JournaledMarketPoll>;
  /** Changes with the content. */
  readonly key: string;
}

function findLastPolls({ state }: Archive, manifest: Manifest): FoundPolls {
  const journaled = findLastJournaledPolls(state.db);
  // The manifest lacks a source that was added since the last publish.
  const polled = [...journaled.keys()].filter((source) => source !== null);
  const names = [...new Set([...(manifest.sources ?? []).map(({ name }) => name), ...polled])];
  const files = listLatestFiles(manifest);
  const key = JSON.stringify([names, files.map(({ sha256 }) => sha256), ...journaled]);
  return { sources: names.length === 0 ? [null] : names, files, journaled, key };
}

/** The published market files with the latest polls, newest first. */
const listLatestFiles = memoize(({ datasets, sources }: Manifest): readonly PublishedFile[] =>
  datasets.markets.files
    .filter((file) => file.t_max !== null)
    .sort((a, b) => b.t_max! - a.t_max!)
    .slice(0, sources === undefined ? 1 : daysMax),
);

/** The markets of one source in its last poll. */
interface SourcePoll {
  readonly at: number;
  readonly rows: readonly MarketFacts[];
}

/** Number of markets converted before other requests get a turn. */
const marketsPerBatch = 250;

async function readPolls(
  archive: Archive,
  manifest: Manifest,
  found: FoundPolls,
  paths: RecordPaths,
): Promise<MarketPoll> {
  const published = readPublishedPolls(archive, manifest, found);
  const journaled = readJournaledPolls(archive, found);
  const rows = new Map<string, MarketFacts>();
  const times = new Map<string | null, number>();
  for (const source of found.sources) {
    const polls = [published.get(source) ?? [], journaled.get(source) ?? []].flat();
    if (polls.length === 0) continue;
    const at = Math.max(...polls.map((poll) => poll.at));
    times.set(source, at);
    for (const poll of polls)
      if (poll.at === at) for (const row of poll.rows) rows.set(JSON.stringify([row.canonicalId, row.symbol]), row);
  }
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
  return { polledAt: times.size === 0 ? null : Math.min(...times.values()), polledAtBySource: times, markets };
}

/** The published last poll of each source. Reads a file only if a source has no later journaled poll. */
function readPublishedPolls(
  archive: Archive,
  manifest: Manifest,
  { sources, files, journaled }: FoundPolls,
): Map<string | null, SourcePoll> {
  const names = sources.filter((source) => source !== null);
  const polls = new Map<string | null, SourcePoll>();
  for (const file of files) {
    const missing = sources.filter(
      (source) => !polls.has(source) && (journaled.get(source)?.observedAt ?? 0) <= file.t_max!,
    );
    if (missing.length === 0) break;
    const rows = readDayMarkets(archive, manifest, parseDayStart(file.date!));
    const bySource = Map.groupBy(rows, ({ canonicalId }) => findSource(canonicalId, names));
    for (const source of missing) {
      const own = bySource.get(source) ?? [];
      const at = own.reduce((latest, { lastSeen }) => Math.max(latest, lastSeen), 0);
      if (own.length > 0) polls.set(source, { at, rows: own.filter(({ lastSeen }) => lastSeen === at) });
    }
  }
  return polls;
}

/** The journaled last polls of each source: that of a run, and that of an import. @throws JournalDamageError */
function readJournaledPolls(
  { state }: Archive,
  { sources, journaled }: FoundPolls,
): ReadonlyMap<string | null, readonly SourcePoll[]> {
  const names = sources.filter((source) => source !== null);
  const polls = [...journaled].flatMap(([source, poll]) => {
    const rows = readJournaledPoll(state.db, poll);
    const at = poll.observedAt;
    if (source !== null || names.length === 0) return [{ source, at, rows }];
    return [...Map.groupBy(rows, ({ canonicalId }) => findSource(canonicalId, names))].map(([of, own]) => ({
      source: of,
      at,
      rows: own,
    }));
  });
  return Map.groupBy(polls, ({ source }) => source);
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

/** A collector's default paths for reading records. */
function createDefaultPaths(): RecordPaths {
  const { symbol_paths, field_paths } = settingsSchema.properties.source.properties;
  const fields = Object.entries(field_paths.properties).map(([name, { default: paths }]) => [name, paths] as const);
  return {
    symbolPaths: symbol_paths.default,
    fieldPaths: nestSettings(new Map(fields)) as unknown as RecordPaths['fieldPaths'],
  };
}
