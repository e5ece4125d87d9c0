import { intersectTwo, isEmpty, subtract, type Window } from '../../base/window.ts';
import { fetchSide, findMedianTick, isCrowded, noteWidestGap, type SideResult } from './fetch-side.ts';
import {
  claim,
  contradictionReason,
  createGapStep,
  createTooOldStep,
  crowdedReason,
  crowdTicksMin,
  excludePage,
  type FetchOptions,
  type FetchProgress,
  type FetchSteps,
  formatNoneUsable,
  formatRejectedReason,
  hasTooManyRejected,
  idleRequestsMax,
  ignoredWindowReason,
  isRequested,
  noResponseReason,
  type PendingWindow,
  requestPage,
} from './fetch-steps.ts';
import type { Observation } from './observation.ts';
import {
  looksTruncated,
  needsGapCheck,
  noteWhole,
  type ServerBehavior,
  smallPageShare,
  toRequestedWindow,
  type WindowSide,
} from './server-behavior.ts';

/** How often a window may be split where responses disagree. */
const splitsMax = 512;
/** How many responses in a row may speak for less than a minute, with hardly a tick, and leave more to ask for. */
const narrowResponsesMax = 20;
const narrowResponseMsMax = 60_000;
/** How many milliseconds of a window as planned may be crowded before the rest of it is given up. */
const crowdedMomentsMax = 200;
/** Ticks this shortly before the moment of a response that ignores its window show that it goes on until then, in ms. */
const freshMsMax = 60_000;

/**
 * Fetches a window by as many requests as it takes, and claims what was seen of it. Up to the moment of the responses
 * all of it ends claimed or as a gap. At most 512 splits, and 30 requests in a row that neither bring a further tick
 * nor let anything be claimed.
 */
export function* fetchWindow(behavior: ServerBehavior, window: Window, options: FetchOptions): FetchSteps {
  const { from, to } = window;
  const work: FetchProgress = {
    behavior,
    options,
    pending: [{ from, to }],
    splitsLeft: splitsMax,
    hasContradictedBefore: behavior.contradictions > 0,
    contradictedMs: Number.POSITIVE_INFINITY,
    idleRequests: 0,
    narrowResponses: 0,
    crowdedMoments: 0,
    hasClaimed: false,
    excludedWindows: [],
    largestPage: 0,
    isTailContradicted: false,
  };
  while (work.pending.length > 0) {
    const next = work.pending.shift()!;
    if (isEmpty(next)) continue;
    work.hasClaimed = false;
    if (isKnownTooWide(work, next)) {
      work.splitsLeft--;
      const middle = Math.floor((next.from + next.to) / 2);
      work.pending.unshift({ from: next.from, to: middle, isPart: true }, { from: middle, to: next.to, isPart: true });
    } else if (isExhausted(work)) yield createGapStep(next, noResponseReason);
    else yield* fetchPending(work, next);
  }
}

/** Whether a window is as wide as one that left ticks out between its own. */
const isKnownTooWide = (
  { contradictedMs, splitsLeft }: FetchProgress,
  { from, to, isEarlier, isExact }: PendingWindow,
): boolean => to - from >= contradictedMs && splitsLeft > 0 && isEarlier !== true && isExact !== true;

/** Whether the last requests brought so little that it is not worth going on. */
const isExhausted = ({ idleRequests, narrowResponses, crowdedMoments }: FetchProgress): boolean =>
  idleRequests > idleRequestsMax || narrowResponses > narrowResponsesMax || crowdedMoments > crowdedMomentsMax;

function* fetchPending(work: FetchProgress, w: PendingWindow): FetchSteps {
  const { behavior, options } = work;
  const knownTick = w.isPart ? null : options.knownTick;
  const asked = { from: Math.min(w.from, knownTick ?? w.from), to: w.to };
  let o = yield* requestPage(work, asked, 'whole', w.isExact);
  // Ticks at the very edges may have taken the room.
  if (
    o !== null &&
    o.times.length === 0 &&
    o.last !== null &&
    !isRequested(o, toRequestedWindow(behavior, asked, true))
  )
    o = yield* requestPage(work, asked, 'whole', true);
  if (o === null || (w.isEarlier && isEmpty(o.claimableWindow))) {
    if (w.isEarlier) behavior.refusesEarlier = true;
    yield w.isEarlier ? createTooOldStep(w) : createGapStep(w, noResponseReason);
    return;
  }
  if (o.received > 0 && o.last === null) {
    yield createGapStep(w, formatNoneUsable(o.received, o.rejectedReason));
    return;
  }
  if (o.countBefore > 1 || o.countAfter > 1) return yield* processPageIgnoringWindow(work, w, o, knownTick);
  if (isEmpty(o.claimableWindow)) {
    yield createGapStep({ from: w.from, to: Math.min(w.to, o.observedAt) }, noResponseReason);
    return;
  }
  if (hasTooManyRejected(o)) yield* excludePage(work, o, asked);
  if (o.times.length > 0) {
    const isAnchored = knownTick !== null && includesTime(o.times, knownTick);
    const isFree = isAnchored && isEmpty(findContradictedTail(work, o));
    return yield* processPage(work, isFree ? w : { ...w, from: asked.from }, o, isAnchored ? knownTick : null);
  }
  const spoken = intersectTwo(o.claimableWindow, w);
  if (o.count > 2 && o.received >= smallPageShare * behavior.largestPage) yield createGapStep(spoken, crowdedReason);
  else if (!hasTooManyRejected(o))
    for (const window of subtract([spoken], work.excludedWindows))
      yield { kind: 'empty', window, observedAt: o.observedAt, lacksKnownTick: knownTick !== null };
  work.idleRequests = isEmpty(spoken) ? work.idleRequests : 0;
  yield* queueRest(work, w, o, spoken);
}

/**
 * A response that ignores the window: one run of ticks, wherever it lies. It speaks for what is between its first and
 * last tick, and on to its own moment where the last tick is close to it.
 */
function* processPageIgnoringWindow(
  work: FetchProgress,
  w: PendingWindow,
  o: Observation,
  knownTick: number | null,
): FetchSteps {
  const isFresh = o.countAfter === 0 && o.last! >= o.observedAt - freshMsMax;
  const run = { from: o.first!, to: isFresh ? o.observedAt : o.last! + 1 };
  const spoken = intersectTwo(run, { from: w.from, to: Math.min(w.to, o.observedAt) });
  // It may be cut off anywhere, behind the known tick too.
  if (knownTick !== null && includesTime(o.times, knownTick)) yield* confirmEarlier(work, o, knownTick, o.last!);
  yield* claim(work, spoken, 'inferred', o.observedAt);
  for (const rest of subtract([{ from: w.from, to: Math.min(w.to, o.observedAt) }], [spoken]))
    yield createGapStep(rest, ignoredWindowReason);
}

function* processPage(
  work: FetchProgress,
  planned: PendingWindow,
  o: Observation,
  knownTick: number | null,
): FetchSteps {
  const { behavior, options } = work;
  yield* withdrawTail(work, planned, findContradictedTail(work, o));
  if (knownTick !== null && !isCrowded(work, o, knownTick, 'high')) yield* confirmEarlier(work, o, knownTick);
  const mode = options.confirm === 'next' && !planned.isPart && !work.isTailContradicted ? 'next' : 'now';
  const ends: Partial<Record<WindowSide, SideResult>> = {};
  const widest = { from: 0, to: 0 };
  noteWidestGap(widest, o);
  // Where the page was cut off behind the window's start, late ticks before its first one would be missed.
  const isLowFree = knownTick !== null && !(o.times[0]! > planned.from && looksTruncated(behavior, o, 'low'));
  const w = isLowFree ? planned : { ...planned, from: Math.min(planned.from, knownTick ?? planned.from) };
  for (const side of orderSides(behavior)) {
    const end =
      side === 'low' && isLowFree ? createKnownLowResult(w, o) : yield* fetchSide(work, w, o, side, mode, widest);
    ends[side] = end;
    if (end.outcome === 'contradicted') return yield* splitWindow(work, w, o);
  }
  const low = ends.low!;
  const high = ends.high!;
  const isWhole = [low, high].every(({ outcome }) => outcome === 'confirmed');
  // Responses of one moment prove nothing, and yet show that a page was not cut off.
  const isSeenWhole = [low, high].every(
    (end) => end.outcome === 'confirmed' || (end.outcome === 'inferred' && end.repeatedTick !== null),
  );
  if (isSeenWhole && low.page === o && high.page === o) noteWhole(behavior, o.received);
  if (isWhole && widest.to > widest.from + 1 && needsGapCheck(behavior)) {
    const between = yield* requestPage(work, { from: widest.from, to: widest.to + 1 }, 'whole', false);
    if (between !== null && !isExactly(between.times, widest)) {
      behavior.contradictions++;
      // Where the gap is not the only one, the halves are no wider than they have to be.
      const median = findMedianTick(o.times, 'high');
      return yield* splitWindow(
        work,
        w,
        o,
        [...new Set([widest.from, median, widest.to])].sort((a, b) => a - b),
      );
    }
  }
  yield* claimBetween(work, w, low, high);
  work.idleRequests = 0;
}

const orderSides = ({ side }: ServerBehavior): readonly WindowSide[] =>
  side === 'latest' ? ['high', 'low'] : ['low', 'high'];

/** The low side of a page that begins at a known tick: what is before its first tick was fetched before. */
const createKnownLowResult = (w: Window, o: Observation): SideResult => ({
  outcome: 'confirmed',
  edge: Math.max(w.from, o.times[0]!),
  repeatedTick: null,
  page: o,
  observedAt: o.observedAt,
});

/** Claims what both sides allow, leaves what they do not as a gap, and asks for what no page spoke for. */
function* claimBetween(work: FetchProgress, w: PendingWindow, low: SideResult, high: SideResult): FetchSteps {
  const spoken = {
    from: isUnresolved(low) ? low.page.times[0]! : low.edge,
    to: isUnresolved(high) ? high.page.times.at(-1)! + 1 : high.edge,
  };
  const observedAt = Math.min(low.observedAt, high.observedAt);
  const inW = (window: Window): Window => intersectTwo(window, { from: w.from, to: Math.min(w.to, observedAt) });
  for (const { outcome, repeatedTick, page } of [low, high]) {
    if (outcome !== 'crowded' || page.received < smallPageShare * work.behavior.largestPage) continue;
    // Some of its ticks may be had and be claimed by now: that moment is a gap, whatever else is known.
    const crowd = { from: repeatedTick!, to: repeatedTick! + 1 };
    if (work.hasClaimed) yield { kind: 'withdraw', window: crowd };
    work.excludedWindows.push(crowd);
    yield createGapStep(crowd, crowdedReason);
  }
  // What is beyond the last tick of a page is as doubtful as the page.
  for (const window of [
    ...(hasTooManyRejected(low.page) ? [{ from: w.from, to: low.page.times[0]! }] : []),
    ...(hasTooManyRejected(high.page) ? [{ from: high.page.times.at(-1)! + 1, to: Math.min(w.to, observedAt) }] : []),
  ]) {
    work.excludedWindows.push(window);
    yield createGapStep(window, formatRejectedReason(hasTooManyRejected(low.page) ? low.page : high.page));
  }
  if (low.outcome === 'confirmed' && high.outcome === 'confirmed') {
    yield* claim(work, inW(spoken), 'confirmed', observedAt);
  } else {
    yield* claim(work, inW(spoken), 'inferred', observedAt);
    // A page may have been cut off amid the ticks of the millisecond at its other end.
    if (low.outcome === 'confirmed' && low.repeatedTick !== null) {
      const to = Math.min(low.repeatedTick + 1, low.page.times.at(-1)!);
      yield* claim(work, inW({ from: spoken.from, to }), 'confirmed', observedAt);
    }
    if (high.outcome === 'confirmed' && high.repeatedTick !== null) {
      const from = Math.max(high.repeatedTick, high.page.times[0]! + 1);
      yield* claim(work, inW({ from, to: spoken.to }), 'confirmed', observedAt);
    }
  }
  // Before a known tick nothing new was looked for: what was claimed there stays as it is.
  if (low.outcome === 'confirmed' && low.repeatedTick === null && w.from < spoken.from)
    yield* claim(work, inW({ from: w.from, to: spoken.from }), 'inferred', observedAt);
  for (const [end, rest] of [
    [low, { from: w.from, to: spoken.from }],
    [high, { from: spoken.to, to: Math.min(w.to, observedAt) }],
  ] as const) {
    if (end.outcome === 'refused') yield createGapStep(rest, noResponseReason);
    else if (end.outcome === 'unheeded') yield createGapStep(rest, ignoredWindowReason);
    else if (end.outcome === 'crowded') {
      yield* claim(work, { from: end.repeatedTick!, to: end.repeatedTick! + 1 }, 'inferred', observedAt);
      work.crowdedMoments++;
      work.pending.push({ ...rest, isExact: true, isPart: true });
    }
  }
  const isLowFree = low.repeatedTick === null && low.outcome === 'confirmed';
  const stated = {
    from: isUnresolved(low) || isLowFree ? w.from : low.edge,
    to: isUnresolved(high) ? w.to : high.edge,
  };
  yield* queueRest(work, w, { ...low.page, observedAt }, stated);
}

/** Whether a side ended without an answer for what is beyond its last tick. */
const isUnresolved = ({ outcome }: SideResult): boolean =>
  outcome === 'refused' || outcome === 'unheeded' || outcome === 'crowded';

/** Asks for what a response did not speak for: a service may answer for so much time at once, or just for the span of its ticks. */
function* queueRest(work: FetchProgress, w: PendingWindow, o: Observation, spoken: Window): FetchSteps {
  const { behavior } = work;
  const unspoken = subtract([{ from: w.from, to: Math.min(w.to, o.observedAt) }], [spoken]);
  const isCreeping =
    unspoken.length > 0 && spoken.to - spoken.from < narrowResponseMsMax && o.times.length < crowdTicksMin;
  work.narrowResponses = isCreeping ? work.narrowResponses + 1 : 0;
  for (const rest of unspoken) {
    const isEarlier = rest.from === w.from && rest.to !== o.times[0];
    if (isEarlier && behavior.refusesEarlier) yield createTooOldStep(rest);
    else work.pending.push({ ...rest, isEarlier, isExact: !isEarlier, isPart: true });
  }
}

/** Fetches the parts of a window on their own, as responses about it disagree; what was claimed of it is taken back. */
function* splitWindow(work: FetchProgress, w: PendingWindow, o: Observation, cuts?: readonly number[]): FetchSteps {
  if (work.hasClaimed) yield { kind: 'withdraw', window: { from: w.from, to: w.to } };
  work.hasClaimed = false;
  const inside = (t: number): boolean => w.from < t && t < w.to;
  const middle = Math.floor((w.from + w.to) / 2);
  const at = (cuts ?? [findMedianTick(o.times, 'high'), o.times.at(-1)!, middle]).filter(inside);
  const cutsHere = cuts === undefined ? at.slice(0, 1) : at;
  if (cutsHere.length === 0 || work.splitsLeft === 0) {
    yield createGapStep(w, contradictionReason);
    return;
  }
  work.splitsLeft--;
  if (work.hasContradictedBefore) work.contradictedMs = Math.min(work.contradictedMs, w.to - w.from);
  const bounds = [w.from, ...cutsHere, w.to];
  const parts = bounds.slice(1).map((to, i) => ({ from: bounds[i]!, to, isPart: true }));
  work.pending.unshift(...parts);
}

/**
 * The inferred window that a page contradicts, as it contains ticks there after the last known one. These are late ticks, or
 * an earlier page was truncated. The window starts where the contradicted response's coverage starts; older responses are
 * not affected. Empty if there is no contradiction.
 */
function findContradictedTail(
  { options: { knownTick, lastTick, inferred } }: FetchProgress,
  { times }: Observation,
): Window {
  const last = knownTick ?? lastTick ?? Number.NEGATIVE_INFINITY;
  const first = inferred.find((w) => times.some((t) => t > last && w.from <= t && t < w.to));
  if (first === undefined) return { from: 0, to: 0 };
  const { from } = inferred.find(({ fetchedAt }) => fetchedAt === first.fetchedAt)!;
  return { from: Math.max(from, last + 1), to: inferred.at(-1)!.to };
}

/**
 * Withdraws the window that a page contradicts, once, so that no later poll confirms it even if this fetch fails. Fetches
 * the part of it that lies outside of the current window.
 */
function* withdrawTail(work: FetchProgress, w: PendingWindow, window: Window): FetchSteps {
  if (work.isTailContradicted || isEmpty(window)) return;
  work.isTailContradicted = true;
  yield { kind: 'withdraw', window };
  for (const rest of subtract([window], [w, ...work.pending])) work.pending.push({ ...rest, isPart: true });
}

/** Confirms what earlier polls left inferred: the known tick came again, and nothing new in what followed it then. */
function* confirmEarlier(
  work: FetchProgress,
  o: Observation,
  knownTick: number,
  last = Number.POSITIVE_INFINITY,
): FetchSteps {
  const { inferred } = work.options;
  const newest = Math.max(...inferred.map(({ fetchedAt }) => fetchedAt));
  const to = Math.min(inferred.at(-1)?.to ?? knownTick, last + 1);
  const isLate = o.times.some((t) => t > knownTick && t < to);
  // A page that begins before the known tick may have been cut off right behind it, as the page of the poll before was, or
  // amid the ticks of its millisecond.
  const mayBeCut = o.times.at(-1) === knownTick && o.times.length > 1;
  const until = Math.min(isLate ? knownTick + 1 : mayBeCut ? knownTick : to, o.observedAt);
  for (const earlier of inferred) {
    // What an even earlier poll left and the last one did not confirm, it had a reason not to.
    if (earlier.fetchedAt === o.generatedAt || earlier.fetchedAt !== newest) continue;
    const piece = { from: earlier.from, to: Math.min(earlier.to, until) };
    const seenAgain = Math.max(piece.from, Math.min(piece.to, o.times[0]!));
    yield* claim(work, { from: piece.from, to: seenAgain }, 'confirmed', earlier.fetchedAt);
    yield* claim(work, { from: seenAgain, to: piece.to }, 'confirmed', o.observedAt);
  }
}

function includesTime(times: Float64Array, t: number): boolean {
  let [low, high] = [0, times.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (times[middle]! < t) low = middle + 1;
    else high = middle;
  }
  return times[low] === t;
}

const isExactly = (times: Float64Array, { from, to }: Window): boolean =>
  times.length === 2 && times[0] === from && times[1] === to;
