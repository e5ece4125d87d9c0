import type { CoveredWindow, Evidence } from '../../archive/format/coverage.ts';
import { precedenceRanks } from '../../archive/format/precedence.ts';
import type { TickRecord } from '../../archive/journal/journal.ts';
import type { BookRecord } from '../../archive/journal/journal-books.ts';
import { UpstreamError } from '../../base/errors.ts';
import { emptyTicks } from '../../base/ticks.ts';
import { subtract, type Window } from '../../base/window.ts';
import { decodeMarketsPage, decodeOrderbook, decodeTickPage } from '../../client/decode.ts';
import { UnreadableResponseError } from '../../client/json-response.ts';
import type { MarketsPage, TickPage, Upstream } from '../../client/upstream.ts';
import type { Origin, RawPage, RawPageHead, TickRequestPurpose } from '../../contract/raw-page.ts';
import { toBookRecord } from '../order-books/collect-books.ts';
import { comparePagesAtSide, findMedianTick } from '../paging/fetch-side.ts';
import { rejectedShareMax } from '../paging/fetch-steps.ts';
import { type Observation, observePage, resolveObservedAt } from '../paging/observation.ts';
import { type MarketsPoll, type MarketsPollContext, pollMarkets } from '../paging/poll-markets.ts';
import type { WindowSide } from '../paging/server-behavior.ts';

/** An answer of the tick route that was to bring ticks, as it was kept. */
export interface RawTickResponse {
  readonly head: RawPageHead;
  readonly symbol: string;
  readonly requested: { readonly from: number; readonly to: number };
  readonly meaning: TickRequestPurpose;
  readonly page: TickPage;
}

/**
 * Decodes an answer of the tick route; undefined for one of another route, or one that was to bring no ticks.
 * @throws UnreadableResponseError
 */
export function decodeRawTickResponse({ body, ...head }: RawPage): RawTickResponse | undefined {
  const { asked } = head;
  if (asked.route !== 'ticks' || asked.meaning === null) return undefined;
  const { symbol, from, to, meaning } = asked;
  return {
    head,
    symbol,
    requested: { from, to },
    meaning,
    page: { ...decodeTickPage(body, symbol), servedAt: head.servedAt },
  };
}

/** Reads kept responses of one run again, in the order in which they came. */
export interface PageReplayer {
  /** The ticks of a response, and what earlier ones of its symbol prove; undefined for a probe of an older version. */
  replay(raw: RawTickResponse): Omit<TickRecord, 'runId'> | undefined;
  /** What the last responses of each symbol prove. */
  finish(): Omit<TickRecord, 'runId'>[];
}

/** What is known of the window that the responses of a symbol are about. */
interface ReplayedWindow {
  readonly origin: Origin;
  readonly first: Observation;
  readonly low: PageChain;
  readonly high: PageChain;
}

interface PageChain {
  page: Observation;
  /** The last page left ticks out, and no other was kept that goes on from it. */
  isOpen: boolean;
  confirmed: Observation | null;
}

/**
 * Reads responses again and claims what they prove among themselves, as the collector did: nobody can be asked again.
 * What only one response speaks for is inferred.
 */
export function createPageReplayer(futureSkewMs: number): PageReplayer {
  const fetched = new Map<string, ReplayedWindow>();
  return {
    replay(raw) {
      const { meaning, page, symbol, requested, head } = raw;
      if (meaning.kind === 'probe') return undefined;
      // How full a page is chooses what to ask next, and nobody is asked here.
      const limit = Number.POSITIVE_INFINITY;
      const sent = { requested, limit, sentAt: head.askedAt, futureMs: head.receivedAt + futureSkewMs };
      const { observation, ticks, rejected } = observePage(page, meaning.asked, sent);
      const { observedAt } = observation;
      const { origin } = meaning;
      const record = {
        symbol,
        requestedWindow: meaning.asked,
        observedAt,
        origin,
        rank: precedenceRanks.poll,
        ticks,
        rejected,
      };
      const side = meaning.kind === 'low' || meaning.kind === 'high' ? meaning.kind : null;
      if (meaning.kind === 'recheck') return { ...record, covered: [] };
      const going = fetched.get(symbol);
      if (side !== null && going !== undefined && extendChain(going[side], observation, side))
        return { ...record, covered: [] };
      fetched.set(symbol, startReplayedWindow(origin, observation));
      return { ...record, covered: going === undefined ? [] : computeClaims(going) };
    },
    finish: () =>
      [...fetched].map(([symbol, going]) => ({
        symbol,
        requestedWindow: going.first.window,
        observedAt: going.first.observedAt,
        origin: going.origin,
        rank: precedenceRanks.poll,
        ticks: emptyTicks,
        rejected: [],
        covered: computeClaims(going),
      })),
  };
}

const startReplayedWindow = (origin: Origin, first: Observation): ReplayedWindow => ({
  origin,
  first,
  low: { page: first, isOpen: false, confirmed: null },
  high: { page: first, isOpen: false, confirmed: null },
});

/** Whether a response goes on from the last page of a side; what it shows of that page is noted. */
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

/** What the responses about one window prove. */
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
  const whole = {
    from: isIgnoring ? inner.from : low.page.claimableWindow.from,
    to: isIgnoring ? inner.to : high.page.claimableWindow.to,
  };
  if (isBad) return [];
  const evidence = low.confirmed !== null && high.confirmed !== null ? 'confirmed' : 'inferred';
  const until = Math.min(observedAt, low.confirmed?.observedAt ?? observedAt, high.confirmed?.observedAt ?? observedAt);
  const gaps = [first, low.page, high.page].flatMap((page) => page.gaps);
  return createClaims(low.isOpen || high.isOpen ? inner : whole, evidence, until, gaps);
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
 * Reads an answer of the order-book route as the collector does.
 * @throws UnreadableResponseError
 */
export function replayBook(
  { body, ...head }: RawPage,
  symbol: string,
  futureSkewMs: number,
): Omit<BookRecord, 'runId'> {
  const answer = decodeOrderbook(body, symbol);
  return toBookRecord(symbol, answer, { sentAt: head.askedAt, futureMs: head.receivedAt + futureSkewMs });
}

export interface ReplayMarketsContext extends Omit<MarketsPollContext, 'upstream'> {
  /** Told of each answer that cannot be decoded, with a clause. */
  onUnreadable(reason: string): void;
}

/**
 * Polls the market lists again, the answers of one poll being those that were kept of it: in order, as they came. A list
 * that is asked for now and was not had then makes the poll an incomplete one, so that it says of no market that it is gone.
 * @throws UpstreamError where no list can be had of them
 */
export function replayMarkets(pages: readonly RawPage[], context: ReplayMarketsContext): Promise<MarketsPoll> {
  const answers = pages.flatMap((page) => (page.asked.route === 'markets' ? [{ page, asked: page.asked }] : []));
  const views = answers.flatMap(({ asked }) => asked.view ?? []);
  const limit = answers[0]?.asked.limit ?? context.limit;
  return pollMarkets({
    ...context,
    limit,
    views: [...new Set([...views, ...context.views])],
    // Judged below, by the clock of then.
    futureSkewMs: Number.POSITIVE_INFINITY,
    upstream: { markets: (query) => Promise.resolve().then(() => answerTo(query)) },
  });

  function answerTo({ view, source, limit: wanted }: Parameters<Upstream['markets']>[0]): MarketsPage {
    for (const { page, asked } of answers) {
      const same = asked.view === (view ?? null) && asked.source === (source ?? null);
      if (!same || asked.limit !== (wanted ?? null)) continue;
      try {
        const { generatedAt, ...list } = decodeMarketsPage(page.body);
        return {
          ...list,
          generatedAt: resolveObservedAt(generatedAt, page.askedAt, page.receivedAt + context.futureSkewMs),
        };
      } catch (error) {
        if (!(error instanceof UnreadableResponseError)) throw error;
        context.onUnreadable(error.message);
      }
    }
    // As a service that does not take the limit: then, too, the list may have been had without one.
    throw new UpstreamError('market list', {
      failure: 'refused',
      status: 400,
      reason: 'it is not among the answers kept',
    });
  }
}
