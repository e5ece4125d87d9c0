import { intersectTwo, isEmpty, minuteMs, subtract, type Window } from '../../base/window.ts';
import { fetchSide, type SideResult } from './fetch-side.ts';
import {
  claim,
  contradictionReason,
  createGapStep,
  createTooOldStep,
  crowdedReason,
  crowdedTicksMin,
  cutAtExcluded,
  excludePage,
  type FetchOptions,
  type FetchProgress,
  type FetchSteps,
  formatNoneUsable,
  formatRejectedReason,
  hasTooManyRejected,
  idleRequestsMax,
  ignoredWindowReason,
  ignoresWindow,
  noGap,
  noResponseReason,
  type PendingWindow,
  requestPage,
  thinnedMsMin,
} from './fetch-steps.ts';
import type { Observation } from './observation.ts';
import { looksTruncated, noteComplete, type ServerBehavior, smallPageShare } from './server-behavior.ts';

/** Maximum number of responses per window that lack the tick from which they were requested. */
const breaksMax = 16;
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
 * each part of the window ends up either claimed or as a gap. Limits: 16 responses that do not continue the one before, and 30
 * consecutive requests that neither return a further tick nor allow a claim.
 */
export function* fetchWindow(behavior: ServerBehavior, window: Window, options: FetchOptions): FetchSteps {
  const { from, to } = window;
  const progress: FetchProgress = {
    behavior,
    options,
    pending: [{ from, to }],
    widestGap: noGap,
    breaks: 0,
    idleRequests: 0,
    narrowResponses: 0,
    crowdedMoments: 0,
    excludedWindows: [],
    largestPage: 0,
  };
  while (progress.pending.length > 0) {
    const next = progress.pending.shift()!;
    if (isEmpty(next)) continue;
    progress.widestGap = noGap;
    if (isExhausted(progress)) yield createGapStep(next, noResponseReason);
    else yield* fetchPending(progress, next);
  }
}

/** Whether the last requests made too little progress to continue. */
const isExhausted = ({ idleRequests, narrowResponses, crowdedMoments }: FetchProgress): boolean =>
  idleRequests > idleRequestsMax || narrowResponses > narrowResponsesMax || crowdedMoments > crowdedMomentsMax;

function* fetchPending(progress: FetchProgress, w: PendingWindow): FetchSteps {
  const { behavior, options } = progress;
  const knownTick = w.isPart ? null : options.knownTick;
  const requestedWindow = { from: Math.min(w.from, knownTick ?? w.from), to: w.to };
  const o = yield* requestPage(progress, requestedWindow, 'whole', w.isExact);
  if (o === null || (w.isEarlier && isEmpty(o.claimableWindow))) {
    if (w.isEarlier) behavior.refusesEarlier = true;
    yield w.isEarlier ? createTooOldStep(w) : createGapStep(w, noResponseReason);
    return;
  }
  if (o.received > 0 && o.last === null) {
    yield createGapStep(w, formatNoneUsable(o.received, o.rejectedReason));
    return;
  }
  if (ignoresWindow(o)) return yield* processPageIgnoringWindow(progress, w, o);
  if (isEmpty(o.claimableWindow)) {
    yield createGapStep({ from: w.from, to: Math.min(w.to, o.observedAt) }, noResponseReason);
    return;
  }
  if (o.isThinned) return fetchHalves(progress, w);
  if (hasTooManyRejected(o)) yield* excludePage(progress, o, requestedWindow);
  if (o.times.length > 0) {
    const isAnchored = knownTick !== null && o.times.includes(knownTick);
    return yield* processPage(progress, { ...w, from: requestedWindow.from }, o, isAnchored ? knownTick : null);
  }
  const covered = intersectTwo(o.claimableWindow, w);
  if (o.count > 2 && o.received >= smallPageShare * behavior.largestPage) yield createGapStep(covered, crowdedReason);
  else if (!hasTooManyRejected(o))
    for (const window of subtract([covered], progress.excludedWindows))
      yield {
        kind: 'empty',
        window,
        observedAt: o.observedAt,
        lacksKnownTick: knownTick !== null,
        hasOthers: o.received > 0,
        sent: o.requested,
      };
  progress.idleRequests = isEmpty(covered) ? progress.idleRequests : 0;
  yield* queueRest(progress, w, o, covered);
}

/**
 * Handles a response that ignores from/to: a run of ticks anywhere in time. It covers the range from its first to its last
 * tick, extended to its own timestamp if the last tick is close to it.
 */
function* processPageIgnoringWindow(progress: FetchProgress, w: PendingWindow, o: Observation): FetchSteps {
  const isFresh = o.countAfter === 0 && o.last! >= o.observedAt - freshMsMax;
  const run = { from: o.first!, to: isFresh ? o.observedAt : o.last! + 1 };
  const covered = intersectTwo(run, { from: w.from, to: Math.min(w.to, o.observedAt) });
  yield* claim(progress, covered, 'inferred', o.observedAt);
  for (const rest of subtract([{ from: w.from, to: Math.min(w.to, o.observedAt) }], [covered]))
    yield createGapStep(rest, ignoredWindowReason);
}

function* processPage(progress: FetchProgress, w: PendingWindow, o: Observation, knownTick: number | null): FetchSteps {
  const { behavior } = progress;
  // If the page was truncated after the window's start, late ticks before its first tick would be missed.
  const isLowFree =
    knownTick !== null && progress.options.isLowUnproven !== true && !looksTruncated(behavior, o, 'low');
  const low = isLowFree ? createKnownLowResult(w, o) : yield* fetchSide(progress, w, o, 'low');
  const high = yield* fetchSide(progress, w, o, 'high');
  if (isWhole(low) && isWhole(high) && low.page === o && high.page === o) noteComplete(behavior, o.received);
  yield* claimBetween(progress, w, low, high);
  progress.idleRequests = 0;
  if (behavior.omitsTicks) yield* checkWidestGap(progress, w);
}

/** Fetches a window in two parts, before all else, as a response for it left out known ticks: narrower ones may not. */
function fetchHalves({ behavior, pending }: FetchProgress, { from, to }: Window): void {
  behavior.contradictions++;
  const middle = Math.floor((from + to) / 2);
  pending.unshift({ from, to: middle, isPart: true }, { from: middle, to, isPart: true });
}

/** Whether a second page, or what was known before, shows that the page was not truncated at this side. */
const isWhole = ({ outcome }: SideResult): boolean => outcome === 'known' || outcome === 'repeated';

/**
 * Requests the widest gap between two ticks of a window, of a server that omits ticks. If there are some, the parts of the window
 * are fetched apart.
 */
function* checkWidestGap(progress: FetchProgress, w: PendingWindow): FetchSteps {
  const { behavior, pending, widestGap } = progress;
  if (widestGap.to <= widestGap.from + 1) return;
  // Without its first tick, so that a server that shows every second one shows others.
  const rest = { from: widestGap.from + 1, to: widestGap.to + 1 };
  const between = yield* requestPage(progress, rest, 'whole', true);
  if (between === null || (between.times.length === 1 && between.times[0] === widestGap.to)) return;
  if (w.to - w.from <= thinnedMsMin) {
    yield { kind: 'omission', t: between.times[0] ?? widestGap.to, at: between.observedAt };
    return;
  }
  behavior.contradictions++;
  // There may be several such gaps: halves keep the parts small.
  const middle = Math.floor((w.from + w.to) / 2);
  const cuts = [widestGap.from, middle, widestGap.to].filter((t) => w.from < t && t < w.to).sort((a, b) => a - b);
  const bounds = [w.from, ...cuts, w.to];
  pending.push(...bounds.slice(1).map((to, i) => ({ from: bounds[i]!, to, isPart: true })));
}

/** The low side of a page that begins at a known tick. Anything before its first tick was fetched earlier. */
const createKnownLowResult = (w: Window, o: Observation): SideResult => ({
  outcome: 'known',
  edge: Math.max(w.from, o.times[0]!),
  tick: o.times[0]!,
  page: o,
  shown: o.shown,
  isUncapped: true,
  observedAt: o.observedAt,
});

/** Claims what both sides allow, turns the rest into gaps, and queues what no page covers. */
function* claimBetween(progress: FetchProgress, w: PendingWindow, low: SideResult, high: SideResult): FetchSteps {
  const covered = {
    from: isUnresolved(low) ? low.tick : low.edge,
    to: isUnresolved(high) ? high.tick + 1 : high.edge,
  };
  const observedAt = Math.min(low.observedAt, high.observedAt);
  const inW = (window: Window): Window => intersectTwo(window, { from: w.from, to: Math.min(w.to, observedAt) });
  for (const { outcome, tick, page } of [low, high]) {
    if (outcome !== 'crowded' || page.received < smallPageShare * progress.behavior.largestPage) continue;
    // Some ticks of this millisecond may be stored and claimed already. It becomes a gap nevertheless.
    const crowdedWindow = { from: tick, to: tick + 1 };
    yield { kind: 'withdraw', window: crowdedWindow };
    progress.excludedWindows.push(crowdedWindow);
    yield createGapStep(crowdedWindow, crowdedReason);
  }
  // The range beyond a page's ticks is no more reliable than the page itself.
  for (const window of [
    ...(hasTooManyRejected(low.page) ? [{ from: w.from, to: low.tick }] : []),
    ...(hasTooManyRejected(high.page) ? [{ from: high.tick + 1, to: Math.min(w.to, observedAt) }] : []),
  ]) {
    progress.excludedWindows.push(window);
    yield createGapStep(window, formatRejectedReason(hasTooManyRejected(low.page) ? low.page : high.page));
  }
  yield* claim(progress, inW(covered), 'inferred', observedAt);
  // A page may be truncated within the millisecond at its end, unless a second one repeated it.
  yield* claim(
    progress,
    inW({ from: low.tick + (isWhole(low) ? 0 : 1), to: high.tick + (isWhole(high) ? 1 : 0) }),
    'confirmed',
    observedAt,
  );
  for (const [side, end] of [
    ['before', low],
    ['after', high],
  ] as const) {
    if (isUnresolved(end)) continue;
    const { tick, shown, isUncapped } = end;
    const beyond = inW(
      side === 'after'
        ? { from: tick + Number(isWhole(end)), to: covered.to }
        : { from: covered.from, to: tick + Number(!isWhole(end)) },
    );
    const window = cutAtExcluded(beyond, side, progress.excludedWindows);
    if (!isEmpty(window)) yield { kind: 'edge', side, window, shown, isUncapped, observedAt };
  }
  // Nothing before a known tick was checked: earlier claims there stay as they are.
  if (low.outcome === 'known' && w.from < covered.from)
    yield* claim(progress, inW({ from: w.from, to: covered.from }), 'inferred', observedAt);
  for (const [end, rest] of [
    [low, { from: w.from, to: covered.from }],
    [high, { from: covered.to, to: Math.min(w.to, observedAt) }],
  ] as const) {
    if (end.outcome === 'refused') yield createGapStep(rest, noResponseReason);
    else if (end.outcome === 'unheeded') yield createGapStep(rest, ignoredWindowReason);
    else if (end.outcome === 'broken') {
      progress.breaks++;
      progress.behavior.contradictions++;
      if (progress.breaks > breaksMax) yield createGapStep(rest, contradictionReason);
      else progress.pending.push({ ...rest, isPart: true });
    } else if (end.outcome === 'crowded') {
      yield* claim(progress, { from: end.tick, to: end.tick + 1 }, 'inferred', observedAt);
      progress.crowdedMoments++;
      progress.pending.push({ ...rest, isExact: true, isPart: true });
    }
  }
  const stated = {
    from: isUnresolved(low) || low.outcome === 'known' ? w.from : low.edge,
    to: isUnresolved(high) ? w.to : high.edge,
  };
  yield* queueRest(progress, w, { ...low.page, observedAt }, stated);
}

/** Whether the pages of a side do not determine what lies beyond its outermost tick. */
const isUnresolved = ({ outcome }: SideResult): boolean =>
  outcome !== 'known' && outcome !== 'repeated' && outcome !== 'open';

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
