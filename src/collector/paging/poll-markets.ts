import type { MarketFacts } from '../../archive/format/market.ts';
import { parseMarket, type RecordPaths } from '../../archive/format/parse-market.ts';
import { UpstreamError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { RejectedInput } from '../../base/ticks.ts';
import type { MarketsQuery, Upstream } from '../../client/upstream.ts';
import { resolveObservedAt } from './observation.ts';

export interface MarketsPollContext {
  readonly upstream: Pick<Upstream, 'markets'>;
  readonly clock: Clock;
  readonly views: readonly string[];
  /** Markets asked for at first. */
  readonly limit: number;
  readonly paths: RecordPaths;
  /** How far ahead of ours the service's clock may be; milliseconds. */
  readonly futureSkewMs: number;
  readonly signal: AbortSignal;
}

export interface MarketsPoll {
  /** Each market once under each of its symbols, with the views that named it among those that answered. */
  readonly markets: readonly MarketFacts[];
  readonly rejected: readonly RejectedInput[];
  readonly observedAt: number;
  /** Whether every view was had whole, and most of it could be read: only then does an absence mean that a market is gone. */
  readonly complete: boolean;
  /** What became of each view's list. */
  readonly lists: readonly ViewList[];
  /** Lists that were not had whole while they answered, one clause each. */
  readonly shortfalls: readonly string[];
  /** Views whose list could not be had at all while another answered; `reason` is one clause. */
  readonly failed: readonly { readonly view: string; readonly reason: string }[];
}

/** What became of one view's list. */
export interface ViewList {
  readonly view: string;
  /** The moment that it is of, epoch ms; that of asking where it could not be had. */
  readonly at: number;
  /** Records that it named, and how many the service stated that there are; null where it stated none. */
  readonly named: number;
  readonly total: number | null;
  /** Why it was not had whole, one clause; null where it was. */
  readonly reason: string | null;
}

/** A record as received, and what it says. */
interface MarketEntry {
  readonly record: unknown;
  readonly parsed: readonly MarketFacts[] | { readonly reason: string };
}

interface MarketList {
  /** By identity, so that a market that several answers bring counts once; the latest of them wins. */
  readonly entries: ReadonlyMap<string, MarketEntry>;
  readonly observedAt: number;
  /** As the service stated it; null where it did not. */
  readonly total: number | null;
  readonly shortfall: string | null;
}

/**
 * Polls the lists of every view. What fails costs no more than what it would have brought.
 * @throws UpstreamError where no view answers, the credential is refused, or the service is out of reach from the start
 */
export async function pollMarkets(context: MarketsPollContext): Promise<MarketsPoll> {
  const markets = new Map<string, { facts: MarketFacts; views: Set<string> }>();
  const rejected = new Map<string, RejectedInput>();
  const lists: ViewList[] = [];
  const shortfalls: string[] = [];
  let observedAt = 0;
  const answered = new Set<string>();
  const failed: { view: string; error: UpstreamError }[] = [];
  for (const view of context.views) {
    const askedAt = context.clock.nowMs();
    try {
      const list = await fetchWholeList(context, view);
      answered.add(view);
      observedAt = Math.max(observedAt, list.observedAt);
      const reason = list.shortfall ?? findUnusableReason([...list.entries.values()]);
      lists.push({ view, at: list.observedAt, named: list.entries.size, total: list.total, reason });
      if (reason !== null) shortfalls.push(`markets of view ${view}: ${reason}`);
      for (const [id, { record, parsed }] of list.entries) {
        if ('reason' in parsed) rejected.set(id, { reason: parsed.reason, raw: JSON.stringify(record) });
        else for (const facts of parsed) noteMarket(markets, facts, view);
      }
    } catch (error) {
      if (!canContinueAfter(error, answered.size > 0)) throw error;
      failed.push({ view, error });
      lists.push({ view, at: askedAt, named: 0, total: null, reason: error.reason });
    }
  }
  if (answered.size === 0 && failed.length > 0) throw failed.at(-1)!.error;
  return {
    markets: [...markets.values()].map(({ facts, views }) => ({ ...facts, views: [...views].sort() })),
    rejected: [...rejected.values()],
    observedAt,
    complete: shortfalls.length + failed.length === 0,
    lists,
    shortfalls,
    failed: failed.map(({ view, error }) => ({ view, reason: error.reason })),
  };
}

/** Of a list most of whose records say nothing nobody knows whom it names. */
function findUnusableReason(entries: readonly MarketEntry[]): string | null {
  const rejected = entries.flatMap(({ parsed }) => ('reason' in parsed ? parsed.reason : []));
  if (rejected.length * 2 <= entries.length) return null;
  return `${rejected.length} of ${entries.length} records are unusable (${rejected[0]})`;
}

/** Enters what a view says of a market; the later view's facts win. */
function noteMarket(
  markets: Map<string, { facts: MarketFacts; views: Set<string> }>,
  facts: MarketFacts,
  view: string,
) {
  const key = JSON.stringify([facts.canonicalId, facts.symbol]);
  const views = markets.get(key)?.views ?? new Set();
  markets.set(key, { facts, views: views.add(view) });
}

/** Whether the poll goes on after an error. `reached`: the service has answered before. */
const canContinueAfter = (error: unknown, reached: boolean): error is UpstreamError =>
  error instanceof UpstreamError && error.failure !== 'credential' && (reached || error.failure !== 'unreachable');

/**
 * A view's list; where `total` says that it was cut off, asked again with a larger limit, then venue by venue. Once the
 * first answer is there, a request that fails leaves what was had.
 */
async function fetchWholeList(context: MarketsPollContext, view: string): Promise<MarketList> {
  const entries = new Map<string, MarketEntry>();
  const failed: UpstreamError[] = [];
  let observedAt = 0;
  const ask = async (
    query: MarketsQuery,
  ): Promise<{ query: MarketsQuery; total: number; count: number; open: boolean }> => {
    const sentAt = context.clock.nowMs();
    const page = await context.upstream.markets({ ...query, askedAt: sentAt }, context.signal);
    const futureMs = context.clock.nowMs() + context.futureSkewMs;
    observedAt = Math.max(observedAt, resolveObservedAt(page.generatedAt, sentAt, futureMs));
    for (const record of page.markets) {
      const entry = { record, parsed: parseMarket(record, [], context.paths) };
      entries.set(computeIdentity(entry), entry);
    }
    const count = page.markets.length;
    // A list as long as was asked for, of a service that states no total: there may be more.
    const open = page.total === null && query.limit !== undefined && count >= query.limit;
    return { query, total: page.total ?? (open ? count + 1 : count), count, open };
  };
  const askOn = (query: MarketsQuery) =>
    ask(query).catch((error: unknown) => {
      if (!canContinueAfter(error, true)) throw error;
      failed.push(error);
      return null;
    });
  const first = await ask({ view, limit: context.limit }).catch((error: unknown) => {
    // It may be the limit that the service does not take; without one it chooses its own.
    if (isRequestRefused(error)) return ask({ view });
    throw error;
  });
  const enough = first.open ? openLimitFactor * first.count : first.total;
  const larger = first.count < first.total ? await askOn({ view, limit: enough }) : null;
  // A limit that was refused would be refused for every venue, too.
  const { query, total, open } = larger ?? first;
  const isCut = () => Math.max(first.count, larger?.count ?? 0) < total && entries.size < total;
  for (const source of isCut() ? listSources(entries.values()) : []) {
    if (failed.at(-1)?.failure === 'unreachable') break;
    await askOn({ ...query, source });
  }
  const stated = open ? null : total;
  if (!isCut()) return { entries, observedAt, total: stated, shortfall: null };
  const why = failed.length === 0 ? '' : `; ${failed.at(-1)!.reason}`;
  const had = open ? `${entries.size} could be had, and there may be more` : `${entries.size} of ${total} could be had`;
  return { entries, observedAt, total: stated, shortfall: `the list was cut off: ${had}${why}` };
}

/** How many times as much is asked for where nothing says how much there is. */
const openLimitFactor = 10;

/** The statuses that blame the request itself; 404 and the like would come without a limit, too. */
const isRequestRefused = (error: unknown): boolean =>
  error instanceof UpstreamError && [400, 413, 422].includes(error.status ?? 0);

/** What makes a record the same market as another one: venues may share a canonical_id and have a record each. */
function computeIdentity({ record, parsed }: MarketEntry): string {
  if ('reason' in parsed) return JSON.stringify(record);
  return JSON.stringify([parsed[0]!.canonicalId, ...parsed.map((facts) => facts.symbol).sort()]);
}

/** Every venue that the records name. */
function listSources(entries: Iterable<MarketEntry>): string[] {
  const sources = new Set<string>();
  for (const { parsed } of entries) {
    if ('reason' in parsed) continue;
    for (const { source } of parsed) if (source !== null) sources.add(source);
  }
  return [...sources].sort();
}
