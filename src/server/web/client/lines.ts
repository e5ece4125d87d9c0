import type { Static } from 'typebox';
import { dayMs, minuteMs } from '../../../base/window.ts';
import type { HistoricalCandlesResponse, HistoricalTicksResponse } from '../../../contract/historical.ts';
import type { TimeRange } from './view.ts';

export type Tick = Pick<Static<typeof HistoricalTicksResponse>['ticks'][number], 't' | 'p'>;
export type Candle = Pick<
  Static<typeof HistoricalCandlesResponse>['candles'][number],
  't' | 'open' | 'high' | 'low' | 'close' | 'ticks' | 'covered'
>;

/** Columns of a chart: x in epoch milliseconds, ascending; null breaks the line. */
interface StepLine {
  readonly x: number[];
  readonly y: (number | null)[];
}

/**
 * Converts ticks to a step line. A price is valid until the next tick or the next gap. A gap breaks the line until the next
 * tick, because its trades are unknown.
 * @param until end of the response's window, up to which the last price is valid if no gap comes first
 */
export function toStepLine(ticks: readonly Tick[], gaps: readonly TimeRange[], until: number): StepLine {
  const line: StepLine = { x: [], y: [] };
  const put = (x: number, y: number | null): void => {
    line.x.push(x);
    line.y.push(y);
  };
  let next = 0;
  for (const [i, { t, p }] of ticks.entries()) {
    put(t, p);
    const end = ticks[i + 1]?.t ?? until;
    while (next < gaps.length && gaps[next]!.to <= t) next++;
    const gap = gaps[next];
    if (gap !== undefined && gap.from < end) {
      const stop = Math.max(t, gap.from);
      if (stop > t) put(stop, p);
      // Half a millisecond is never the time of a tick.
      put(stop + 0.5, null);
    } else if (i === ticks.length - 1 && until > t) put(until, p);
  }
  return line;
}

/** Columns of candles at the middle of their intervals. A row of nulls separates two candles with a gap between them. */
export function toCandleColumns(candles: readonly Candle[], gaps: readonly TimeRange[], intervalMs: number) {
  const rows: (Candle | null)[] = [];
  const x: number[] = [];
  let next = 0;
  for (const candle of candles) {
    const middle = candle.t + intervalMs / 2;
    const before = x.at(-1);
    while (before !== undefined && next < gaps.length && gaps[next]!.to <= before) next++;
    if (before !== undefined && next < gaps.length && gaps[next]!.from < middle) {
      x.push((before + middle) / 2);
      rows.push(null);
    }
    x.push(middle);
    rows.push(candle);
  }
  const column = (name: 'open' | 'high' | 'low' | 'close'): (number | null)[] => rows.map((c) => c?.[name] ?? null);
  return { x, rows, open: column('open'), high: column('high'), low: column('low'), close: column('close') };
}

const monthNames = ['Jan', 'Feb', 'Mar', 'Apr', 'May', 'Jun', 'Jul', 'Aug', 'Sep', 'Oct', 'Nov', 'Dec'];

/**
 * Labels of a UTC time axis. A second line shows the day or the year if it changes. A day has its year only on the first label and
 * in a new year: at the right edge there is no room for it.
 */
export function formatAxisLabels(splits: readonly number[], stepMs: number): string[] {
  let before = '';
  return splits.map((t) => {
    const [above, below] = formatAxisLabel(t, stepMs);
    const year = below.slice(-4);
    const shown = below !== year && before.endsWith(year) ? below.slice(0, -' 2026'.length) : below;
    const label = below === before ? above : `${above}\n${shown}`;
    before = below;
    return label;
  });
}

function formatAxisLabel(t: number, stepMs: number): [above: string, below: string] {
  const date = new Date(t);
  const iso = date.toISOString();
  const month = monthNames[date.getUTCMonth()]!;
  const day = `${date.getUTCDate()} ${month}`;
  if (stepMs >= 28 * dayMs) return [month, iso.slice(0, 4)];
  if (stepMs >= dayMs) return [day, iso.slice(0, 4)];
  return [iso.slice(11, stepMs < 1000 ? 23 : stepMs < minuteMs ? 19 : 16), `${day} ${iso.slice(0, 4)}`];
}

/** Candle intervals of the page, shortest first. */
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

/** The shortest interval with at most `max` candles in the range, or days. */
export const selectInterval = ({ from, to }: TimeRange, max: number): Interval =>
  intervals.find(({ ms }) => (to - from) / ms <= max) ?? intervals.at(-1)!;

/** Expands the range to complete intervals, so that all candles are complete. */
export const alignToIntervals = ({ from, to }: TimeRange, { ms }: Interval): TimeRange => ({
  from: Math.floor(from / ms) * ms,
  to: Math.ceil(to / ms) * ms,
});

export interface TickLifetime {
  readonly first: number;
  readonly last: number;
  readonly ticks: number;
}

/** Estimates the number of ticks in a range, to choose between ticks and candles. Assumes an even distribution. */
export function estimateTicks({ from, to }: TimeRange, { first, last, ticks }: TickLifetime): number {
  const shared = Math.min(to, last + 1) - Math.max(from, first);
  return shared <= 0 ? 0 : Math.ceil((ticks * shared) / (last + 1 - first));
}

/** Shortest range, in ms. */
const rangeMsMin = 1000;

/** Scales a range about a time in it, by default its middle, within `bounds`, in whole milliseconds. */
export function scaleRange(
  { from, to }: TimeRange,
  factor: number,
  bounds: TimeRange,
  at = (from + to) / 2,
): TimeRange {
  const length = Math.max(rangeMsMin, (to - from) * factor);
  const start = at - ((at - from) / (to - from)) * length;
  return clampRange({ from: Math.round(start), to: Math.round(start + length) }, bounds);
}

/** Moves a range by a share of its length, within `bounds`. */
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
