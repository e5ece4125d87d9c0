import { findFirstAtOrAfter } from '../../base/binary-search.ts';
import type { Window } from '../../base/window.ts';
import {
  claim,
  crowdedTicksMin,
  excludePage,
  type FetchOptions,
  type FetchProgress,
  type FetchSteps,
  hasTooManyRejected,
  idleRequestsMax,
  isRequested,
  type PendingWindow,
  requestPage,
} from './fetch-steps.ts';
import type { Observation } from './observation.ts';
import {
  looksTruncated,
  needsEndCheck,
  noteComplete,
  noteTruncated,
  smallPageShare,
  toRequestedWindow,
  type WindowSide,
} from './server-behavior.ts';

/**
 * Result for one side of a window. `edge`: end of the range that the pages cover; `repeatedTick`: innermost tick that a
 * second page repeated.
 */
export interface SideResult {
  readonly outcome: 'confirmed' | 'inferred' | 'unheeded' | 'contradicted' | 'refused' | 'crowded';
  readonly edge: number;
  readonly repeatedTick: number | null;
  readonly page: Observation;
  readonly observedAt: number;
}

/**
 * Fetches outward from a page at one side, until a request that begins at the page's median tick repeats its outer half and
 * adds nothing. Claims the windows between pages that agree.
 */
export function* fetchSide(
  progress: FetchProgress,
  w: PendingWindow,
  first: Observation,
  side: WindowSide,
  mode: FetchOptions['confirm'],
  widest: { from: number; to: number },
): FetchSteps<SideResult> {
  const { behavior } = progress;
  let page = first;
  let furthest = findOutermostTick(first.times, side);
  const { lastTick } = progress.options;
  let isEndChecked = false;
  let isPaused = false;
  // Earliest generation time of the pages so far.
  let observedAt = first.observedAt;
  const end = (
    outcome: SideResult['outcome'],
    repeatedTick: number | null,
    pages: readonly Observation[],
  ): SideResult => ({
    // The confirming page was requested for the full side, so it alone determines the edge.
    outcome,
    repeatedTick: repeatedTick,
    page,
    edge: computeEdge(w, side, outcome === 'confirmed' ? pages.slice(-1) : pages),
    observedAt: Math.min(observedAt, ...pages.map((p) => p.observedAt)),
  });
  for (;;) {
    const { times } = page;
    const outermost = findOutermostTick(times, side);
    // Some servers state the range of a truncated page at both ends, including the end that was not truncated.
    const isKept = behavior.side === (side === 'high' ? 'latest' : 'earliest');
    const isCut = !isKept && (side === 'high' ? page.isTruncatedHigh : page.isTruncatedLow);
    const isShort = side === 'high' ? outermost < furthest : outermost > furthest;
    const lacksKnown = side === 'high' && lastTick !== null && outermost < lastTick && lastTick < w.to;
    const isSuspicious = isCut || lacksKnown || looksTruncated(behavior, page, side, mode === 'now');
    const isNear = isShort || (!isEndChecked && (isSuspicious || isCrowded(progress, page, outermost, side)));
    if (mode === 'next' && side === 'high' && !isNear) {
      yield { kind: 'presumed', window: { from: w.from, to: w.to } };
      return end('inferred', isEndChecked ? outermost : null, [page]);
    }
    const median = findMedianTick(times, side);
    const beginTick = isCut || isShort ? outermost : isNear ? findTickNearEnd(times, side) : median;
    const next = yield* requestPage(progress, toSideWindow(w, side, beginTick), side);
    if (next === null) return end('refused', null, [page]);
    const relation = comparePagesAtSide(page.times, next.times, beginTick, side);
    if (relation === 'further') {
      if (hasTickBeyond(next.times, outermost, side, page.observedAt)) noteTruncated(behavior, page.received, side);
      if (isOutside(findOutermostTick(next.times, side), furthest, side)) progress.idleRequests = 0;
      else if (progress.idleRequests > idleRequestsMax) return end('contradicted', null, [page, next]);
      noteWidestGap(widest, next);
      yield* claim(progress, computeWindowBetween(first, outermost, side), isCut ? 'stated' : 'confirmed', observedAt);
      observedAt = Math.min(observedAt, next.observedAt);
      if (hasTooManyRejected(next)) yield* excludePage(progress, next, toSideWindow(w, side, beginTick));
      page = next;
      furthest = side === 'high' ? Math.max(furthest, next.times.at(-1)!) : Math.min(furthest, next.times[0]!);
      isEndChecked = false;
      continue;
    }
    if (relation === 'shorter') {
      // The page was truncated before ticks that are already known.
      noteTruncated(behavior, next.received, side);
      observedAt = Math.min(observedAt, next.observedAt);
      page = next;
      isEndChecked = false;
      if (progress.idleRequests > idleRequestsMax) return end('contradicted', null, [page]);
      continue;
    }
    if (relation === 'contradicts' && !isShort && isTruncatedInside(page.times, next.times, beginTick, side)) {
      noteTruncated(behavior, next.received, side === 'high' ? 'low' : 'high');
      if (progress.idleRequests > idleRequestsMax) return end('contradicted', null, [page, next]);
      observedAt = Math.min(observedAt, next.observedAt);
      page = next;
      isEndChecked = false;
      continue;
    }
    if (relation === 'contradicts' || isShort || next.countBefore > 1 || next.countAfter > 1) {
      if (relation === 'same' && !isShort) return end('unheeded', null, [page, next]);
      behavior.contradictions++;
      return end('contradicted', null, [page, next]);
    }
    // Two pages end in the same millisecond with different tick counts: one of them was truncated within that millisecond.
    const [pageCount, nextCount] = [countAtEnd(page, side), countAtEnd(next, side)];
    if (nextCount < pageCount || (nextCount > pageCount && nextCount >= crowdedTicksMin))
      return end('crowded', outermost, [page, next]);
    if (isCrowded(progress, next, beginTick, side) || (times.length === 1 && !hasRoom(next, page))) {
      const exact = yield* requestWithRoom(progress, toSideWindow(w, side, beginTick), side, next, page);
      const lacksSome = beginTick === outermost && exact.countAtLast < countAtEnd(page, side);
      if (lacksSome || isCrowded(progress, exact, beginTick, side) || !hasRoom(exact, page))
        return end('crowded', beginTick, [page, exact]);
    }
    if (isNear && beginTick !== median) {
      const roomy = yield* requestWithRoom(progress, toSideWindow(w, side, beginTick), side, next, page);
      if (!hasRoom(roomy, page)) return end('crowded', outermost, [page, next]);
      if (page !== first) noteComplete(behavior, page.received);
      isEndChecked = true;
      continue;
    }
    const isSameMoment = page.generatedAt !== null && page.generatedAt === next.generatedAt;
    // The page did not shrink although the request began later: the server may ignore from/to.
    const isDoubtful = isSameMoment || (next.received > 0.75 * page.received + 1 && times.length > 1);
    if (
      !isEndChecked &&
      beginTick !== outermost &&
      (isDoubtful || needsEndCheck(behavior, next.received, page.received, side))
    ) {
      const edgePage = yield* requestPage(progress, toSideWindow(w, side, outermost), side);
      if (edgePage === null) return end('refused', null, [page]);
      const edgePageWithRoom = yield* requestWithRoom(progress, toSideWindow(w, side, outermost), side, edgePage, page);
      const edgeRelation = comparePagesAtSide(page.times, edgePageWithRoom.times, outermost, side);
      if (edgeRelation === 'contradicts') {
        behavior.contradictions++;
        return end('contradicted', null, [page, edgePageWithRoom]);
      }
      if (edgePageWithRoom.countBefore > 1 || edgePageWithRoom.countAfter > 1)
        return end('unheeded', null, [page, next, edgePageWithRoom]);
      isEndChecked = true;
      if (edgeRelation === 'further') {
        noteTruncated(behavior, page.received, side);
        noteTruncated(behavior, next.received, side);
        observedAt = Math.min(observedAt, edgePageWithRoom.observedAt);
        page = edgePageWithRoom;
        furthest = findOutermostTick(edgePageWithRoom.times, side);
        noteWidestGap(widest, edgePageWithRoom);
        isEndChecked = false;
        continue;
      }
      if (isCrowded(progress, edgePageWithRoom, outermost, side) || !hasRoom(edgePageWithRoom, page))
        return end('crowded', outermost, [page, edgePageWithRoom]);
    }
    if (isSameMoment) {
      if (isPaused) behavior.isMomentFixed = true;
      if (behavior.isMomentFixed) {
        if (page !== first) noteComplete(behavior, page.received);
        return end('inferred', beginTick, [page, next]);
      }
      isPaused = true;
      yield { kind: 'pause' };
      continue;
    }
    // The first page may be truncated at its other side.
    if (page !== first) noteComplete(behavior, page.received);
    return end('confirmed', beginTick, [page, next]);
  }
}

/** Whether a tick lies further outward than another one. */
const isOutside = (t: number, other: number, side: WindowSide): boolean => (side === 'high' ? t > other : t < other);

/**
 * Whether a page contains only ticks in one millisecond, and so many that they may fill a page: paging cannot continue
 * past them. A page that also shows a tick beyond the far end of the window was not truncated before it.
 */
export function isCrowded({ largestPage }: FetchProgress, o: Observation, t: number, side: WindowSide): boolean {
  const { times, count, received, countBefore, countAfter, window, firstRequested, last } = o;
  if (times.length !== 1 || times[0] !== t || countBefore + countAfter > 1) return false;
  // A tick before the requested window shows nothing: some servers always add one.
  const hasFarEnd = side === 'high' ? last! >= window.to : firstRequested !== null && firstRequested < window.from;
  return !hasFarEnd && count >= crowdedTicksMin && received >= smallPageShare * largestPage;
}

/** Number of distinct ticks in the outermost millisecond of a page. */
const countAtEnd = (o: Observation, side: WindowSide): number => (side === 'high' ? o.countAtLast : o.countAtFirst);

/** Whether a page that begins at the last tick had room for another one. Ticks at the edges take up room as well. */
const hasRoom = ({ received }: Observation, page: Observation): boolean =>
  received < crowdedTicksMin || received <= 0.5 * page.received;

/** Repeats a request without the ticks at its edges, if these left no room for another tick. */
function* requestWithRoom(
  progress: FetchProgress,
  window: Window,
  side: WindowSide,
  o: Observation,
  page: Observation,
): FetchSteps<Observation> {
  const hasEdgeTicks = (o.first! < window.from && o.first === o.requested.from) || o.last! >= window.to;
  if (hasRoom(o, page) || !hasEdgeTicks || isRequested(o, toRequestedWindow(progress.behavior, window, true))) return o;
  return (yield* requestPage(progress, window, side, true)) ?? o;
}

const toSideWindow = (w: Window, side: WindowSide, tick: number): Window =>
  side === 'high' ? { from: tick, to: w.to } : { from: w.from, to: tick + 1 };

/** The end of the range that all pages cover at a side. */
const computeEdge = (w: Window, side: WindowSide, pages: readonly Observation[]): number =>
  side === 'high'
    ? Math.min(w.to, ...pages.map(({ claimableWindow }) => claimableWindow.to))
    : Math.max(w.from, ...pages.map(({ claimableWindow }) => claimableWindow.from));

/**
 * The window between the first page and a tick further outward, which is included. At the other end of the first page, a
 * second price of the same millisecond may have been truncated.
 */
const computeWindowBetween = (first: Observation, tick: number, side: WindowSide): Window =>
  side === 'high' ? { from: first.times[0]! + 1, to: tick + 1 } : { from: tick, to: first.times.at(-1)! };

/** Records the widest gap between two ticks of a page. */
export function noteWidestGap(widest: { from: number; to: number }, { times }: Observation): void {
  for (let i = 1; i < times.length; i++) {
    if (times[i]! - times[i - 1]! <= widest.to - widest.from) continue;
    widest.from = times[i - 1]!;
    widest.to = times[i]!;
  }
}

/** How a second page compares with the first one, from a tick of the first one outward. */
type PageRelation = 'same' | 'further' | 'shorter' | 'contradicts';

/**
 * Overlap between a truncated page and the next request, as a share of the page's ticks. It shows whether the two
 * agree.
 */
const overlapShare = 0.02;

/** The outermost tick of a page at a side. `times` are distinct, ascending and not empty. */
export const findOutermostTick = (times: Float64Array, side: WindowSide): number =>
  side === 'high' ? times.at(-1)! : times[0]!;

/** The median tick. For an even number of ticks, the inner one of the middle two. */
export function findMedianTick(times: Float64Array, side: WindowSide): number {
  const half = (times.length - 1) >> 1;
  return side === 'high' ? times[half]! : times[times.length - 1 - half]!;
}

/** The tick at which the next request begins: `overlapShare` of the page before its end. */
export function findTickNearEnd(times: Float64Array, side: WindowSide): number {
  const inward = Math.floor(times.length * overlapShare);
  return side === 'high' ? times[times.length - 1 - inward]! : times[inward]!;
}

/**
 * Compares two pages from `beginTick`, a tick of the first page, outward. `contradicts`: the second page does not contain
 * that tick, or the pages differ where they overlap; `further`: the second page continues past the first; `shorter`: it ends
 * earlier. Times are distinct and ascending, epoch ms.
 */
export function comparePagesAtSide(
  first: Float64Array,
  second: Float64Array,
  beginTick: number,
  side: WindowSide,
): PageRelation {
  const a = sliceOutward(first, beginTick, side);
  const b = sliceOutward(second, beginTick, side);
  const shared = Math.min(a.length, b.length);
  if (shared === 0) return 'contradicts';
  for (let i = 0; i < shared; i++) if (a[i] !== b[i]) return 'contradicts';
  if (a.length === b.length) return 'same';
  return b.length > a.length ? 'further' : 'shorter';
}

/**
 * Whether a second page, requested from `beginTick` outward, contains only the outer ticks of the first page. Such a
 * page was truncated at its inner end, so its outer end is complete.
 */
export function isTruncatedInside(
  first: Float64Array,
  second: Float64Array,
  beginTick: number,
  side: WindowSide,
): boolean {
  const inner = side === 'high' ? second[0]! : second.at(-1)!;
  const isInner = side === 'high' ? inner > beginTick : inner < beginTick;
  if (second.length < 2 || !isInner) return false;
  const [a, b] = [sliceOutward(first, inner, side), sliceOutward(second, inner, side)];
  return a.length === b.length && a.every((t, i) => t === b[i]);
}

/** The ticks from `beginTick` on, outward. `times` are distinct and ascending. */
const sliceOutward = (times: Float64Array, beginTick: number, side: WindowSide): Float64Array =>
  side === 'high'
    ? times.subarray(findFirstAtOrAfter(times, beginTick))
    : times.slice(0, findFirstAtOrAfter(times, nextTime(beginTick))).reverse();

/**
 * Whether a page has a tick further outward than `tick` and before `beforeMs`, when the page of that tick was generated: that page
 * was truncated. `times` are distinct and ascending.
 */
export function hasTickBeyond(times: Float64Array, tick: number, side: WindowSide, beforeMs: number): boolean {
  const first = side === 'high' ? findFirstAtOrAfter(times, nextTime(tick)) : 0;
  const end = side === 'high' ? times.length : findFirstAtOrAfter(times, tick);
  return first < end && times[first]! < beforeMs;
}

/** The first moment after a time, which is a whole number of milliseconds like all times of usable ticks. */
const nextTime = (t: number): number => t + 1;
