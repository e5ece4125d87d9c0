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
  /** Maximum number of markets in the first request, if it differs from `marketsLimit`. */
  readonly limit?: number;
  readonly paths: RecordPaths;
  /** Maximum lead of the service's clock over ours, in ms. */
  readonly futureSkewMs: number;
  readonly signal: AbortSignal;
}

export interface MarketsPoll {
  /** Each market once per symbol, with those of the fetched views that list it. */
  readonly markets: readonly MarketFacts[];
  readonly rejected: readonly RejectedInput[];
  readonly observedAt: number;
  /** Whether every list is complete and most of it is usable. Only then does an absent market count as removed. */
  readonly complete: boolean;
  /** The result of each view's list. */
  readonly lists: readonly ViewList[];
  /** Lists that were fetched but are not complete, one clause each. */
  readonly shortfalls: readonly string[];
  /** Views whose list could not be fetched while another one could. `reason` is one clause. */
  readonly failed: readonly { readonly view: string; readonly reason: string }[];
}

/** Markets per request. A list that is longer is requested once more, whole, so that a greater limit would only save that. */
export const marketsLimit = 1000;

/** The result of one view's list. */
interface ViewList {
  readonly view: string;
  /** Generation time of the list, epoch ms. Time of the request if the list could not be fetched. */
  readonly at: number;
  /** Number of records in the list, and the total that the service stated. Null if it stated none. */
  readonly markets: number;
  readonly total: number | null;
  /** Why the list is not complete, as one clause. Null if it is complete. */
  readonly reason: string | null;
}

/** A record as received, and the facts parsed from it. */
interface MarketEntry {
  readonly record: unknown;
  readonly parsed: readonly MarketFacts[] | { readonly reason: string };
}

interface MarketList {
  /** By identity: a market that several responses contain counts once, and the latest response wins. */
  readonly entries: ReadonlyMap<string, MarketEntry>;
  readonly observedAt: number;
  /** The total that the service stated, or null. */
  readonly total: number | null;
  readonly shortfall: string | null;
}

/**
 * Polls the lists of all views. If a list fails, the others are still polled.
 * @throws UpstreamError if no list could be fetched, the credential is refused, or the service is unreachable from the start
 */
export async function pollMarkets(context: MarketsPollContext): Promise<MarketsPoll> {
  const markets = new Map<string, { facts: MarketFacts; views: Set<string> }>();
  const rejected = new Map<string, RejectedInput>();
  const lists: ViewList[] = [];
  const shortfalls: string[] = [];
  let observedAt = 0;
  const fetchedViews = new Set<string>();
  const failed: { view: string; error: UpstreamError }[] = [];
  for (const view of context.views) {
    const askedAt = context.clock.nowMs();
    try {
      const list = await fetchCompleteList(context, view);
      fetchedViews.add(view);
      observedAt = Math.max(observedAt, list.observedAt);
      const reason = list.shortfall ?? findUnusableReason([...list.entries.values()]);
      lists.push({ view, at: list.observedAt, markets: list.entries.size, total: list.total, reason });
      if (reason !== null) shortfalls.push(`markets of view ${view}: ${reason}`);
      for (const [id, { record, parsed }] of list.entries) {
        if ('reason' in parsed) rejected.set(id, { reason: parsed.reason, raw: JSON.stringify(record) });
        else for (const facts of parsed) noteMarket(markets, facts, view);
      }
    } catch (error) {
      if (!canContinueAfter(error, fetchedViews.size > 0)) throw error;
      failed.push({ view, error });
      lists.push({ view, at: askedAt, markets: 0, total: null, reason: error.reason });
    }
  }
  if (fetchedViews.size === 0 && failed.length > 0) throw failed.at(-1)!.error;
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

/** If most records of a list are unusable, the list does not show which markets exist. */
function findUnusableReason(entries: readonly MarketEntry[]): string | null {
  const rejected = entries.flatMap(({ parsed }) => ('reason' in parsed ? parsed.reason : []));
  if (rejected.length * 2 <= entries.length) return null;
  return `${rejected.length} of ${entries.length} records are unusable (${rejected[0]})`;
}

/** Adds a view's facts about a market. The facts of a later view win. */
function noteMarket(
  markets: Map<string, { facts: MarketFacts; views: Set<string> }>,
  facts: MarketFacts,
  view: string,
) {
  const key = JSON.stringify([facts.canonicalId, facts.symbol]);
  const views = markets.get(key)?.views ?? new Set();
  markets.set(key, { facts, views: views.add(view) });
}

/** Whether the poll continues after an error. `hasResponse`: the service has responded before. */
const canContinueAfter = (error: unknown, hasResponse: boolean): error is UpstreamError =>
  error instanceof UpstreamError && error.failure !== 'credential' && (hasResponse || error.failure !== 'unreachable');

/**
 * Fetches a view's list. If `total` shows that it is truncated, requests it with a larger limit, then for each venue. If a
 * request after the first one fails, the records received so far are kept.
 */
async function fetchCompleteList(context: MarketsPollContext, view: string): Promise<MarketList> {
  const entries = new Map<string, MarketEntry>();
  const failed: UpstreamError[] = [];
  let observedAt = 0;
  const fetchList = async (
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
    // The list is as long as requested and the service states no total: there may be more.
    const isOpen = page.total === null && query.limit !== undefined && count >= query.limit;
    return { query, total: page.total ?? (isOpen ? count + 1 : count), count, open: isOpen };
  };
  const fetchMore = (query: MarketsQuery) =>
    fetchList(query).catch((error: unknown) => {
      if (!canContinueAfter(error, true)) throw error;
      failed.push(error);
      return null;
    });
  const first = await fetchList({ view, limit: context.limit ?? marketsLimit }).catch((error: unknown) => {
    // The service may refuse the limit. Without one it applies its own.
    if (isRequestRefused(error)) return fetchList({ view });
    throw error;
  });
  const largerLimit = first.open ? openLimitFactor * first.count : first.total;
  const largerList = first.count < first.total ? await fetchMore({ view, limit: largerLimit }) : null;
  // A refused limit would be refused for each venue too.
  const { query, total, open: isOpen } = largerList ?? first;
  const isCut = () => Math.max(first.count, largerList?.count ?? 0) < total && entries.size < total;
  for (const source of isCut() ? listSources(entries.values()) : []) {
    if (failed.at(-1)?.failure === 'unreachable') break;
    await fetchMore({ ...query, source });
  }
  const statedTotal = isOpen ? null : total;
  if (!isCut()) return { entries, observedAt, total: statedTotal, shortfall: null };
  const suffix = failed.length === 0 ? '' : `; ${failed.at(-1)!.reason}`;
  const receivedText = isOpen
    ? `${entries.size} received, and there may be more`
    : `${entries.size} of ${total} received`;
  return { entries, observedAt, total: statedTotal, shortfall: `the list is truncated: ${receivedText}${suffix}` };
}

/** Factor by which the limit grows if the service states no total. */
const openLimitFactor = 10;

/**
 * Whether the service refused the request itself, which may be due to its limit. A 404 would also come without a limit.
 */
const isRequestRefused = (error: unknown): boolean =>
  error instanceof UpstreamError && [400, 413, 422].includes(error.status ?? 0);

/**
 * Returns a key that is equal for records of the same market. Venues may share a canonical_id but have separate
 * records.
 */
function computeIdentity({ record, parsed }: MarketEntry): string {
  if ('reason' in parsed) return JSON.stringify(record);
  return JSON.stringify([parsed[0]!.canonicalId, ...parsed.map((facts) => facts.symbol).sort()]);
}

/** All venues in the records. */
function listSources(entries: Iterable<MarketEntry>): string[] {
  const sources = new Set<string>();
  for (const { parsed } of entries) {
    if ('reason' in parsed) continue;
    for (const { source } of parsed) if (source !== null) sources.add(source);
  }
  return [...sources].sort();
}
