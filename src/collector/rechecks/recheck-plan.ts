import { type CoveredWindow, computeSettledWindows } from '../../archive/format/coverage.ts';
import { findFirstAtOrAfter } from '../../archive/format/tick-columns.ts';
import type { Random } from '../../base/ports.ts';
import { dayMs, floorToDay, intersect, isWithin, minuteMs, union, type Window } from '../../base/window.ts';

/** A symbol that may be drawn, and how many ticks the archive has of it. */
export interface RecheckCandidate {
  readonly symbol: string;
  readonly ticks: number;
}

/** Rechecked windows are drawn from one minute to two days wide, each magnitude as likely as another. */
export const recheckWindowMsMin = minuteMs;
export const recheckWindowMsMax = 2 * dayMs;

/** The share of symbols drawn by their number of ticks; the others are drawn evenly, so that quiet ones are reached. */
const byTicksShare = 0.75;
/** The share of windows that begin near the moment at which their response was generated: late ticks are missing there. */
const edgeShare = 0.5;
/** Of the others the share that lies in the last days; those left reach back to the first covered moment. */
const recentShare = 0.5;
const recentMs = 2 * dayMs;
/** The share of windows that are laid over a known tick: an empty window teaches little. */
const tickShare = 0.75;
/** How far from the moment drawn that tick may lie, in ms. */
const tickReachMs = dayMs / 2;
/** The least width where ticks are rare, in ms. */
const widthMsUsual = dayMs / 4;

/** Windows that every run rechecks, however few requests it sent: fewer would take weeks to find anything. */
const recheckWindowsMin = 4;

/** How many windows a run rechecks that has sent so many requests: at least four, none where the share is 0. */
export const countRechecks = (share: number, requests: number): number =>
  share === 0 ? 0 : Math.max(recheckWindowsMin, Math.ceil(share * requests));

/** Requests that may go to what is in doubt in a night, however few the run sent: fewer would leave doubts to expire. */
const rereadRequestsMin = 128;

/** How many requests a run that has sent so many may send to read again what is in doubt. */
export const countRereadRequests = (requests: number): number => Math.max(rereadRequestsMin, requests);

/** Draws a symbol; null where there is none. */
export function drawSymbol(symbols: readonly RecheckCandidate[], random: Random): string | null {
  if (symbols.length === 0) return null;
  const total = symbols.reduce((sum, { ticks }) => sum + ticks, 0);
  const any = symbols[Math.floor(random() * symbols.length)]!.symbol;
  if (random() >= byTicksShare) return any;
  let left = random() * total;
  for (const { symbol, ticks } of symbols) {
    left -= ticks;
    if (left < 0) return symbol;
  }
  return any;
}

/** A moment about which a window is rechecked, epoch ms, and whether a known tick near it may be taken in its place. */
export interface DrawnMoment {
  readonly t: number;
  readonly isEdge: boolean;
}

/**
 * Draws a moment of the settled part of a symbol's coverage: half of them by how long before its response it lies, from
 * `settleMs` to a day; else by its age, the last two days being the most likely and the oldest ones reached. Null where
 * nothing is settled.
 */
export function drawMoment(coverage: readonly CoveredWindow[], settleMs: number, random: Random): DrawnMoment | null {
  const windows = union(computeSettledWindows(coverage, settleMs));
  if (windows.length === 0) return null;
  const [first, end] = [windows[0]!.from, windows.at(-1)!.to];
  if (random() < edgeShare) {
    const recent = coverage.filter(({ fetchedAt }) => fetchedAt > end - recentMs);
    const { fetchedAt } = recent[Math.floor(random() * recent.length)] ?? coverage.at(-1)!;
    const t = Math.floor(fetchedAt - drawLogUniform(Math.max(minuteMs, settleMs), dayMs, random));
    if (windows.some((w) => isWithin(t, w))) return { t, isEdge: true };
  }
  const isRecent = random() < recentShare;
  const recent = intersect(windows, [{ from: end - recentMs, to: end }]);
  if (isRecent) return { t: drawWithin(recent, random), isEdge: false };
  const t = Math.floor(end - drawLogUniform(minuteMs, Math.max(minuteMs, end - first), random));
  // A moment that nothing settled holds stands for the window before it.
  const at = windows.find((w) => isWithin(t, w)) ?? windows.findLast((w) => w.to <= t) ?? windows[0]!;
  return { t: isWithin(t, at) ? t : at.to - 1, isEdge: false };
}

/** Where known ticks have to be read for `placeWindow`. */
export const computeTickReach = ({ t }: DrawnMoment): Window => ({ from: t - tickReachMs, to: t + tickReachMs });

/**
 * Lays a window about a moment, its bounds drawn: one minute to two days wide, within the settled window of the moment.
 * Most are laid over a known tick near it.
 * @param times of the known ticks in `reachOf` the moment, ascending, epoch ms
 */
export function placeWindow(
  moment: DrawnMoment,
  coverage: readonly CoveredWindow[],
  settleMs: number,
  times: Float64Array,
  random: Random,
): Window {
  const windows = union(computeSettledWindows(coverage, settleMs));
  const onTick = times.length > 0 && random() < tickShare ? drawTickNear(moment, times, random) : moment.t;
  const t = windows.some((w) => isWithin(onTick, w)) ? onTick : moment.t;
  const width = Math.round(drawLogUniform(computeWidthMsMin(times), recheckWindowMsMax, random));
  const from = t - Math.floor(random() * width);
  const stretch = windows.find((w) => isWithin(t, w)) ?? { from: t, to: t + 1 };
  return { from: Math.max(stretch.from, from), to: Math.min(stretch.to, from + width) };
}

/**
 * Half the mean distance of these ticks: most narrower windows would hold nothing but the tick that they are laid
 * over. Not all of it, as a service that leaves ticks out of wide windows makes them seem rarer than they are.
 */
const computeWidthMsMin = (times: Float64Array): number =>
  Math.min(widthMsUsual, Math.max(recheckWindowMsMin, tickReachMs / (times.length + 1)));

/** The last known tick before a moment near a response; about any other moment a tick drawn evenly. */
function drawTickNear({ t, isEdge }: DrawnMoment, times: Float64Array, random: Random): number {
  if (!isEdge) return times[Math.floor(random() * times.length)]!;
  return times[Math.max(0, findFirstAtOrAfter(times, t) - 1)]!;
}

/** From `min` to `max`, each magnitude as likely as another. */
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

/** The UTC days of a symbol's coverage that hold one of the times, as far as they are covered; in order, disjoint. */
export const listCoveredDays = (coverage: readonly CoveredWindow[], times: readonly number[]): Window[] =>
  intersect(
    coverage,
    times.map((t) => ({ from: floorToDay(t), to: floorToDay(t) + dayMs })),
  );
