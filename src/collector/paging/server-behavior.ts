import { dayMs, hourMs, minuteMs, type Window } from '../../base/window.ts';
import { type Night, pageCapMin } from '../proof/shown.ts';

/** The side of a window that a truncated page keeps. */
type TruncationSide = 'earliest' | 'latest';

/** The side of a window at which the next request continues: its start or its end. */
export type WindowSide = 'low' | 'high';

/**
 * What a run has inferred about the server's paging. Shared by all symbols, because one server serves them all. It is
 * only used to choose the next request and to save requests; it is not evidence that a window is complete.
 */
export interface ServerBehavior {
  /** Number of elements in the largest page shown to be complete, and in the largest page overall. */
  largestWhole: number;
  largestPage: number;
  /** Sizes of the smallest and largest pages shown to be truncated. Infinity and 0 before the first one. */
  truncatedMin: number;
  truncatedMax: number;
  truncatedPages: number;
  /** The side that truncated pages kept. Null if unknown, or if both were seen. */
  side: TruncationSide | null;
  isSideMixed: boolean;
  /** Responses that disagreed with an earlier one about ticks that both should contain. */
  contradictions: number;
  /** Whether rechecks found that the server omits ticks. Windows are then compared with narrower ones. */
  omitsTicks: boolean;
  /**
   * Whether a truncated page was smaller than a complete one: page sizes then no longer show that a page is complete.
   */
  isErratic: boolean;
  /** Whether a response has contained a tick exactly at the requested start, or end. */
  fromInclusive: boolean;
  toInclusive: boolean;
  /** The server rounds the bounds of requests to multiples of this, in ms; 1: it does not. Requests are then made on this grid. */
  gridMs: number;
  /** How many more searches for it may fail. */
  gridSearchesLeft: number;
  /** Whether the server serves nothing before the start that a response stated. */
  refusesEarlier: boolean;
  /** Largest number of ticks, and longest window in ms, that the server accepts per request. Infinite until a refusal. */
  limit: number;
  windowMsMax: number;
  /** How far answers reached from the ends of a longer request, in ms; Infinity: as far as requested. */
  reachMs: number;
  /** Whether a request with the current limit got a response, and the longest window that got one, in ms. */
  isLimitConfirmed: boolean;
  windowMsAcceptedMax: number;
  /** The server refused requests for times before this one, for at least one symbol. Epoch ms. */
  refusedBefore: number;
  /** The running search for an accepted request size, and how many more searches may fail. */
  sizeSearch: Promise<boolean> | null;
  sizeSearchesLeft: number;
}

/** What is kept between runs: page sizes, the side that truncated pages kept, the grid and the reach. */
export type KnownPages = Pick<
  ServerBehavior,
  'largestWhole' | 'truncatedMin' | 'truncatedMax' | 'truncatedPages' | 'side' | 'isSideMixed' | 'gridMs' | 'reachMs'
>;

/**
 * Returns what is kept for the next run. Null if no page was shown to be complete or truncated. If page sizes turned out to
 * be unreliable, only the sizes of truncated pages are kept.
 */
export function getKnownPages(behavior: ServerBehavior): KnownPages | null {
  const { truncatedMin, truncatedMax, truncatedPages, side, isSideMixed, gridMs, reachMs } = behavior;
  if (behavior.largestWhole === 0 && truncatedPages === 0 && gridMs === 1 && !Number.isFinite(reachMs)) return null;
  const largestWhole = behavior.isErratic ? 0 : behavior.largestWhole;
  return { largestWhole, truncatedMin, truncatedMax, truncatedPages, side, isSideMixed, gridMs, reachMs };
}

/**
 * Creates the behavior of an unknown server.
 * @param known what an earlier run kept; it saves requests and is not evidence
 */
export const createServerBehavior = (known: Partial<KnownPages> = {}): ServerBehavior => ({
  largestWhole: 0,
  largestPage: 0,
  truncatedMin: Number.POSITIVE_INFINITY,
  truncatedMax: 0,
  truncatedPages: 0,
  side: null,
  isSideMixed: false,
  contradictions: 0,
  isErratic: false,
  omitsTicks: false,
  fromInclusive: false,
  gridMs: 1,
  gridSearchesLeft: 2,
  toInclusive: false,
  refusesEarlier: false,
  limit: Number.POSITIVE_INFINITY,
  windowMsMax: Number.POSITIVE_INFINITY,
  reachMs: Number.POSITIVE_INFINITY,
  isLimitConfirmed: false,
  windowMsAcceptedMax: 0,
  refusedBefore: Number.NEGATIVE_INFINITY,
  sizeSearch: null,
  sizeSearchesLeft: 4,
  ...known,
});

/** A page counts as truncated if it has at least this share of the smallest truncated page, because page caps vary. */
export const truncatedShare = 0.8;

/** Records a page that was truncated at one side of its window. */
export function noteTruncated(behavior: ServerBehavior, count: number, side: WindowSide): void {
  if (count < 2) return;
  behavior.truncatedPages++;
  behavior.truncatedMin = Math.min(behavior.truncatedMin, count);
  behavior.truncatedMax = Math.max(behavior.truncatedMax, count);
  if (count < behavior.largestWhole) behavior.isErratic = true;
  const keptSide = side === 'high' ? 'earliest' : 'latest';
  if (behavior.isSideMixed || behavior.side === keptSide) return;
  if (behavior.side !== null) {
    behavior.isSideMixed = true;
    behavior.side = null;
  } else behavior.side = keptSide;
}

/** Records a page that was shown to be complete. */
export function noteComplete(behavior: ServerBehavior, count: number): void {
  behavior.largestWhole = Math.max(behavior.largestWhole, count);
}

/**
 * Whether a page may be truncated at a side: it has the requested number of elements, or as many as truncated pages have.
 */
export function looksTruncated(
  behavior: ServerBehavior,
  { received: count, isFull }: { readonly received: number; readonly isFull: boolean },
  side: WindowSide,
): boolean {
  if (count < pageCapMin && !isFull) return false;
  if (behavior.isErratic) return true;
  if (behavior.truncatedPages === 0) return isFull || count > behavior.largestWhole;
  if (behavior.side === (side === 'high' ? 'latest' : 'earliest')) return false;
  return (
    isFull ||
    count >= truncatedShare * behavior.truncatedMin ||
    count > Math.max(behavior.largestWhole, behavior.truncatedMin)
  );
}

/** A page below this share of the largest page is not truncated: page caps are assumed to vary by less. */
export const smallPageShare = 0.2;

/**
 * Infers from the edges of a response whether the server includes the requested start and end. Some servers also return
 * the last tick before the window. More ticks outside the window mean that the server ignores from/to; the response
 * then shows nothing. `t` in epoch ms, in any order.
 */
export function noteEdges(behavior: ServerBehavior, requested: Window, t: Float64Array): void {
  if (behavior.fromInclusive && behavior.toInclusive) return;
  let atFrom = false;
  let atTo = false;
  let beyond: number | null = null;
  for (let i = 0; i < t.length; i++) {
    const time = t[i]!;
    if (time < requested.from || time > requested.to) {
      if (beyond !== null && beyond !== time) return;
      beyond = time;
    }
    if (time === requested.from) atFrom = true;
    if (time === requested.to) atTo = true;
  }
  behavior.fromInclusive ||= atFrom;
  behavior.toInclusive ||= atTo;
}

/** Servers round to whole seconds, minutes or UTC days. In ms. */
export const grids = [1000, minuteMs, dayMs] as const;

export const widenToGrid = ({ from, to }: Window, gridMs: number): Window => ({
  from: Math.floor(from / gridMs) * gridMs,
  to: Math.ceil(to / gridMs) * gridMs,
});

/**
 * The window to put into a request, on the grid of the server. It begins one millisecond early and ends at the excluded end, so that no tick is
 * missed whether or not the server includes the ends. `isExact`: omit the margin at each end that the server is known
 * to include.
 */
export function toRequestedWindow(behavior: ServerBehavior, { from, to }: Window, isExact: boolean): Window {
  const { gridMs } = behavior;
  if (gridMs > 1) return widenToGrid({ from: from - 1, to }, gridMs);
  return {
    from: isExact && behavior.fromInclusive ? from : from - 1,
    to: isExact && behavior.toInclusive ? to - 1 : to,
  };
}

/** Notes how far the answers of a run reached: no further than requests that are not refused. */
export function noteReach(behavior: ServerBehavior, { requestedMs, reachMs }: ReturnType<Night['measureReach']>): void {
  const isFurther = (ms: number): boolean => requestedMs - ms > dayMs / 2;
  if (Number.isFinite(behavior.windowMsMax)) behavior.reachMs = behavior.windowMsMax;
  else if (isFurther(reachMs)) behavior.reachMs = reachMs;
  else if (isFurther(behavior.reachMs)) behavior.reachMs = Number.POSITIVE_INFINITY;
}

/** Windows are requested as a whole if answers reach at least this far, in ms. */
export const reachMsMin = 5 * dayMs;

/** Pieces overlap by this much at each end, so that busy symbols show in each that the server reaches beyond it. In ms. */
const pieceMarginMs = hourMs;

/**
 * Splits a window into pieces that answers reach: whole UTC days, or half ones if they reach less than 27 h. One window if it is
 * short, or if they reach less than 16 h: nothing could be proven of such pieces.
 */
export function splitToReach({ reachMs }: Pick<ServerBehavior, 'reachMs'>, { from, to }: Window): Window[] {
  const piece = Math.max(dayMs / 2, Math.floor((reachMs - 3 * hourMs) / dayMs) * dayMs);
  return reachMs < 16 * hourMs || reachMs >= reachMsMin ? [{ from, to }] : splitWindow({ from, to }, piece);
}

/** Splits a window that is longer than a piece at multiples of it, in ms. */
export function splitWindow({ from, to }: Window, piece: number): Window[] {
  if (to - from <= piece) return [{ from, to }];
  const first = Math.floor(from / piece);
  return Array.from({ length: Math.ceil(to / piece) - first }, (_, i) => ({
    from: Math.max(from, (first + i) * piece - pieceMarginMs),
    to: Math.min(to, (first + i + 1) * piece + pieceMarginMs),
  }));
}
