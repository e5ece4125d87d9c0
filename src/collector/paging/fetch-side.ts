import type { Window } from '../../base/window.ts';
import {
  claim,
  crowdTicksMin,
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
  noteTruncated,
  noteWhole,
  smallPageShare,
  toRequestedWindow,
  type WindowSide,
} from './server-behavior.ts';

/** How a side of a window ended. `edge`: up to where the pages speak; `known`: the innermost tick that a second page brought again. */
export interface SideResult {
  readonly outcome: 'confirmed' | 'inferred' | 'unheeded' | 'contradicted' | 'refused' | 'crowded';
  readonly edge: number;
  readonly repeatedTick: number | null;
  readonly page: Observation;
  readonly observedAt: number;
}

/**
 * Asks on at one side of a page until a request from its median on brings exactly what was had, and nothing further.
 * What is between two pages that agree is claimed on the way.
 */
export function* fetchSide(
  work: FetchProgress,
  w: PendingWindow,
  first: Observation,
  side: WindowSide,
  mode: FetchOptions['confirm'],
  widest: { from: number; to: number },
): FetchSteps<SideResult> {
  const { behavior } = work;
  let page = first;
  let furthest = findOutermostTick(first.times, side);
  const { lastTick } = work.options;
  let isEndChecked = false;
  let isPaused = false;
  // All pages so far were generated at this moment or later.
  let observedAt = first.observedAt;
  const end = (outcome: SideResult['outcome'], again: number | null, pages: readonly Observation[]): SideResult => ({
    // The page that confirms a side asked for it whole, and speaks for it alone.
    outcome,
    repeatedTick: again,
    page,
    edge: computeEdge(w, side, outcome === 'confirmed' ? pages.slice(-1) : pages),
    observedAt: Math.min(observedAt, ...pages.map((p) => p.observedAt)),
  });
  for (;;) {
    const { times } = page;
    const outermost = findOutermostTick(times, side);
    // Some state the span of a truncated page at both ends, the one that it keeps included.
    const isKept = behavior.side === (side === 'high' ? 'latest' : 'earliest');
    const isCut = !isKept && (side === 'high' ? page.isTruncatedHigh : page.isTruncatedLow);
    const isShort = side === 'high' ? outermost < furthest : outermost > furthest;
    const lacksKnown = side === 'high' && lastTick !== null && outermost < lastTick && lastTick < w.to;
    const isSuspicious = isCut || lacksKnown || looksTruncated(behavior, page, side, mode === 'now');
    const isNear = isShort || (!isEndChecked && (isSuspicious || isCrowded(work, page, outermost, side)));
    if (mode === 'next' && side === 'high' && !isNear) {
      yield { kind: 'presumed', window: { from: w.from, to: w.to } };
      return end('inferred', isEndChecked ? outermost : null, [page]);
    }
    const median = findMedianTick(times, side);
    const begin = isCut || isShort ? outermost : isNear ? findTickNearEnd(times, side) : median;
    const next = yield* requestPage(work, toSideWindow(w, side, begin), side);
    if (next === null) return end('refused', null, [page]);
    const relation = comparePagesAtSide(page.times, next.times, begin, side);
    if (relation === 'further') {
      const beyond = next.times.filter((t) => (side === 'high' ? t > outermost : t < outermost));
      if (beyond.some((t) => t < page.observedAt)) noteTruncated(behavior, page.received, side);
      if (isOutside(findOutermostTick(next.times, side), furthest, side)) work.idleRequests = 0;
      else if (work.idleRequests > idleRequestsMax) return end('contradicted', null, [page, next]);
      noteWidestGap(widest, next);
      yield* claim(work, computeWindowBetween(first, outermost, side), isCut ? 'stated' : 'confirmed', observedAt);
      observedAt = Math.min(observedAt, next.observedAt);
      if (hasTooManyRejected(next)) yield* excludePage(work, next, toSideWindow(w, side, begin));
      page = next;
      furthest = side === 'high' ? Math.max(furthest, next.times.at(-1)!) : Math.min(furthest, next.times[0]!);
      isEndChecked = false;
      continue;
    }
    if (relation === 'shorter') {
      // It was cut off before what is had already.
      noteTruncated(behavior, next.received, side);
      observedAt = Math.min(observedAt, next.observedAt);
      page = next;
      isEndChecked = false;
      if (work.idleRequests > idleRequestsMax) return end('contradicted', null, [page]);
      continue;
    }
    if (relation === 'contradicts' && !isShort && isTruncatedInside(page.times, next.times, begin, side)) {
      noteTruncated(behavior, next.received, side === 'high' ? 'low' : 'high');
      if (work.idleRequests > idleRequestsMax) return end('contradicted', null, [page, next]);
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
    // Of two pages that end in one millisecond, one was cut off amid its ticks where they are more in the other.
    const [had, has] = [countAtEnd(page, side), countAtEnd(next, side)];
    if (has < had || (has > had && has >= crowdTicksMin)) return end('crowded', outermost, [page, next]);
    if (isCrowded(work, next, begin, side) || (times.length === 1 && !hasRoom(next, page))) {
      const exact = yield* requestWithRoom(work, toSideWindow(w, side, begin), side, next, page);
      const lacksSome = begin === outermost && exact.countAtLast < countAtEnd(page, side);
      if (lacksSome || isCrowded(work, exact, begin, side) || !hasRoom(exact, page))
        return end('crowded', begin, [page, exact]);
    }
    if (isNear && begin !== median) {
      const roomy = yield* requestWithRoom(work, toSideWindow(w, side, begin), side, next, page);
      if (!hasRoom(roomy, page)) return end('crowded', outermost, [page, next]);
      if (page !== first) noteWhole(behavior, page.received);
      isEndChecked = true;
      continue;
    }
    const isSameMoment = page.generatedAt !== null && page.generatedAt === next.generatedAt;
    // Where a later begin did not make room in the page, the window may not be heeded.
    const isDoubtful = isSameMoment || (next.received > 0.75 * page.received + 1 && times.length > 1);
    if (
      !isEndChecked &&
      begin !== outermost &&
      (isDoubtful || needsEndCheck(behavior, next.received, page.received, side))
    ) {
      const once = yield* requestPage(work, toSideWindow(w, side, outermost), side);
      if (once === null) return end('refused', null, [page]);
      const last = yield* requestWithRoom(work, toSideWindow(w, side, outermost), side, once, page);
      const then = comparePagesAtSide(page.times, last.times, outermost, side);
      if (then === 'contradicts') {
        behavior.contradictions++;
        return end('contradicted', null, [page, last]);
      }
      if (last.countBefore > 1 || last.countAfter > 1) return end('unheeded', null, [page, next, last]);
      isEndChecked = true;
      if (then === 'further') {
        noteTruncated(behavior, page.received, side);
        noteTruncated(behavior, next.received, side);
        observedAt = Math.min(observedAt, last.observedAt);
        page = last;
        furthest = findOutermostTick(last.times, side);
        noteWidestGap(widest, last);
        isEndChecked = false;
        continue;
      }
      if (isCrowded(work, last, outermost, side) || !hasRoom(last, page))
        return end('crowded', outermost, [page, last]);
    }
    if (isSameMoment) {
      if (isPaused) behavior.isMomentFixed = true;
      if (behavior.isMomentFixed) {
        if (page !== first) noteWhole(behavior, page.received);
        return end('inferred', begin, [page, next]);
      }
      isPaused = true;
      yield { kind: 'pause' };
      continue;
    }
    // The first page may have left something out at its other side.
    if (page !== first) noteWhole(behavior, page.received);
    return end('confirmed', begin, [page, next]);
  }
}

/** Whether a tick lies further out than another one. */
const isOutside = (t: number, other: number, side: WindowSide): boolean => (side === 'high' ? t > other : t < other);

/**
 * Whether a page holds nothing but ticks of one millisecond, and enough of them to fill a page: nobody can page over it.
 * One that shows a tick at the far end of the window, too, was not cut off before it.
 */
export function isCrowded({ largestPage }: FetchProgress, o: Observation, t: number, side: WindowSide): boolean {
  const { times, count, received, countBefore, countAfter, window, first, last } = o;
  if (times.length !== 1 || times[0] !== t || countBefore + countAfter > 1) return false;
  const hasFarEnd = side === 'high' ? last! >= window.to : countBefore === 0 && first! < window.from;
  return !hasFarEnd && count >= crowdTicksMin && received >= smallPageShare * largestPage;
}

/** Distinct ticks of the last millisecond of a page at a side. */
const countAtEnd = (o: Observation, side: WindowSide): number => (side === 'high' ? o.countAtLast : o.countAtFirst);

/** Whether a page that begins at the last tick had room for a further one: what lies at the edges takes room, too. */
const hasRoom = ({ received }: Observation, page: Observation): boolean =>
  received < crowdTicksMin || received <= 0.5 * page.received;

/** Repeats a request that had no room for a further tick, where ticks at the very edges took it and can be left out now. */
function* requestWithRoom(
  work: FetchProgress,
  asked: Window,
  side: WindowSide,
  o: Observation,
  page: Observation,
): FetchSteps<Observation> {
  const hasEdgeTicks = (o.first! < asked.from && o.first === o.requested.from) || o.last! >= asked.to;
  if (hasRoom(o, page) || !hasEdgeTicks || isRequested(o, toRequestedWindow(work.behavior, asked, true))) return o;
  return (yield* requestPage(work, asked, side, true)) ?? o;
}

const toSideWindow = (w: Window, side: WindowSide, tick: number): Window =>
  side === 'high' ? { from: tick, to: w.to } : { from: w.from, to: tick + 1 };

/** Up to where all of the pages speak at a side. */
const computeEdge = (w: Window, side: WindowSide, pages: readonly Observation[]): number =>
  side === 'high'
    ? Math.min(w.to, ...pages.map(({ claimableWindow }) => claimableWindow.to))
    : Math.max(w.from, ...pages.map(({ claimableWindow }) => claimableWindow.from));

/**
 * What lies between the first page and a tick further out, which is included. At the other end of the first page another
 * price of the same millisecond may have been cut off.
 */
const computeWindowBetween = (first: Observation, tick: number, side: WindowSide): Window =>
  side === 'high' ? { from: first.times[0]! + 1, to: tick + 1 } : { from: tick, to: first.times.at(-1)! };

/** Notes the widest gap between two ticks of a page. */
export function noteWidestGap(widest: { from: number; to: number }, { times }: Observation): void {
  for (let i = 1; i < times.length; i++) {
    if (times[i]! - times[i - 1]! <= widest.to - widest.from) continue;
    widest.from = times[i - 1]!;
    widest.to = times[i]!;
  }
}

/** How a second page relates to the first one from a tick of the first on, outward at one side. */
export type PageRelation = 'same' | 'further' | 'shorter' | 'contradicts';

/** How far from the end of a truncated page the next request begins, as a share of its ticks: the overlap shows whether both agree. */
const overlapShare = 0.02;

/** The last tick of a page at a side; `times` are distinct and ascending, with one at least. */
export const findOutermostTick = (times: Float64Array, side: WindowSide): number =>
  side === 'high' ? times.at(-1)! : times[0]!;

/** The median tick; of an even number of ticks the one that is further in. */
export function findMedianTick(times: Float64Array, side: WindowSide): number {
  const half = (times.length - 1) >> 1;
  return side === 'high' ? times[half]! : times[times.length - 1 - half]!;
}

/** A tick near the end of a page. */
export function findTickNearEnd(times: Float64Array, side: WindowSide): number {
  const inward = Math.floor(times.length * overlapShare);
  return side === 'high' ? times[times.length - 1 - inward]! : times[inward]!;
}

/**
 * Compares two pages from `begin`, a tick of the first, outward. `contradicts`: the second lacks that tick, or they
 * differ where they overlap; `further`: the second goes beyond the last tick of the first; `shorter`: it ends before.
 * Times are distinct and ascending, epoch ms.
 */
export function comparePagesAtSide(
  first: Float64Array,
  second: Float64Array,
  begin: number,
  side: WindowSide,
): PageRelation {
  const a = sliceOutward(first, begin, side);
  const b = sliceOutward(second, begin, side);
  const shared = Math.min(a.length, b.length);
  if (shared === 0) return 'contradicts';
  for (let i = 0; i < shared; i++) if (a[i] !== b[i]) return 'contradicts';
  if (a.length === b.length) return 'same';
  return b.length > a.length ? 'further' : 'shorter';
}

/**
 * Whether a second page that was asked for from `begin` on outward brought just the outer ticks of the first, and was cut
 * off at its inner end: so it was not at its outer one.
 */
export function isTruncatedInside(first: Float64Array, second: Float64Array, begin: number, side: WindowSide): boolean {
  const inner = side === 'high' ? second[0]! : second.at(-1)!;
  const isInner = side === 'high' ? inner > begin : inner < begin;
  if (second.length < 2 || !isInner) return false;
  const [a, b] = [sliceOutward(first, inner, side), sliceOutward(second, inner, side)];
  return a.length === b.length && a.every((t, i) => t === b[i]);
}

const sliceOutward = (times: Float64Array, begin: number, side: WindowSide): Float64Array =>
  side === 'high' ? times.filter((t) => t >= begin) : times.filter((t) => t <= begin).reverse();
