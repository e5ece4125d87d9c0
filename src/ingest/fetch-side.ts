import type { Window } from '../core/window.ts';
import { compareSide, isCutInside, medianTick, outermostTick, tickNearEnd } from './compare-pages.ts';
import {
  claim,
  crowdMin,
  type Fetch,
  type FetchOptions,
  idleRequestsMax,
  isBad,
  isRequested,
  type Pending,
  request,
  setAside,
  type Work,
} from './fetch-steps.ts';
import type { Observation } from './observation.ts';
import {
  looksTruncated,
  needsEndCheck,
  noteTruncated,
  noteWhole,
  requestedWindow,
  type Side,
  smallPageShare,
} from './server-behavior.ts';

/** How a side of a window ended. `edge`: up to where the pages speak; `known`: the innermost tick that a second page brought again. */
export interface SideEnd {
  readonly outcome: 'confirmed' | 'inferred' | 'unheeded' | 'contradicted' | 'refused' | 'crowded';
  readonly edge: number;
  readonly again: number | null;
  readonly page: Observation;
  readonly observedAt: number;
}

/**
 * Asks on at one side of a page until a request from its median on brings exactly what was had, and nothing further.
 * What is between two pages that agree is claimed on the way.
 */
export function* fetchSide(
  work: Work,
  w: Pending,
  first: Observation,
  side: Side,
  mode: FetchOptions['confirm'],
  widest: { from: number; to: number },
): Fetch<SideEnd> {
  const { behavior } = work;
  let page = first;
  let furthest = outermostTick(first.times, side);
  const { lastTick } = work.options;
  let isEndChecked = false;
  let isPaused = false;
  // All pages so far were generated at this moment or later.
  let observedAt = first.observedAt;
  const end = (outcome: SideEnd['outcome'], again: number | null, pages: readonly Observation[]): SideEnd => ({
    // The page that confirms a side asked for it whole, and speaks for it alone.
    outcome,
    again,
    page,
    edge: edgeOf(w, side, outcome === 'confirmed' ? pages.slice(-1) : pages),
    observedAt: Math.min(observedAt, ...pages.map((p) => p.observedAt)),
  });
  for (;;) {
    const { times } = page;
    const outermost = outermostTick(times, side);
    // Some state the span of a truncated page at both ends, the one that it keeps included.
    const isKept = behavior.side === (side === 'high' ? 'latest' : 'earliest');
    const isCut = !isKept && (side === 'high' ? page.isCutHigh : page.isCutLow);
    const isShort = side === 'high' ? outermost < furthest : outermost > furthest;
    const lacksKnown = side === 'high' && lastTick !== null && outermost < lastTick && lastTick < w.to;
    const isSuspicious = isCut || lacksKnown || looksTruncated(behavior, page, side, mode === 'now');
    const isNear = isShort || (!isEndChecked && (isSuspicious || isCrowded(work, page, outermost, side)));
    if (mode === 'next' && side === 'high' && !isNear) {
      yield { kind: 'presumed', window: { from: w.from, to: w.to } };
      return end('inferred', isEndChecked ? outermost : null, [page]);
    }
    const median = medianTick(times, side);
    const begin = isCut || isShort ? outermost : isNear ? tickNearEnd(times, side) : median;
    const next = yield* request(work, sideWindow(w, side, begin), side);
    if (next === null) return end('refused', null, [page]);
    const relation = compareSide(page.times, next.times, begin, side);
    if (relation === 'further') {
      const beyond = next.times.filter((t) => (side === 'high' ? t > outermost : t < outermost));
      if (beyond.some((t) => t < page.observedAt)) noteTruncated(behavior, page.received, side);
      if (isOutside(outermostTick(next.times, side), furthest, side)) work.idleRequests = 0;
      else if (work.idleRequests > idleRequestsMax) return end('contradicted', null, [page, next]);
      noteWidest(widest, next);
      yield* claim(work, between(first, outermost, side), isCut ? 'stated' : 'confirmed', observedAt);
      observedAt = Math.min(observedAt, next.observedAt);
      if (isBad(next)) yield* setAside(work, next, sideWindow(w, side, begin));
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
    if (relation === 'contradicts' && !isShort && isCutInside(page.times, next.times, begin, side)) {
      noteTruncated(behavior, next.received, side === 'high' ? 'low' : 'high');
      if (work.idleRequests > idleRequestsMax) return end('contradicted', null, [page, next]);
      observedAt = Math.min(observedAt, next.observedAt);
      page = next;
      isEndChecked = false;
      continue;
    }
    if (relation === 'contradicts' || isShort || next.before > 1 || next.after > 1) {
      if (relation === 'same' && !isShort) return end('unheeded', null, [page, next]);
      behavior.contradictions++;
      return end('contradicted', null, [page, next]);
    }
    // Of two pages that end in one millisecond, one was cut off amid its ticks where they are more in the other.
    const [had, has] = [countAtEnd(page, side), countAtEnd(next, side)];
    if (has < had || (has > had && has >= crowdMin)) return end('crowded', outermost, [page, next]);
    if (isCrowded(work, next, begin, side) || (times.length === 1 && !hasRoom(next, page))) {
      const exact = yield* requestWithRoom(work, sideWindow(w, side, begin), side, next, page);
      const lacksSome = begin === outermost && exact.countAtLast < countAtEnd(page, side);
      if (lacksSome || isCrowded(work, exact, begin, side) || !hasRoom(exact, page))
        return end('crowded', begin, [page, exact]);
    }
    if (isNear && begin !== median) {
      const roomy = yield* requestWithRoom(work, sideWindow(w, side, begin), side, next, page);
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
      const once = yield* request(work, sideWindow(w, side, outermost), side);
      if (once === null) return end('refused', null, [page]);
      const last = yield* requestWithRoom(work, sideWindow(w, side, outermost), side, once, page);
      const then = compareSide(page.times, last.times, outermost, side);
      if (then === 'contradicts') {
        behavior.contradictions++;
        return end('contradicted', null, [page, last]);
      }
      if (last.before > 1 || last.after > 1) return end('unheeded', null, [page, next, last]);
      isEndChecked = true;
      if (then === 'further') {
        noteTruncated(behavior, page.received, side);
        noteTruncated(behavior, next.received, side);
        observedAt = Math.min(observedAt, last.observedAt);
        page = last;
        furthest = outermostTick(last.times, side);
        noteWidest(widest, last);
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
const isOutside = (t: number, other: number, side: Side): boolean => (side === 'high' ? t > other : t < other);

/**
 * Whether a page holds nothing but ticks of one millisecond, and enough of them to fill a page: nobody can page over it.
 * One that shows a tick at the far end of the window, too, was not cut off before it.
 */
export function isCrowded({ largestPage }: Work, o: Observation, t: number, side: Side): boolean {
  const { times, count, received, before, after, asked, first, last } = o;
  if (times.length !== 1 || times[0] !== t || before + after > 1) return false;
  const hasFarEnd = side === 'high' ? last! >= asked.to : before === 0 && first! < asked.from;
  return !hasFarEnd && count >= crowdMin && received >= smallPageShare * largestPage;
}

/** Distinct ticks of the last millisecond of a page at a side. */
const countAtEnd = (o: Observation, side: Side): number => (side === 'high' ? o.countAtLast : o.countAtFirst);

/** Whether a page that begins at the last tick had room for a further one: what lies at the edges takes room, too. */
const hasRoom = ({ received }: Observation, page: Observation): boolean =>
  received < crowdMin || received <= 0.5 * page.received;

/** Repeats a request that had no room for a further tick, where ticks at the very edges took it and can be left out now. */
function* requestWithRoom(
  work: Work,
  asked: Window,
  side: Side,
  o: Observation,
  page: Observation,
): Fetch<Observation> {
  const hasEdgeTicks = (o.first! < asked.from && o.first === o.requested.from) || o.last! >= asked.to;
  if (hasRoom(o, page) || !hasEdgeTicks || isRequested(o, requestedWindow(work.behavior, asked, true))) return o;
  return (yield* request(work, asked, side, true)) ?? o;
}

const sideWindow = (w: Window, side: Side, tick: number): Window =>
  side === 'high' ? { from: tick, to: w.to } : { from: w.from, to: tick + 1 };

/** Up to where all of the pages speak at a side. */
const edgeOf = (w: Window, side: Side, pages: readonly Observation[]): number =>
  side === 'high'
    ? Math.min(w.to, ...pages.map(({ reach }) => reach.to))
    : Math.max(w.from, ...pages.map(({ reach }) => reach.from));

/**
 * What lies between the first page and a tick further out, which is included. At the other end of the first page another
 * price of the same millisecond may have been cut off.
 */
const between = (first: Observation, tick: number, side: Side): Window =>
  side === 'high' ? { from: first.times[0]! + 1, to: tick + 1 } : { from: tick, to: first.times.at(-1)! };

/** Notes the widest gap between two ticks of a page. */
export function noteWidest(widest: { from: number; to: number }, { times }: Observation): void {
  for (let i = 1; i < times.length; i++) {
    if (times[i]! - times[i - 1]! <= widest.to - widest.from) continue;
    widest.from = times[i - 1]!;
    widest.to = times[i]!;
  }
}
