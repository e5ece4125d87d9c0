import type { TimeRange } from './view.ts';

const minuteMs = 60_000;

/** The candles that are asked for, shortest first. */
export const intervals = [
  { name: '1m', ms: minuteMs },
  { name: '5m', ms: 5 * minuteMs },
  { name: '15m', ms: 15 * minuteMs },
  { name: '30m', ms: 30 * minuteMs },
  { name: '1h', ms: 60 * minuteMs },
  { name: '4h', ms: 240 * minuteMs },
  { name: '12h', ms: 720 * minuteMs },
  { name: '1d', ms: 1440 * minuteMs },
] as const;
export type Interval = (typeof intervals)[number];

/** The shortest interval of which no more than `max` make up the range; days where even they are more. */
export const selectInterval = ({ from, to }: TimeRange, max: number): Interval =>
  intervals.find(({ ms }) => (to - from) / ms <= max) ?? intervals.at(-1)!;

/** The range moved outwards to whole intervals, so that no candle is cut in half. */
export const alignToIntervals = ({ from, to }: TimeRange, { ms }: Interval): TimeRange => ({
  from: Math.floor(from / ms) * ms,
  to: Math.ceil(to / ms) * ms,
});

export interface TickLifetime {
  readonly first: number;
  readonly last: number;
  readonly ticks: number;
}

/** How many ticks a range holds if they lie evenly: good enough to choose between ticks and candles. */
export function estimateTicks({ from, to }: TimeRange, { first, last, ticks }: TickLifetime): number {
  const shared = Math.min(to, last + 1) - Math.max(from, first);
  return shared <= 0 ? 0 : Math.ceil((ticks * shared) / (last + 1 - first));
}

/** Shortest range that is shown, in ms. */
export const rangeMsMin = 1000;

/** The range about its middle, `factor` times as long, within `bounds` and in whole milliseconds. */
export function scaleRange({ from, to }: TimeRange, factor: number, bounds: TimeRange): TimeRange {
  const middle = (from + to) / 2;
  const half = Math.max(rangeMsMin, (to - from) * factor) / 2;
  return clampRange({ from: Math.round(middle - half), to: Math.round(middle + half) }, bounds);
}

/** The range moved by a share of its length, within `bounds`. */
export function shiftRange({ from, to }: TimeRange, share: number, bounds: TimeRange): TimeRange {
  const by = Math.round((to - from) * share);
  const length = to - from;
  const start = Math.min(Math.max(from + by, bounds.from), Math.max(bounds.from, bounds.to - length));
  return { from: start, to: start + length };
}

function clampRange({ from, to }: TimeRange, bounds: TimeRange): TimeRange {
  const cut = { from: Math.max(from, bounds.from), to: Math.min(to, bounds.to) };
  return cut.to - cut.from >= rangeMsMin ? cut : bounds;
}
