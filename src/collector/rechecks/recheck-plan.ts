import type { CoveredWindow } from '../../archive/format/coverage.ts';
import { findFirstAtOrAfter } from '../../base/binary-search.ts';
import type { Random } from '../../base/ports.ts';
import {
  dayMs,
  floorToDay,
  intersect,
  intersectTwo,
  isWithin,
  minuteMs,
  union,
  type Window,
} from '../../base/window.ts';

/** A symbol that may be drawn, and its number of ticks in the archive. */
export interface RecheckCandidate {
  readonly symbol: string;
  readonly ticks: number;
}

/** Width of rechecked windows: one minute to two days, log-uniform. */
const recheckWindowMsMin = minuteMs;
export const recheckWindowMsMax = 2 * dayMs;

/**
 * Share of symbols drawn with a probability proportional to their ticks. The others are drawn uniformly, to include
 * quiet ones.
 */
const byTicksShare = 0.75;
/** Share of windows near the end of what a response proved. Late ticks are missing there. */
const edgeShare = 0.5;
/** Share of the other windows that lie in the last `recentMs`. The rest extends back to the first covered time. */
const recentShare = 0.5;
const recentMs = 2 * dayMs;
/** Share of windows placed around a known tick. An empty window shows little. */
const tickShare = 0.75;
/** Maximum distance between the drawn time and that tick, in ms. */
const tickReachMs = dayMs / 2;
/** Upper limit on the minimum width, for rare ticks, in ms. */
const widthMsUsual = dayMs / 4;

/** Minimum number of windows per run: with fewer, it would take weeks to detect a problem. */
const recheckWindowsMin = 4;

/** Number of windows to recheck after a run with this many requests: at least four, or none if the share is 0. */
export const countRechecks = (share: number, requests: number): number =>
  share === 0 ? 0 : Math.max(recheckWindowsMin, Math.ceil(share * requests));

/** Minimum number of requests per night for doubtful windows: with fewer, some would expire before they are read again. */
const rereadRequestsMin = 128;

/** Maximum number of requests for fetching doubtful windows again, after a run with this many requests. */
export const countRereadRequests = (requests: number): number => Math.max(rereadRequestsMin, requests);

/** Draws a symbol. Null if there is none. */
export function drawSymbol(symbols: readonly RecheckCandidate[], random: Random): string | null {
  if (symbols.length === 0) return null;
  let total = 0;
  for (const { ticks } of symbols) total += ticks;
  const any = symbols[Math.floor(random() * symbols.length)]!.symbol;
  if (random() >= byTicksShare) return any;
  let left = random() * total;
  for (const { symbol, ticks } of symbols) {
    left -= ticks;
    if (left < 0) return symbol;
  }
  return any;
}

/** A time around which a window is rechecked, epoch ms. `isEdge`: it was drawn near the end of a response. */
interface DrawnTime {
  readonly t: number;
  readonly isEdge: boolean;
}

/**
 * Draws a time in the proven coverage of a symbol. Half of the times are drawn by their distance from the end of a recent
 * window, up to a day. The others are drawn by their age: most from the last two days, the rest from the whole coverage. Null
 * if nothing is proven.
 * @param proven proven windows, one per response, sorted
 */
export function drawTime(proven: readonly CoveredWindow[], random: Random): DrawnTime | null {
  const windows = union(proven);
  if (windows.length === 0) return null;
  const [first, end] = [windows[0]!.from, windows.at(-1)!.to];
  if (random() < edgeShare) {
    const recent = proven.filter(({ to }) => to > end - recentMs);
    const { to } = recent[Math.floor(random() * recent.length)]!;
    const t = Math.floor(to - drawLogUniform(minuteMs, dayMs, random));
    if (windows.some((w) => isWithin(t, w))) return { t, isEdge: true };
  }
  const isRecent = random() < recentShare;
  const recent = intersect(windows, [{ from: end - recentMs, to: end }]);
  if (isRecent) return { t: drawWithin(recent, random), isEdge: false };
  const t = Math.floor(end - drawLogUniform(minuteMs, Math.max(minuteMs, end - first), random));
  // A time outside proven windows is replaced by the end of the window before it.
  const container = windows.find((w) => isWithin(t, w)) ?? windows.findLast((w) => w.to <= t) ?? windows[0]!;
  return { t: isWithin(t, container) ? t : container.to - 1, isEdge: false };
}

/** The window whose known ticks `placeWindow` needs. */
export const computeTickReach = ({ t }: DrawnTime): Window => ({ from: t - tickReachMs, to: t + tickReachMs });

/**
 * Places a window of random bounds around a time: one minute to two days wide, within the proven window that contains it.
 * Most are placed around a known tick nearby.
 * @param proven see `drawTime`
 * @param times known ticks in `computeTickReach` of the moment, ascending, epoch ms
 */
export function placeWindow(
  moment: DrawnTime,
  proven: readonly CoveredWindow[],
  times: Float64Array,
  random: Random,
): Window {
  const windows = union(proven);
  const onTick = times.length > 0 && random() < tickShare ? drawTickNear(moment, times, random) : moment.t;
  const t = windows.some((w) => isWithin(onTick, w)) ? onTick : moment.t;
  const width = Math.round(drawLogUniform(computeWidthMsMin(times), recheckWindowMsMax, random));
  const from = t - Math.floor(random() * width);
  const provenWindow = windows.find((w) => isWithin(t, w)) ?? { from: t, to: t + 1 };
  return intersectTwo(provenWindow, { from, to: from + width });
}

/**
 * Half the mean distance between these ticks: most narrower windows would contain only the tick around which they are
 * placed. Not the full distance, because a server that omits ticks from wide windows makes them look rarer.
 */
const computeWidthMsMin = (times: Float64Array): number =>
  Math.min(widthMsUsual, Math.max(recheckWindowMsMin, tickReachMs / (times.length + 1)));

/** Near the end of a response, the last known tick before the time. Otherwise a random tick. */
function drawTickNear({ t, isEdge }: DrawnTime, times: Float64Array, random: Random): number {
  if (!isEdge) return times[Math.floor(random() * times.length)]!;
  return times[Math.max(0, findFirstAtOrAfter(times, t) - 1)]!;
}

/** Draws a log-uniform value between `min` and `max`. */
const drawLogUniform = (min: number, max: number, random: Random): number =>
  max <= min ? min : min * (max / min) ** random();

function drawWithin(windows: readonly Window[], random: Random): number {
  let left = Math.floor(random() * windows.reduce((sum, { from, to }) => sum + to - from, 0));
  for (const { from, to } of windows) {
    if (left < to - from) return from + left;
    left -= to - from;
  }
  return windows.at(-1)!.from;
}

/** The covered parts of the UTC days that contain at least one of the times, in order and disjoint. */
export const listCoveredDays = (coverage: readonly CoveredWindow[], times: readonly number[]): Window[] =>
  intersect(
    coverage,
    times.map((t) => ({ from: floorToDay(t), to: floorToDay(t) + dayMs })),
  );
