import type { CoveredWindow, Evidence } from '../../archive/format/coverage.ts';
import { precedenceRanks } from '../../archive/format/precedence.ts';
import { qualifyMarket } from '../../archive/format/qualify-market.ts';
import type { TickRecord } from '../../archive/journal/journal.ts';
import type { BookRecord } from '../../archive/journal/journal-books.ts';
import { findFirstAtOrAfter } from '../../base/binary-search.ts';
import { UpstreamError } from '../../base/errors.ts';
import { parsePriceFormula } from '../../base/price-formula.ts';
import { qualifySymbol } from '../../base/source-name.ts';
import { emptyTicks } from '../../base/ticks.ts';
import { intersect, isEmpty, subtract, type Window } from '../../base/window.ts';
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
import { hasTooManyRejected, ignoresWindow } from '../paging/fetch-steps.ts';
import { type Observation, observePage, resolveObservedAt } from '../paging/observation.ts';
import { type MarketsPoll, type MarketsPollContext, marketsLimit, pollMarkets } from '../paging/poll-markets.ts';
import { cutClaim } from '../paging/prove-coverage.ts';
import { boundEdge, type Edge, proveEdge } from '../proof/proven.ts';
import { Night, pageCapMin } from '../proof/shown.ts';
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

/** What the replay keeps of a response until all of its run are read. */
interface ReplayedPage
  extends Pick<
    Observation,
    'shown' | 'claimableWindow' | 'observedAt' | 'generatedAt' | 'received' | 'gaps' | 'window'
  > {
  readonly origin: Origin;
  /** Whether it was requested for what it shows: it claims nothing by inference. */
  readonly isRecheck: boolean;
  /** Whether it keeps to the requested window. If not, it covers the range of its ticks only. */
  readonly isHeeding: boolean;
  /** Whether it disagrees with the response before it where both show ticks. */
  isDoubtful: boolean;
}

/** Replays the raw responses of one run and source in the order received. */
export type PageReplayer = ReturnType<typeof createPageReplayer>;

interface ReplayRules {
  readonly futureSkewMs: number;
  /** How long after its end a response must be generated to prove a window, in ms. */
  readonly settleMs: number;
  /** Known ticks of a symbol. */
  countKnown(symbol: string): number;
}

/**
 * Replays responses and claims what they prove by the rules of the collector, but without further requests: each is a witness for
 * the others of the run.
 */
export function createPageReplayer({ futureSkewMs, settleMs, countKnown }: ReplayRules) {
  const night = new Night();
  const replayed = new Map<string, ReplayedPage[]>();
  /** Of each symbol, the last page and the last one of a whole window, which the others repeat in parts. */
  const compared = new Map<string, { readonly page: ReplayedPage; readonly times: Float64Array }[]>();
  /** Keeps what a response shows. Undefined if too many of its elements are unusable: it claims nothing. */
  function keep(symbol: string, purpose: TickRequestPurpose, o: Observation): void {
    if (hasTooManyRejected(o) || (o.received > 0 && o.last === null)) return;
    night.note(symbol, o.shown, o.shownTimes, o.gaps);
    const pages = replayed.get(symbol) ?? [];
    replayed.set(symbol, pages);
    const { times, shown, claimableWindow, observedAt, generatedAt, received, gaps, window } = o;
    const doubtful = (compared.get(symbol) ?? []).filter((other) => disagree(other.times, times));
    for (const other of doubtful) other.page.isDoubtful = true;
    const page: ReplayedPage = {
      ...{ shown, claimableWindow, observedAt, generatedAt, received, gaps, window, origin: purpose.origin },
      isRecheck: purpose.kind === 'recheck',
      isHeeding: !ignoresWindow(o),
      isDoubtful: doubtful.length > 0,
    };
    pages.push(page);
    const whole = purpose.kind === 'whole' ? [] : (compared.get(symbol)?.slice(0, 1) ?? []);
    if (times.length > 0) compared.set(symbol, [...whole, { page, times }]);
  }
  return {
    /** To be passed to `decodeRawTickResponse`. */
    checkFields: createFieldCheck(),
    /** Returns the ticks of a response. What it claims, `finish` returns. */
    replay(raw: RawTickResponse): Omit<TickRecord, 'runId'> {
      const { meaning: purpose, page, symbol, requested, head } = raw;
      // Page sizes only decide the next request, and there is none here.
      const limit = Number.POSITIVE_INFINITY;
      const sent = { requested, limit, sentAt: head.askedAt, futureMs: head.receivedAt + futureSkewMs };
      const { observation, ticks, rejected } = observePage(page, purpose.asked, sent);
      keep(symbol, purpose, observation);
      return {
        symbol,
        requestedWindow: purpose.asked,
        observedAt: observation.observedAt,
        origin: purpose.origin,
        rank: precedenceRanks.poll,
        ticks,
        rejected,
        covered: [],
      };
    },
    /** Returns the claims of all responses. */
    finish: (): Omit<TickRecord, 'runId'>[] =>
      [...replayed].flatMap(([symbol, pages]) => {
        const knownCount = Math.max(night.countTicks(symbol), countKnown(symbol));
        return pages.map((page) => ({
          symbol,
          requestedWindow: page.window,
          observedAt: page.observedAt,
          origin: page.origin,
          rank: precedenceRanks.poll,
          ticks: emptyTicks,
          rejected: [],
          covered: computeClaims(symbol, page, pages, night, knownCount).flatMap((claim) => cutClaim(claim, settleMs)),
        }));
      }),
  };
}

/** Whether two responses show different ticks where both show some. Times are distinct and ascending. */
function disagree(a: Float64Array, b: Float64Array): boolean {
  if (a.length === 0 || b.length === 0) return false;
  const [from, to] = [Math.max(a[0]!, b[0]!), Math.min(a.at(-1)!, b.at(-1)!)];
  const within = (times: Float64Array) =>
    times.subarray(findFirstAtOrAfter(times, from), findFirstAtOrAfter(times, to + 1));
  const [ours, theirs] = [within(a), within(b)];
  return from <= to && (ours.length !== theirs.length || ours.some((t, i) => t !== theirs[i]));
}

/** The claims of a response, of which other responses for its symbol show where it was cut. */
function computeClaims(
  symbol: string,
  page: ReplayedPage,
  pages: readonly ReplayedPage[],
  night: Night,
  knownCount: number,
): Omit<CoveredWindow, 'origin'>[] {
  const { shown, claimableWindow, observedAt, received, isHeeding, isDoubtful, isRecheck, gaps } = page;
  const claim = (window: Window, evidence: Evidence): Omit<CoveredWindow, 'origin'>[] =>
    subtract(
      isRecheck && evidence === 'inferred'
        ? []
        : intersect([{ from: window.from, to: Math.min(window.to, observedAt) }], [claimableWindow]),
      gaps,
    )
      .filter((part) => !isEmpty(part))
      .map((part) => ({ ...part, fetchedAt: observedAt, evidence }));
  const { first, last } = shown;
  if (first === null || last === null) return isHeeding ? claim(claimableWindow, 'inferred') : [];
  if (!isHeeding) return claim({ from: first, to: last + 1 }, 'inferred');
  const others = pages.filter((other) => other !== page && other.shown.count > 0).map((other) => other.shown);
  const window = {
    from: others.reduce(
      (max, o) => Math.max(max, o.last! < first ? o.last! + 1 : o.first! < first ? first : max),
      claimableWindow.from,
    ),
    to: others.reduce(
      (min, o) => Math.min(min, o.first! > last ? o.first! : o.last! > last ? last + 1 : min),
      claimableWindow.to,
    ),
  };
  if (isDoubtful) return claim(window, 'inferred');
  const isRepeated = (isSame: (other: ReplayedPage) => boolean): boolean =>
    received < pageCapMin ||
    pages.some(
      (other) =>
        other.received < received &&
        isSame(other) &&
        (other.generatedAt === null || other.generatedAt !== page.generatedAt),
    );
  const edges: Edge[] = [
    {
      symbol,
      side: 'before',
      window: { from: window.from, to: first + 1 },
      shown,
      isUncapped: isRepeated((other) => other.shown.first === first && other.shown.from <= window.from),
      observedAt,
    },
    {
      symbol,
      side: 'after',
      window: { from: last, to: window.to },
      shown,
      isUncapped: isRepeated((other) => other.shown.last === last && other.shown.to >= window.to),
      observedAt,
    },
  ];
  const witnessed = night.witness(symbol, shown);
  return [
    ...claim(window, 'inferred'),
    ...claim({ from: first + 1, to: last }, 'confirmed'),
    ...edges.flatMap((edge) => claim(proveEdge(edge, boundEdge(edge, witnessed, knownCount, false)), 'confirmed')),
  ];
}

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
