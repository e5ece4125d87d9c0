import type { Window } from '../../base/window.ts';

/** Which side of a window a truncated page keeps. */
export type TruncationSide = 'earliest' | 'latest';

/** The side of a window that a request continues at: its start or its end. */
export type WindowSide = 'low' | 'high';

/**
 * What a run has inferred of how the service pages; shared by all symbols, since one service answers them. It only
 * chooses what to ask next, to save requests: it is no evidence that a window is whole.
 */
export interface ServerBehavior {
  /** Elements of the largest page that was shown to be whole, and of the largest page of all. */
  largestWhole: number;
  largestPage: number;
  /** Sizes of pages that were shown to have left something out; infinite and 0 before the first. */
  truncatedMin: number;
  truncatedMax: number;
  truncatedPages: number;
  /** The side that truncated pages kept; null while unknown, or where both were seen. */
  side: TruncationSide | null;
  isSideMixed: boolean;
  /** Responses that disagreed with an earlier one about ticks that both should have. */
  contradictions: number;
  /** Responses state one moment though the clock moves on: it is that of the data, and no two of them confirm anything. */
  isMomentFixed: boolean;
  /** A page that was presumed whole by its size was truncated: no size is trusted any more. */
  isErratic: boolean;
  /** Requests from the last tick of a window, and across its widest gap, that were considered. */
  endChecks: number;
  gapChecks: number;
  /** True once a response brought a tick at the very start, or end, that was requested. */
  fromInclusive: boolean;
  toInclusive: boolean;
  /** The time of the oldest tick that the service ever showed, epoch ms; infinite before. */
  oldestTick: number;
  /** It does not answer for what lies before the start that a response states. */
  refusesEarlier: boolean;
  /** Most ticks, and the longest window in ms, that it takes a request for; infinite until it has refused more. */
  limit: number;
  windowMsMax: number;
  /** Whether a request for so many ticks was answered, and the longest window in ms that was. */
  isLimitConfirmed: boolean;
  windowMsAcceptedMax: number;
  /** Where it was seen to refuse what is older, for some symbol; epoch ms. */
  refusedBefore: number;
  /** The search for what it takes that is under way, and how many more may end in nothing. */
  sizeSearch: Promise<boolean> | null;
  sizeSearchesLeft: number;
}

/** What is remembered from run to run: how large pages were, and which side truncated ones kept. */
export type KnownPages = Pick<
  ServerBehavior,
  'largestWhole' | 'truncatedMin' | 'truncatedMax' | 'truncatedPages' | 'side' | 'isSideMixed'
>;

/**
 * Of a behavior what is remembered; null where no page was shown to be whole or truncated. Where sizes turned out to mean
 * nothing, how truncated pages varied is remembered, and no size counts as whole.
 */
export function getKnownPages(behavior: ServerBehavior): KnownPages | null {
  const { largestWhole, truncatedMin, truncatedMax, truncatedPages, side, isSideMixed, isErratic } = behavior;
  if (largestWhole === 0 && truncatedPages === 0) return null;
  return { largestWhole: isErratic ? 0 : largestWhole, truncatedMin, truncatedMax, truncatedPages, side, isSideMixed };
}

/**
 * @param oldestTick the oldest tick that earlier runs saw of this service, epoch ms
 * @param known what an earlier run remembered; it saves requests, and is no evidence
 */
export const createServerBehavior = (
  oldestTick = Number.POSITIVE_INFINITY,
  known: Partial<KnownPages> = {},
): ServerBehavior => ({
  largestWhole: 0,
  largestPage: 0,
  truncatedMin: Number.POSITIVE_INFINITY,
  truncatedMax: 0,
  truncatedPages: 0,
  side: null,
  isSideMixed: false,
  contradictions: 0,
  isErratic: false,
  isMomentFixed: false,
  endChecks: 0,
  gapChecks: 0,
  fromInclusive: false,
  toInclusive: false,
  oldestTick,
  refusesEarlier: false,
  limit: Number.POSITIVE_INFINITY,
  windowMsMax: Number.POSITIVE_INFINITY,
  isLimitConfirmed: false,
  windowMsAcceptedMax: 0,
  refusedBefore: Number.NEGATIVE_INFINITY,
  sizeSearch: null,
  sizeSearchesLeft: 4,
  ...known,
});

/** Fewer ticks than this are no page cap that a service would have. */
const capTicksMin = 4;

/** The share of the smallest truncated page from which on a page is taken for truncated: caps vary. */
const truncatedShare = 0.8;

/** Records a page that left ticks out at one side of its window. */
export function noteTruncated(behavior: ServerBehavior, count: number, side: WindowSide): void {
  if (count < 2) return;
  behavior.truncatedPages++;
  behavior.truncatedMin = Math.min(behavior.truncatedMin, count);
  behavior.truncatedMax = Math.max(behavior.truncatedMax, count);
  if (count < behavior.largestWhole) behavior.isErratic = true;
  const kept = side === 'high' ? 'earliest' : 'latest';
  if (behavior.isSideMixed || behavior.side === kept) return;
  if (behavior.side !== null) {
    behavior.isSideMixed = true;
    behavior.side = null;
  } else behavior.side = kept;
}

/** Records a page that was shown to have left nothing out. */
export function noteWhole(behavior: ServerBehavior, count: number): void {
  behavior.largestWhole = Math.max(behavior.largestWhole, count);
}

/**
 * Whether a page may have left some of its window out at a side: it has as many elements as were requested, or it looks so
 * beside other pages.
 * @param isAskedOn whether more requests follow whatever it looks like: then a wrong guess costs one more, and no tick
 */
export function looksTruncated(
  behavior: ServerBehavior,
  { received: count, isFull }: { readonly received: number; readonly isFull: boolean },
  side: WindowSide,
  isAskedOn = false,
): boolean {
  if (count < capTicksMin && !isFull) return false;
  if (behavior.isErratic && !isAskedOn) return true;
  if (behavior.truncatedPages === 0) return isFull || count > (isAskedOn ? 1.25 : 1) * behavior.largestWhole;
  if (behavior.side === (side === 'high' ? 'latest' : 'earliest')) return false;
  return (
    isFull ||
    count >= truncatedShare * behavior.truncatedMin ||
    (!isAskedOn && count > Math.max(behavior.largestWhole, behavior.truncatedMin))
  );
}

/** A page below this share of the largest one is not truncated: no cap is taken to vary by more. */
export const smallPageShare = 0.2;

/** Truncated pages of one size after which a cap counts as fixed. */
const fixedPagesMin = 4;

/** Truncated pages after which the smallest of a cap that varies widely counts as seen. */
const knownRangePagesMin = 12;

/** How many windows have their end checked by one more request before a server counts as steady, and every how many after that. */
const endChecksFirst = 4;
const endCheckEvery = 24;

/**
 * Whether a request from the very last tick should back up one from the median that brought nothing new. Where caps
 * vary, a page may end at the same tick as the page before by chance; from the last tick on, it cannot.
 * @param count elements of the page from the median
 * @param before elements of the page that it confirms
 * @param side where the page might have been cut off: many pages that all kept it speak against that
 */
export function needsEndCheck(behavior: ServerBehavior, count: number, before: number, side: WindowSide): boolean {
  // The median of two ticks is the first, so that no room can be made.
  if ((count >= before && before > 2) || behavior.contradictions > 0) return true;
  const { truncatedPages, truncatedMin, truncatedMax, isErratic } = behavior;
  const isFixed = truncatedPages >= fixedPagesMin && truncatedMin === truncatedMax && !isErratic;
  if (isFixed) return count >= truncatedMin;
  const isKept = behavior.side === (side === 'high' ? 'latest' : 'earliest') && truncatedPages >= knownRangePagesMin;
  // Of a cap that varies by less than that, half of a page is no full one: a page from the median holds as much.
  if (truncatedPages > 0 && truncatedMin < truncatedMax && !isKept)
    return truncatedPages < knownRangePagesMin || truncatedMin < 0.75 * truncatedMax || count >= 0.5 * truncatedMin;
  if (count < capTicksMin) return false;
  const nth = behavior.endChecks++;
  return nth < endChecksFirst || nth % endCheckEvery === 0;
}

/** Every how many windows the widest gap between two ticks is asked for on its own. */
const gapCheckEvery = 48;

/** Whether the widest gap of a window should be asked for on its own: now and then, and always of a server that was caught. */
export const needsGapCheck = (behavior: ServerBehavior): boolean =>
  behavior.gapChecks++ % gapCheckEvery === 0 || behavior.contradictions > 0;

/**
 * Learns from the edges: a tick at the very end requested shows that the end is included; so with the start. Some services
 * bring the last tick before the window too; more ticks beyond the edges come from one that ignores them, and then
 * nothing is shown. `t` in epoch ms, any order.
 */
export function noteEdges(behavior: ServerBehavior, requested: Window, t: Float64Array): void {
  if (behavior.fromInclusive && behavior.toInclusive) return;
  let atFrom = false;
  let atTo = false;
  let beyond: number | null = null;
  for (const time of t) {
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

/**
 * The window to put into a request. It begins one millisecond early and ends at the excluded end, so that no tick is
 * missed whichever ends are included; `isExact`: no tick beyond the edges is to take room, as far as the ends are known.
 */
export function toRequestedWindow(behavior: ServerBehavior, { from, to }: Window, isExact: boolean): Window {
  return {
    from: isExact && behavior.fromInclusive ? from : from - 1,
    to: isExact && behavior.toInclusive ? to - 1 : to,
  };
}
