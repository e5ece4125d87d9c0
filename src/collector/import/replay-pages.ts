import type { CoveredWindow, Evidence } from '../../archive/format/coverage.ts';
import { precedenceRanks } from '../../archive/format/precedence.ts';
import { qualifyMarket } from '../../archive/format/qualify-market.ts';
import type { TickRecord } from '../../archive/journal/journal.ts';
import type { BookRecord } from '../../archive/journal/journal-books.ts';
import { UpstreamError } from '../../base/errors.ts';
import { parsePriceFormula } from '../../base/price-formula.ts';
import { qualifySymbol } from '../../base/source-name.ts';
import { emptyTicks } from '../../base/ticks.ts';
import { subtract, type Window } from '../../base/window.ts';
import {
  createFieldCheck,
  decodeMarketsPage,
  decodeOrderbook,
  decodeTickPage,
  type FieldCheck,
} from '../../client/decode.ts';
import { UnreadableResponseError } from '../../client/response-body.ts';
import type { MarketsPage, TickPage, Upstream } from '../../client/upstream.ts';
import type { Origin, RawPage, RawPageHead, TickRequestPurpose } from '../../contract/raw-page.ts';
import { toBookRecord } from '../order-books/collect-books.ts';
import { comparePagesAtSide, findMedianTick } from '../paging/fetch-side.ts';
import { rejectedShareMax } from '../paging/fetch-steps.ts';
import { type Observation, observePage, resolveObservedAt } from '../paging/observation.ts';
import { type MarketsPoll, type MarketsPollContext, marketsLimit, pollMarkets } from '../paging/poll-markets.ts';
import type { WindowSide } from '../paging/server-behavior.ts';
import type { PriceScale } from './import-rows.ts';

/** A raw response of the tick route whose request was for ticks. */
interface RawTickResponse {
  readonly head: RawPageHead;
  /** Qualified by the source of the response, if it has one. */
  readonly symbol: string;
  readonly requested: { readonly from: number; readonly to: number };
  readonly meaning: TickRequestPurpose;
  readonly page: TickPage;
}

/**
 * Decodes a response of the tick route. Undefined if it belongs to another route, or if its request was not for ticks.
 * @param scale the scale of prices of which the response does not say how they are read
 * @throws UnreadableResponseError
 */
export function decodeRawTickResponse(
  { body, ...head }: RawPage,
  checkFields?: FieldCheck,
  scale: PriceScale | null = null,
): RawTickResponse | undefined {
  const { asked: rawRequest } = head;
  if (rawRequest.route !== 'ticks' || rawRequest.meaning === null) return undefined;
  const { symbol, from, to, meaning: purpose } = rawRequest;
  const page = decodeTickPage(body, symbol, undefined, checkFields);
  return {
    head,
    symbol: qualifySymbol(head.source ?? null, symbol),
    requested: { from, to },
    meaning: purpose,
    page: { ...page, p: convertPrices(page.p, head.price, scale), servedAt: head.servedAt },
  };
}

function convertPrices(p: Float64Array, formula: string | undefined, scale: PriceScale | null): Float64Array {
  if (formula !== undefined) return p.map(parsePriceFormula(formula));
  return scale === null ? p : p.map((price) => (price * scale.factor) / scale.divisor);
}

/** The current window of a symbol, with the responses for it. */
interface ReplayedWindow {
  readonly origin: Origin;
  readonly first: Observation;
  readonly low: PageChain;
  readonly high: PageChain;
}

interface PageChain {
  page: Observation;
  /** The last page was truncated, and no stored response continues from it. */
  isOpen: boolean;
  confirmed: Observation | null;
}

/** Replays the raw responses of one run in the order received. */
export type PageReplayer = ReturnType<typeof createPageReplayer>;

/**
 * Replays responses and computes their coverage, like the collector, but without further requests. If only one response
 * covers a window, the window is inferred.
 */
export function createPageReplayer(futureSkewMs: number) {
  const fetched = new Map<string, ReplayedWindow>();
  return {
    /** To be passed to `decodeRawTickResponse`. */
    checkFields: createFieldCheck(),
    /** Returns the ticks of a response, and the claims that earlier responses for its symbol allow. */
    replay(raw: RawTickResponse): Omit<TickRecord, 'runId'> {
      const { meaning: purpose, page, symbol, requested, head } = raw;
      // Page sizes only decide the next request, and there is none here.
      const limit = Number.POSITIVE_INFINITY;
      const sent = { requested, limit, sentAt: head.askedAt, futureMs: head.receivedAt + futureSkewMs };
      const { observation, ticks, rejected } = observePage(page, purpose.asked, sent);
      const { observedAt } = observation;
      const { origin } = purpose;
      const record = {
        symbol,
        requestedWindow: purpose.asked,
        observedAt,
        origin,
        rank: precedenceRanks.poll,
        ticks,
        rejected,
      };
      const side = purpose.kind === 'low' || purpose.kind === 'high' ? purpose.kind : null;
      if (purpose.kind === 'recheck') return { ...record, covered: [] };
      const current = fetched.get(symbol);
      if (side !== null && current !== undefined && extendChain(current[side], observation, side))
        return { ...record, covered: [] };
      fetched.set(symbol, startReplayedWindow(origin, observation));
      return { ...record, covered: current === undefined ? [] : computeClaims(current) };
    },
    /** Returns the claims that the last responses of each symbol allow. */
    finish: (): Omit<TickRecord, 'runId'>[] =>
      [...fetched].map(([symbol, current]) => ({
        symbol,
        requestedWindow: current.first.window,
        observedAt: current.first.observedAt,
        origin: current.origin,
        rank: precedenceRanks.poll,
        ticks: emptyTicks,
        rejected: [],
        covered: computeClaims(current),
      })),
  };
}

const startReplayedWindow = (origin: Origin, first: Observation): ReplayedWindow => ({
  origin,
  first,
  low: { page: first, isOpen: false, confirmed: null },
  high: { page: first, isOpen: false, confirmed: null },
});

/** Whether a response continues from the last page of a side. Records what it shows about that page. */
function extendChain(chain: PageChain, next: Observation, side: WindowSide): boolean {
  if (chain.page.times.length === 0 || next.times.length === 0 || next.countBefore > 1 || next.countAfter > 1)
    return false;
  const beginTick = side === 'high' ? next.times[0]! : next.times.at(-1)!;
  if (!chain.page.times.includes(beginTick)) return false;
  const relation = comparePagesAtSide(chain.page.times, next.times, beginTick, side);
  if (relation === 'contradicts') return false;
  if (relation === 'same') {
    const isFromMedian =
      side === 'high'
        ? beginTick <= findMedianTick(chain.page.times, side)
        : beginTick >= findMedianTick(chain.page.times, side);
    if (isFromMedian && next.received < chain.page.received) chain.confirmed = next;
    return true;
  }
  chain.page = next;
  chain.confirmed = null;
  chain.isOpen = relation === 'shorter';
  return true;
}

/** The claims that the responses for one window allow. */
function computeClaims({ first, low, high }: ReplayedWindow): Omit<CoveredWindow, 'origin'>[] {
  const observedAt = Math.min(first.observedAt, low.page.observedAt, high.page.observedAt);
  if (first.received > 0 && first.last === null) return [];
  const isIgnoring = first.countBefore > 1 || first.countAfter > 1;
  const isBad = [first, low.page, high.page].some(({ received, rejected }) => rejected > rejectedShareMax * received);
  if (first.times.length === 0) {
    const { from, to } = first.claimableWindow;
    return isIgnoring || isBad ? [] : createClaims({ from, to }, 'inferred', observedAt, first.gaps);
  }
  const inner = { from: low.page.times[0]!, to: high.page.times.at(-1)! + 1 };
  const full = {
    from: isIgnoring ? inner.from : low.page.claimableWindow.from,
    to: isIgnoring ? inner.to : high.page.claimableWindow.to,
  };
  if (isBad) return [];
  const evidence = low.confirmed !== null && high.confirmed !== null ? 'confirmed' : 'inferred';
  const until = Math.min(observedAt, low.confirmed?.observedAt ?? observedAt, high.confirmed?.observedAt ?? observedAt);
  const gaps = [first, low.page, high.page].flatMap((page) => page.gaps);
  return createClaims(low.isOpen || high.isOpen ? inner : full, evidence, until, gaps);
}

const createClaims = (
  window: Window,
  evidence: Evidence,
  fetchedAt: number,
  gaps: readonly Window[],
): Omit<CoveredWindow, 'origin'>[] =>
  subtract([{ from: window.from, to: Math.min(window.to, fetchedAt) }], gaps).map((w) => ({
    ...w,
    fetchedAt,
    evidence,
  }));

/**
 * Decodes a response of the order-book route like the collector.
 * @throws UnreadableResponseError
 */
export function replayBook(
  { body, ...head }: RawPage,
  symbol: string,
  futureSkewMs: number,
): Omit<BookRecord, 'runId'> {
  const response = { ...decodeOrderbook(body, symbol), requestedSymbol: symbol };
  return toBookRecord(qualifySymbol(head.source ?? null, symbol), response, {
    sentAt: head.askedAt,
    futureMs: head.receivedAt + futureSkewMs,
  });
}

interface ReplayMarketsContext extends Omit<MarketsPollContext, 'upstream' | 'getCheck'> {
  /** Called for each response that cannot be decoded. `reason` is one clause. */
  onUnreadable(reason: string): void;
}

/**
 * Repeats a poll of the market lists with its raw responses, in the order received. If a configured list is not among them,
 * the poll is incomplete, and no market counts as removed.
 * @throws UpstreamError if there is no response for any list
 */
export function replayMarkets(pages: readonly RawPage[], context: ReplayMarketsContext): Promise<MarketsPoll> {
  const responses = pages.flatMap((page) => (page.asked.route === 'markets' ? [{ page, asked: page.asked }] : []));
  const views = responses.flatMap(({ asked: rawRequest }) => rawRequest.view ?? []);
  const limit = responses[0]?.asked.limit ?? marketsLimit;
  return pollMarkets({
    ...context,
    getCheck: () => undefined,
    limit,
    views: [...new Set([...views, ...context.views])],
    // `answerTo` checks the time, against the clock at the time of the response.
    futureSkewMs: Number.POSITIVE_INFINITY,
    upstream: { markets: (query) => Promise.resolve().then(() => answerTo(query)) },
  });

  function answerTo({ view, source: venue, limit: requestedLimit }: Parameters<Upstream['markets']>[0]): MarketsPage {
    for (const { page, asked: rawRequest } of responses) {
      const isSameList = rawRequest.view === (view ?? null) && rawRequest.source === (venue ?? null);
      if (!isSameList || rawRequest.limit !== (requestedLimit ?? null)) continue;
      try {
        const { generatedAt, markets, ...list } = decodeMarketsPage(page.body);
        const qualify = (name: string): string => qualifySymbol(page.source ?? null, name);
        const { symbolPaths } = context.paths;
        return {
          ...list,
          markets:
            page.source === undefined ? markets : markets.map((record) => qualifyMarket(record, qualify, symbolPaths)),
          generatedAt: resolveObservedAt(generatedAt, page.askedAt, page.receivedAt + context.futureSkewMs),
        };
      } catch (error) {
        if (!(error instanceof UnreadableResponseError)) throw error;
        context.onUnreadable(error.message);
      }
    }
    // The status with which a service rejects a limit: the raw response may belong to a request without one.
    throw new UpstreamError('market list', {
      failure: 'refused',
      status: 400,
      reason: 'no raw response for this request',
    });
  }
}
