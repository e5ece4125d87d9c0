import type { Window } from '../../base/window.ts';
import { pageCapMin, type Shown } from '../proof/shown.ts';
import {
  claim,
  crowdedTicksMin,
  excludePage,
  type FetchProgress,
  type FetchSteps,
  hasTooManyRejected,
  ignoresWindow,
  isRequested,
  type PendingWindow,
  requestPage,
} from './fetch-steps.ts';
import type { Observation } from './observation.ts';
import {
  looksTruncated,
  noteComplete,
  noteTruncated,
  smallPageShare,
  toRequestedWindow,
  type WindowSide,
} from './server-behavior.ts';

export interface SideResult {
  /**
   * `known`: the page begins at a known tick; `repeated`: a second request from the outermost tick showed it and nothing beyond;
   * `open`: there was none, or its response was empty; `broken`: it showed other ticks, but not this one.
   */
  readonly outcome: 'known' | 'repeated' | 'open' | 'broken' | 'unheeded' | 'refused' | 'crowded';
  /** End of the range that the pages cover. */
  readonly edge: number;
  /** The outermost tick, and the last page that shows it. */
  readonly tick: number;
  readonly page: Observation;
  /** What the last response showed, and whether no page cap can have cut it at this side. */
  readonly shown: Shown;
  readonly isUncapped: boolean;
  readonly observedAt: number;
}

/**
 * Fetches outward from a page at one side, until a request that begins at the outermost tick shows nothing beyond. Claims the
 * windows between pages that share a tick.
 */
export function* fetchSide(
  progress: FetchProgress,
  w: PendingWindow,
  first: Observation,
  side: WindowSide,
): FetchSteps<SideResult> {
  const { behavior, options } = progress;
  const isContinued = side === 'high' && options.isContinued && !w.isPart;
  let page = first;
  let observedAt = first.observedAt;
  for (;;) {
    const tick = findOutermostTick(page.times, side);
    const end = (outcome: SideResult['outcome'], last = page): SideResult => ({
      outcome,
      tick,
      page,
      // The last page was requested for the full side, so it alone determines the edge.
      edge: computeEdge(w, side, last),
      shown: last.shown,
      isUncapped:
        page.received < pageCapMin ||
        (outcome === 'repeated' && (last.received < pageCapMin || last.received < page.received)),
      observedAt: Math.min(observedAt, last.observedAt),
    });
    if (isContinued && !looksCut(progress, w, page, side)) return end('open');
    const window = toSideWindow(w, side, tick);
    const next = yield* requestPage(progress, window, side);
    if (next === null) return end('refused');
    if (next.isThinned) return end('broken');
    const hasTick = next.times.includes(tick);
    if (!hasTick || next.times.length === 1) {
      if (ignoresWindow(next)) return end('unheeded', next);
      if (!hasTick) return end(next.last === null ? 'open' : 'broken');
      const roomy = yield* requestWithRoom(progress, window, side, next, page);
      if (isCrowded(progress, roomy, tick, side) || !hasRoom(roomy, page) || lacksSome(roomy, page, side))
        return end('crowded', roomy);
      // The first page may be truncated at its other side.
      if (page !== first) noteComplete(behavior, page.received);
      return end('repeated', next);
    }
    // A tick that followed the page says nothing about it.
    if (side === 'low' || next.times[1]! < page.observedAt) noteTruncated(behavior, page.received, side);
    progress.idleRequests = 0;
    const evidence = isCutByStatement(page, side) ? 'stated' : 'confirmed';
    yield* claim(progress, computeWindowBetween(first, tick, side), evidence, observedAt);
    observedAt = Math.min(observedAt, next.observedAt);
    if (hasTooManyRejected(next)) yield* excludePage(progress, next, window);
    page = next;
  }
}

const isCutByStatement = ({ isTruncatedHigh, isTruncatedLow }: Observation, side: WindowSide): boolean =>
  side === 'high' ? isTruncatedHigh : isTruncatedLow;

/** Whether a page may be truncated at a side, so that the next poll should not be left to find out. */
function looksCut({ behavior, options, largestPage }: FetchProgress, w: Window, page: Observation, side: WindowSide) {
  const tick = findOutermostTick(page.times, side);
  // Some servers state the range of a truncated page at both ends, including the end that was not truncated.
  const isKept = behavior.side === (side === 'high' ? 'latest' : 'earliest');
  const { lastTick } = options;
  const lacksKnown = side === 'high' && lastTick !== null && tick < lastTick && lastTick < w.to;
  return (
    (!isKept && isCutByStatement(page, side)) ||
    lacksKnown ||
    looksTruncated(behavior, page, side) ||
    isCrowded({ largestPage }, page, tick, side)
  );
}

/**
 * Whether a page contains only ticks in one millisecond, and so many that they may fill a page: paging cannot continue
 * past them. A page that also shows a tick beyond the far end of the window was not truncated before it.
 */
function isCrowded(
  { largestPage }: Pick<FetchProgress, 'largestPage'>,
  o: Observation,
  t: number,
  side: WindowSide,
): boolean {
  const { times, count, received, countBefore, countAfter, window, firstRequested, last } = o;
  if (times.length !== 1 || times[0] !== t || countBefore + countAfter > 1) return false;
  // A tick before the requested window shows nothing: some servers always add one.
  const hasFarEnd = side === 'high' ? last! >= window.to : firstRequested !== null && firstRequested < window.from;
  return !hasFarEnd && count >= crowdedTicksMin && received >= smallPageShare * largestPage;
}

/** Whether a second page has fewer distinct ticks in the outermost millisecond: it was truncated within it. */
const lacksSome = (second: Observation, page: Observation, side: WindowSide): boolean =>
  side === 'high' ? second.countAtLast < page.countAtLast : second.countAtFirst < page.countAtFirst;

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

const computeEdge = (w: Window, side: WindowSide, { claimableWindow: { from, to } }: Observation): number =>
  side === 'high' ? Math.min(w.to, to) : Math.max(w.from, from);

/**
 * The window between the first page and a tick further outward, which is included. At the other end of the first page, a
 * second price of the same millisecond may have been truncated.
 */
const computeWindowBetween = (first: Observation, tick: number, side: WindowSide): Window =>
  side === 'high' ? { from: first.times[0]! + 1, to: tick + 1 } : { from: tick, to: first.times.at(-1)! };

/** The outermost tick of a page at a side. `times` are distinct, ascending and not empty. */
const findOutermostTick = (times: Float64Array, side: WindowSide): number =>
  side === 'high' ? times.at(-1)! : times[0]!;
