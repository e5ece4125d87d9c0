import { findFirstAtOrAfter } from '../../base/binary-search.ts';
import { floorToDay, intersectTwo, isEmpty, isWithin, minuteMs, subtract, type Window } from '../../base/window.ts';
import { fetchSide, findMedianTick, isCrowded, noteWidestGap, type SideResult } from './fetch-side.ts';
import {
  claim,
  contradictionReason,
  createGapStep,
  createTooOldStep,
  crowdedReason,
  crowdedTicksMin,
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
  noteComplete,
  type ServerBehavior,
  smallPageShare,
  toRequestedWindow,
  type WindowSide,
} from './server-behavior.ts';

/** Maximum number of splits per window because of contradictory responses. */
const splitsMax = 512;
/**
 * Maximum number of consecutive responses that cover less than `narrowResponseMsMax`, contain hardly any ticks, and
 * leave a remainder.
 */
const narrowResponsesMax = 20;
const narrowResponseMsMax = minuteMs;
/** Maximum number of crowded milliseconds per planned window. Beyond it, the rest of the window becomes a gap. */
const crowdedMomentsMax = 200;
/** If a response ignores from/to and its last tick is at most this old, it covers the time up to its generation. In ms. */
const freshMsMax = minuteMs;

/**
 * Fetches a window with as many requests as necessary and claims what the pages cover. Up to the time of the responses,
 * each part of the window ends up either claimed or as a gap. Limits: 512 splits, and 30 consecutive requests that
 * neither return a further tick nor allow a claim.
 */
export function* fetchWindow(behavior: ServerBehavior, window: Window, options: FetchOptions): FetchSteps {
  const { from, to } = window;
  const progress: FetchProgress = {
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
  while (progress.pending.length > 0) {
    const next = progress.pending.shift()!;
    if (isEmpty(next)) continue;
    progress.hasClaimed = false;
    if (isKnownTooWide(progress, next)) {
      progress.splitsLeft--;
      const middle = Math.floor((next.from + next.to) / 2);
      progress.pending.unshift(
        { from: next.from, to: middle, isPart: true },
        { from: middle, to: next.to, isPart: true },
      );
    } else if (isExhausted(progress)) yield createGapStep(next, noResponseReason);
    else yield* fetchPending(progress, next);
  }
}

/** Whether a window is at least as wide as one whose page omitted ticks in its middle. */
const isKnownTooWide = (
  { contradictedMs, splitsLeft }: FetchProgress,
  { from, to, isEarlier, isExact }: PendingWindow,
): boolean => to - from >= contradictedMs && splitsLeft > 0 && isEarlier !== true && isExact !== true;

/** Whether the last requests made too little progress to continue. */
const isExhausted = ({ idleRequests, narrowResponses, crowdedMoments }: FetchProgress): boolean =>
  idleRequests > idleRequestsMax || narrowResponses > narrowResponsesMax || crowdedMoments > crowdedMomentsMax;

function* fetchPending(progress: FetchProgress, w: PendingWindow): FetchSteps {
  const { behavior, options } = progress;
  const knownTick = w.isPart ? null : options.knownTick;
  const requestedWindow = { from: Math.min(w.from, knownTick ?? w.from), to: w.to };
  let o = yield* requestPage(progress, requestedWindow, 'whole', w.isExact);
  // Ticks at the edges may have filled the page.
  if (
    o !== null &&
    o.times.length === 0 &&
    o.last !== null &&
    !isRequested(o, toRequestedWindow(behavior, requestedWindow, true))
  )
    o = yield* requestPage(progress, requestedWindow, 'whole', true);
  if (o === null || (w.isEarlier && isEmpty(o.claimableWindow))) {
    if (w.isEarlier) behavior.refusesEarlier = true;
    yield w.isEarlier ? createTooOldStep(w) : createGapStep(w, noResponseReason);
    return;
  }
  if (o.received > 0 && o.last === null) {
    yield createGapStep(w, formatNoneUsable(o.received, o.rejectedReason));
    return;
  }
  if (o.countBefore > 1 || o.countAfter > 1) return yield* processPageIgnoringWindow(progress, w, o, knownTick);
  if (isEmpty(o.claimableWindow)) {
    yield createGapStep({ from: w.from, to: Math.min(w.to, o.observedAt) }, noResponseReason);
    return;
  }
  if (hasTooManyRejected(o)) yield* excludePage(progress, o, requestedWindow);
  if (o.times.length > 0) {
    const isAnchored = knownTick !== null && includesTime(o.times, knownTick);
    const isFree = isAnchored && isEmpty(findContradictedTail(progress, o));
    return yield* processPage(
      progress,
      isFree ? w : { ...w, from: requestedWindow.from },
      o,
      isAnchored ? knownTick : null,
    );
  }
  const covered = intersectTwo(o.claimableWindow, w);
  if (o.count > 2 && o.received >= smallPageShare * behavior.largestPage) yield createGapStep(covered, crowdedReason);
  else if (!hasTooManyRejected(o))
    for (const window of subtract([covered], progress.excludedWindows))
      yield { kind: 'empty', window, observedAt: o.observedAt, lacksKnownTick: knownTick !== null };
  progress.idleRequests = isEmpty(covered) ? progress.idleRequests : 0;
  yield* queueRest(progress, w, o, covered);
}

/**
 * Handles a response that ignores from/to: a run of ticks anywhere in time. It covers the range from its first to its last
 * tick, extended to its own timestamp if the last tick is close to it.
 */
function* processPageIgnoringWindow(
  progress: FetchProgress,
  w: PendingWindow,
  o: Observation,
  knownTick: number | null,
): FetchSteps {
  const isFresh = o.countAfter === 0 && o.last! >= o.observedAt - freshMsMax;
  const run = { from: o.first!, to: isFresh ? o.observedAt : o.last! + 1 };
  const covered = intersectTwo(run, { from: w.from, to: Math.min(w.to, o.observedAt) });
  // The page may be truncated anywhere, including after the known tick.
  if (knownTick !== null && includesTime(o.times, knownTick)) yield* confirmEarlier(progress, o, knownTick, o.last!);
  yield* claim(progress, covered, 'inferred', o.observedAt);
  for (const rest of subtract([{ from: w.from, to: Math.min(w.to, o.observedAt) }], [covered]))
    yield createGapStep(rest, ignoredWindowReason);
}

function* processPage(
  progress: FetchProgress,
  planned: PendingWindow,
  o: Observation,
  knownTick: number | null,
): FetchSteps {
  const { behavior, options } = progress;
  yield* withdrawTail(progress, planned, findContradictedTail(progress, o));
  if (knownTick !== null && !isCrowded(progress, o, knownTick, 'high')) yield* confirmEarlier(progress, o, knownTick);
  const canWait = !planned.isPart && !progress.isTailContradicted && !leavesDayUnproven(progress, o, knownTick);
  const mode = options.confirm === 'next' && canWait ? 'next' : 'now';
  const ends: Partial<Record<WindowSide, SideResult>> = {};
  const widest = { from: 0, to: 0 };
  noteWidestGap(widest, o);
  // If the page was truncated after the window's start, late ticks before its first tick would be missed.
  const isLowFree = knownTick !== null && !(o.times[0]! > planned.from && looksTruncated(behavior, o, 'low'));
  const w = isLowFree ? planned : { ...planned, from: Math.min(planned.from, knownTick ?? planned.from) };
  for (const side of orderSides(behavior)) {
    const end =
      side === 'low' && isLowFree ? createKnownLowResult(w, o) : yield* fetchSide(progress, w, o, side, mode, widest);
    ends[side] = end;
    if (end.outcome === 'contradicted') return yield* splitWindow(progress, w, o);
  }
  const low = ends.low!;
  const high = ends.high!;
  const isWhole = [low, high].every(({ outcome }) => outcome === 'confirmed');
  // Responses with the same timestamp confirm nothing, but they show that a page was not truncated.
  const isSeenWhole = [low, high].every(
    (end) => end.outcome === 'confirmed' || (end.outcome === 'inferred' && end.repeatedTick !== null),
  );
  if (isSeenWhole && low.page === o && high.page === o) noteComplete(behavior, o.received);
  if (isWhole && widest.to > widest.from + 1 && needsGapCheck(behavior)) {
    const between = yield* requestPage(progress, { from: widest.from, to: widest.to + 1 }, 'whole', false);
    if (between !== null && !isExactly(between.times, widest)) {
      behavior.contradictions++;
      // There may be several such gaps, so splitting at the median as well keeps the parts small.
      const median = findMedianTick(o.times, 'high');
      return yield* splitWindow(
        progress,
        w,
        o,
        [...new Set([widest.from, median, widest.to])].sort((a, b) => a - b),
      );
    }
  }
  yield* claimBetween(progress, w, o, low, high);
  progress.idleRequests = 0;
}

/**
 * Whether the end of a past day would stay inferred: the page begins before the known tick and ends with it, so that it may be
 * truncated there (see `confirmEarlier`), and midnight lies between this tick and the end of the coverage.
 */
const leavesDayUnproven = (
  { options: { inferred } }: FetchProgress,
  { times }: Observation,
  knownTick: number | null,
): boolean =>
  knownTick !== null &&
  times.length > 1 &&
  times.at(-1) === knownTick &&
  knownTick < floorToDay(inferred.at(-1)?.to ?? knownTick);

const orderSides = ({ side }: ServerBehavior): readonly WindowSide[] =>
  side === 'latest' ? ['high', 'low'] : ['low', 'high'];

/** The low side of a page that begins at a known tick. Anything before its first tick was fetched earlier. */
const createKnownLowResult = (w: Window, o: Observation): SideResult => ({
  outcome: 'confirmed',
  edge: Math.max(w.from, o.times[0]!),
  repeatedTick: null,
  page: o,
  observedAt: o.observedAt,
});

/** Claims what both sides allow, turns the rest into gaps, and queues what no page covers. */
function* claimBetween(
  progress: FetchProgress,
  w: PendingWindow,
  first: Observation,
  low: SideResult,
  high: SideResult,
): FetchSteps {
  const covered = {
    from: isUnresolved(low) ? low.page.times[0]! : low.edge,
    to: isUnresolved(high) ? high.page.times.at(-1)! + 1 : high.edge,
  };
  const observedAt = Math.min(low.observedAt, high.observedAt);
  const inW = (window: Window): Window => intersectTwo(window, { from: w.from, to: Math.min(w.to, observedAt) });
  for (const { outcome, repeatedTick, page } of [low, high]) {
    if (outcome !== 'crowded' || page.received < smallPageShare * progress.behavior.largestPage) continue;
    // Some ticks of this millisecond may be stored and claimed already. It becomes a gap nevertheless.
    const crowdedWindow = { from: repeatedTick!, to: repeatedTick! + 1 };
    if (progress.hasClaimed) yield { kind: 'withdraw', window: crowdedWindow };
    progress.excludedWindows.push(crowdedWindow);
    yield createGapStep(crowdedWindow, crowdedReason);
  }
  // The range beyond a page's ticks is no more reliable than the page itself.
  for (const window of [
    ...(hasTooManyRejected(low.page) ? [{ from: w.from, to: low.page.times[0]! }] : []),
    ...(hasTooManyRejected(high.page) ? [{ from: high.page.times.at(-1)! + 1, to: Math.min(w.to, observedAt) }] : []),
  ]) {
    progress.excludedWindows.push(window);
    yield createGapStep(window, formatRejectedReason(hasTooManyRejected(low.page) ? low.page : high.page));
  }
  if (low.outcome === 'confirmed' && high.outcome === 'confirmed') {
    yield* claim(progress, inW(covered), 'confirmed', observedAt);
  } else {
    yield* claim(progress, inW(covered), 'inferred', observedAt);
    // The page may be truncated within the millisecond at its other end. Further pages overlap each other up to the first one.
    if (low.outcome === 'confirmed' && low.repeatedTick !== null) {
      const to = low.page === first ? Math.min(low.repeatedTick + 1, low.page.times.at(-1)!) : first.times.at(-1)!;
      yield* claim(progress, inW({ from: covered.from, to }), 'confirmed', observedAt);
    }
    if (high.outcome === 'confirmed' && high.repeatedTick !== null) {
      const from = Math.max(high.repeatedTick, high.page.times[0]! + 1);
      yield* claim(progress, inW({ from, to: covered.to }), 'confirmed', observedAt);
    }
  }
  // Nothing before a known tick was checked: earlier claims there stay as they are.
  if (low.outcome === 'confirmed' && low.repeatedTick === null && w.from < covered.from)
    yield* claim(progress, inW({ from: w.from, to: covered.from }), 'inferred', observedAt);
  for (const [end, rest] of [
    [low, { from: w.from, to: covered.from }],
    [high, { from: covered.to, to: Math.min(w.to, observedAt) }],
  ] as const) {
    if (end.outcome === 'refused') yield createGapStep(rest, noResponseReason);
    else if (end.outcome === 'unheeded') yield createGapStep(rest, ignoredWindowReason);
    else if (end.outcome === 'crowded') {
      yield* claim(progress, { from: end.repeatedTick!, to: end.repeatedTick! + 1 }, 'inferred', observedAt);
      progress.crowdedMoments++;
      progress.pending.push({ ...rest, isExact: true, isPart: true });
    }
  }
  const isLowFree = low.repeatedTick === null && low.outcome === 'confirmed';
  const stated = {
    from: isUnresolved(low) || isLowFree ? w.from : low.edge,
    to: isUnresolved(high) ? w.to : high.edge,
  };
  yield* queueRest(progress, w, { ...low.page, observedAt }, stated);
}

/** Whether the pages of a side do not determine what lies beyond its outermost tick. */
const isUnresolved = ({ outcome }: SideResult): boolean =>
  outcome === 'refused' || outcome === 'unheeded' || outcome === 'crowded';

/** Queues what a response does not cover. A server may limit the time range per response, or cover only the span of its ticks. */
function* queueRest(progress: FetchProgress, w: PendingWindow, o: Observation, covered: Window): FetchSteps {
  const { behavior } = progress;
  const unspoken = subtract([{ from: w.from, to: Math.min(w.to, o.observedAt) }], [covered]);
  const isCreeping =
    unspoken.length > 0 && covered.to - covered.from < narrowResponseMsMax && o.times.length < crowdedTicksMin;
  progress.narrowResponses = isCreeping ? progress.narrowResponses + 1 : 0;
  for (const rest of unspoken) {
    const isEarlier = rest.from === w.from && rest.to !== o.times[0];
    if (isEarlier && behavior.refusesEarlier) yield createTooOldStep(rest);
    else progress.pending.push({ ...rest, isEarlier, isExact: !isEarlier, isPart: true });
  }
}

/** Fetches the parts of a window separately, because responses for it disagree. Withdraws the claims made for it. */
function* splitWindow(
  progress: FetchProgress,
  w: PendingWindow,
  o: Observation,
  cutTimes?: readonly number[],
): FetchSteps {
  if (progress.hasClaimed) yield { kind: 'withdraw', window: { from: w.from, to: w.to } };
  progress.hasClaimed = false;
  const inside = (t: number): boolean => w.from < t && t < w.to;
  const middle = Math.floor((w.from + w.to) / 2);
  const candidates = (cutTimes ?? [findMedianTick(o.times, 'high'), o.times.at(-1)!, middle]).filter(inside);
  const cutsHere = cutTimes === undefined ? candidates.slice(0, 1) : candidates;
  if (cutsHere.length === 0 || progress.splitsLeft === 0) {
    yield createGapStep(w, contradictionReason);
    return;
  }
  progress.splitsLeft--;
  if (progress.hasContradictedBefore) progress.contradictedMs = Math.min(progress.contradictedMs, w.to - w.from);
  const bounds = [w.from, ...cutsHere, w.to];
  const parts = bounds.slice(1).map((to, i) => ({ from: bounds[i]!, to, isPart: true }));
  progress.pending.unshift(...parts);
}

/**
 * The inferred window that a page contradicts: the page has ticks in it after the last known tick. These are late
 * ticks, or an earlier page was truncated. The window starts where the contradicted response's coverage starts; older
 * responses are not affected. Empty if there is no contradiction.
 */
function findContradictedTail(
  { options: { knownTick, lastTick, inferred } }: FetchProgress,
  { times }: Observation,
): Window {
  const last = knownTick ?? lastTick ?? Number.NEGATIVE_INFINITY;
  const first = inferred.find((w) => times.some((t) => t > last && isWithin(t, w)));
  if (first === undefined) return { from: 0, to: 0 };
  const { from } = inferred.find(({ fetchedAt }) => fetchedAt === first.fetchedAt)!;
  return { from: Math.max(from, last + 1), to: inferred.at(-1)!.to };
}

/**
 * Withdraws the window that a page contradicts, once, so that no later poll confirms it even if this fetch fails.
 * Fetches the part of it that lies outside the current window.
 */
function* withdrawTail(progress: FetchProgress, w: PendingWindow, window: Window): FetchSteps {
  if (progress.isTailContradicted || isEmpty(window)) return;
  progress.isTailContradicted = true;
  yield { kind: 'withdraw', window };
  for (const rest of subtract([window], [w, ...progress.pending])) progress.pending.push({ ...rest, isPart: true });
}

/**
 * Confirms what earlier polls left inferred, and proves again what they proved before it was final: the page contains the known
 * tick and no new ticks after it.
 */
function* confirmEarlier(
  progress: FetchProgress,
  o: Observation,
  knownTick: number,
  last = Number.POSITIVE_INFINITY,
): FetchSteps {
  const { inferred, coveredTo = null } = progress.options;
  const newest = Math.max(...inferred.map(({ fetchedAt }) => fetchedAt));
  const to = Math.min(inferred.at(-1)?.to ?? coveredTo ?? knownTick, last + 1);
  const isLate = o.times.some((t) => t > knownTick && t < to);
  // A page that begins before the known tick may be truncated right after it, like the page of the previous poll, or within
  // its millisecond.
  const mayBeCut = o.times.at(-1) === knownTick && o.times.length > 1;
  const until = Math.min(isLate ? knownTick + 1 : mayBeCut ? knownTick : to, o.observedAt);
  // Of what no poll may confirm, nothing is known of the earlier response either.
  if (newest !== o.generatedAt && (inferred.length > 0 || coveredTo !== null)) {
    const seenAgainTo = inferred.length === 0 ? until : Math.min(until, knownTick + 1);
    yield* claim(progress, { from: o.times[0]!, to: seenAgainTo }, 'confirmed', o.observedAt);
  }
  for (const earlier of inferred) {
    // The last poll had a reason for not confirming what an earlier poll left inferred.
    if (earlier.fetchedAt === o.generatedAt || earlier.fetchedAt !== newest) continue;
    const part = { from: earlier.from, to: Math.min(earlier.to, until) };
    const seenAgain = Math.max(part.from, Math.min(part.to, o.times[0]!));
    yield* claim(progress, { from: part.from, to: seenAgain }, 'confirmed', earlier.fetchedAt);
    yield* claim(progress, { from: seenAgain, to: part.to }, 'confirmed', o.observedAt);
  }
}

const includesTime = (times: Float64Array, t: number): boolean => times[findFirstAtOrAfter(times, t)] === t;

const isExactly = (times: Float64Array, { from, to }: Window): boolean =>
  times.length === 2 && times[0] === from && times[1] === to;
