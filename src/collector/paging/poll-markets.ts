import { hash } from 'node:crypto';
import { type MarketFacts, toMarketKey } from '../../archive/format/market.ts';
import { parseMarket, type RecordPaths } from '../../archive/format/parse-market.ts';
import type { ListCheck } from '../../archive/journal/list-checks.ts';
import type { MarketListing } from '../../archive/journal/nightly-memory.ts';
import { UpstreamError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import type { RejectedInput } from '../../base/ticks.ts';
import type { MarketsQuery, Upstream } from '../../client/upstream.ts';
import { describeOddCount, findListDoubt, isSourceCheckDue } from './list-proof.ts';
import { resolveObservedAt } from './observation.ts';

export interface MarketsPollContext {
  readonly upstream: Pick<Upstream, 'markets'>;
  readonly clock: Clock;
  readonly views: readonly string[];
  /** Maximum number of markets in the first request, if it differs from `marketsLimit`. */
  readonly limit?: number;
  readonly paths: RecordPaths;
  /** What an earlier poll found of a view's list; undefined: nothing. Null if it need not be proven whole, because it is already. */
  readonly getCheck: (view: string) => ListCheck | undefined | null;
  /** Maximum lead of the service's clock over ours, in ms. */
  readonly futureSkewMs: number;
  readonly signal: AbortSignal;
}

/** Markets per request. A list that is longer is requested once more, whole, so that a greater limit would only save that. */
export const marketsLimit = 1000;

/** The result of one view's list. `at`: time of the request if the list could not be fetched. */
interface ViewList extends MarketListing {
  /** To be recorded; null if nothing was to be proven. */
  readonly check: ListCheck | null;
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
  readonly doubt: string | null;
  readonly check: ListCheck | null;
}

export type MarketsPoll = Awaited<ReturnType<typeof pollMarkets>>;

/**
 * Polls the lists of all views. If a list fails, the others are still polled.
 * @throws UpstreamError if no list could be fetched, the credential is refused, or the service is unreachable from the start
 */
export async function pollMarkets(context: MarketsPollContext) {
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
      const { total, check } = list;
      const doubt = reason === null ? list.doubt : null;
      lists.push({ view, at: list.observedAt, markets: list.entries.size, total, reason, doubt, check });
      if (reason !== null) shortfalls.push(`markets of view ${view}: ${reason}`);
      for (const [id, { record, parsed }] of list.entries) {
        if ('reason' in parsed) rejected.set(id, { reason: parsed.reason, raw: JSON.stringify(record) });
        else for (const facts of parsed) noteMarket(markets, facts, view);
      }
    } catch (error) {
      if (!canContinueAfter(error, fetchedViews.size > 0)) throw error;
      failed.push({ view, error });
      lists.push({ view, at: askedAt, markets: 0, total: null, reason: error.reason, doubt: null, check: null });
    }
  }
  if (fetchedViews.size === 0 && failed.length > 0) throw failed.at(-1)!.error;
  return {
    /** Each market once per symbol, with those of the fetched views that list it. */
    markets: [...markets.values()].map(({ facts, views }) => ({ ...facts, views: [...views].sort() })),
    rejected: [...rejected.values()],
    observedAt,
    /** Whether every list is complete and most of it is usable. Only then does an absent market count as removed. */
    complete: shortfalls.length + failed.length === 0,
    /** The result of each view's list. */
    lists,
    /** Lists that were fetched but are not complete, one clause each. */
    shortfalls,
    /** Lists that nothing shows to be incomplete, and that are not known to be whole, one clause each. */
    doubts: lists.flatMap(({ view, doubt }) => (doubt === null ? [] : `view ${view}: ${doubt}`)),
    /** Views whose list could not be fetched while another one could. `reason` is one clause. */
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
  const key = toMarketKey(facts);
  const views = markets.get(key)?.views ?? new Set();
  markets.set(key, { facts, views: views.add(view) });
}

/** Whether the poll continues after an error. `hasResponse`: the service has responded before. */
const canContinueAfter = (error: unknown, hasResponse: boolean): error is UpstreamError =>
  error instanceof UpstreamError && error.failure !== 'credential' && (hasResponse || error.failure !== 'unreachable');

/** One response of the market route. */
interface FetchedList {
  readonly query: MarketsQuery;
  readonly count: number;
  /** The total that the service stated, or null. */
  readonly stated: number | null;
  /** The same or, if it stated none, the least number of markets that there are. */
  readonly total: number;
  /** The list is as long as requested and the service states no total: there may be more. */
  readonly open: boolean;
  /** The records that name a market which no response before named. */
  readonly further: number;
}

/**
 * Fetches a view's list. If its `total` shows that it is truncated, requests it with a larger limit, then for each source. If a
 * request after the first one fails, the records received so far are kept. For the other requests see list-proof.ts.
 */
async function fetchCompleteList(context: MarketsPollContext, view: string): Promise<MarketList> {
  const past = context.getCheck(view);
  const reader = createListReader(context);
  const { entries, fetchList, fetchMore } = reader;
  const first = await fetchList({ view, limit: context.limit ?? marketsLimit }).catch((error: unknown) => {
    // The service may refuse the limit. Without one it applies its own.
    if (isRequestRefused(error)) return fetchList({ view });
    throw error;
  });
  // Without a total it would confirm nothing.
  const confirmTotal = async () =>
    past === null || first.stated === null ? undefined : await fetchMore({ view, limit: 1 });
  let confirmation = await confirmTotal();
  const isContradicted = ({ stated }: FetchedList): boolean => (confirmation?.stated ?? stated) !== stated;
  const expected = Math.max(first.total, confirmation?.stated ?? 0);
  const largerQuery = { view, limit: first.open ? openLimitFactor * first.count : expected };
  const again =
    first.count < expected || isContradicted(first)
      ? await fetchMore(first.count < expected ? largerQuery : first.query)
      : undefined;
  // A refused limit would be refused for each source too.
  const last = again ?? first;
  const isCut = () => Math.max(first.count, last.count) < last.total && entries.size < last.total;
  const found = { markets: last.count, members: reader.hashMembers() };
  const isDue = past !== null && isSourceCheckDue(past, found, reader.observedAt());
  let further = again === undefined ? (confirmation?.further ?? 0) : 0;
  let unasked: string | null = null;
  const sources = listSources(entries.values());
  const isAsked = isCut() || isDue || isContradicted(last);
  for (const source of !isAsked ? [] : sources.length > 0 || !isDue ? sources : [null]) {
    if (reader.failure()?.failure === 'unreachable') break;
    const list = await fetchMore(source === null ? last.query : { ...last.query, source });
    further += list?.further ?? 0;
    // A service that refuses the parameter has no lists of single sources.
    if (list === undefined && !isRequestRefused(reader.failure()))
      unasked ??= source === null ? 'the list' : `the list of source ${source}`;
  }
  if (further > 0) confirmation = (await confirmTotal()) ?? confirmation;
  const result = { entries, observedAt: reader.observedAt(), total: last.stated };
  const reason = reader.failure()?.reason;
  const receivedText = last.open
    ? `${entries.size} received, and there may be more`
    : `${entries.size} of ${last.total} received`;
  const shortfall = isCut()
    ? `the list is truncated: ${receivedText}${reason === undefined ? '' : `; ${reason}`}`
    : null;
  if (past === null) return { ...result, shortfall, doubt: null, check: null };
  const facts = { total: last.stated, confirmed: confirmation?.stated, further, markets: entries.size, unasked };
  const doubt = findListDoubt(facts);
  const isRefuted = unasked !== null || (further > 0 && doubt !== null);
  const at = isRefuted ? 0 : isDue ? result.observedAt : (past?.at ?? 0);
  const countText = doubt === null ? '' : describeOddCount(last.count, past);
  return { ...result, shortfall, doubt: doubt === null ? null : doubt + countText, check: { at, ...found } };
}

/** Requests lists of one view, and collects their records. */
function createListReader({ upstream, clock, signal, paths, futureSkewMs }: MarketsPollContext) {
  const entries = new Map<string, MarketEntry>();
  const known = new Set<string>();
  let observedAt = 0;
  let failure: UpstreamError | null = null;
  /** Adds a record. Returns whether it names a market that no record before named. */
  const addRecord = (record: unknown, isOfSource: boolean): boolean => {
    const entry = { record, parsed: parseMarket(record, [], paths) };
    const id = computeIdentity(entry);
    const keys = 'reason' in entry.parsed ? [id] : entry.parsed.map(toMarketKey);
    const isFurther = keys.some((key) => !known.has(key));
    // A source may list a market with its own symbols only.
    if (isOfSource && !isFurther && !entries.has(id)) return false;
    for (const key of keys) known.add(key);
    entries.set(id, entry);
    return isFurther;
  };
  const fetchList = async (query: MarketsQuery): Promise<FetchedList> => {
    const sentAt = clock.nowMs();
    const { markets, total, generatedAt } = await upstream.markets({ ...query, askedAt: sentAt }, signal);
    observedAt = Math.max(observedAt, resolveObservedAt(generatedAt, sentAt, clock.nowMs() + futureSkewMs));
    const further = markets.filter((record) => addRecord(record, query.source !== undefined)).length;
    const count = markets.length;
    const open = total === null && query.limit !== undefined && count >= query.limit;
    return { query, count, stated: total, total: total ?? count + Number(open), open, further };
  };
  return {
    entries: entries as ReadonlyMap<string, MarketEntry>,
    observedAt: () => observedAt,
    /** The last failure, or null. */
    failure: () => failure,
    hashMembers: () => hash('sha256', [...entries.keys()].sort().join()),
    fetchList,
    /** Undefined if the request fails. */
    fetchMore: (query: MarketsQuery): Promise<FetchedList | undefined> =>
      fetchList(query).catch((error: unknown) => {
        if (!canContinueAfter(error, true)) throw error;
        failure = error;
        return undefined;
      }),
  };
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
