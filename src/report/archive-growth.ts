import type { DiskSpace } from '../archive/disk/free-space.ts';
import { formatDay, parseDayStart } from '../core/time.ts';
import { dayMs, floorToDay } from '../core/window.ts';
import type { DayTotals } from '../reading/report/day-totals.ts';

/** How the published files grow. */
export interface ArchiveGrowth {
  /** Bytes published by the end of each day shown, by UTC midnight of the day's end. */
  readonly sizes: readonly { readonly t: number; readonly bytes: number }[];
  /** Bytes a day; null where there are too few whole days to tell. */
  readonly bytesPerDay: number | null;
  /** Whole days that it is told by. */
  readonly days: number;
  /** When nothing is free any more, epoch ms; null where that is beyond `yearsMax`, or cannot be told. */
  readonly fullAt: number | null;
}

/** Years ahead beyond which nobody wants to know when a disk is full. */
export const yearsMax = 10;
const fittedDaysMax = 30;
const fittedDaysMin = 3;

/**
 * A line through the bytes published by the end of each of the last whole days, by least squares: a day is as large as it
 * is however late it was fetched, so that a backfill is no growth to come.
 * @param shownFrom the first moment of which sizes are wanted; epoch ms as all times here
 */
export function computeGrowth(
  days: readonly Pick<DayTotals, 'date' | 'bytes'>[],
  space: DiskSpace | null,
  { nowMs, shownFrom, shownTo }: { readonly nowMs: number; readonly shownFrom: number; readonly shownTo: number },
): ArchiveGrowth {
  const sizes = sumSizesByDay(days, Math.max(floorToDay(nowMs) + dayMs, shownTo));
  const today = floorToDay(nowMs);
  const fitted = sizes.filter(({ t }) => t <= today).slice(-fittedDaysMax);
  const bytesPerDay = fitted.length < fittedDaysMin ? null : estimateSlope(fitted.map(({ bytes }) => bytes));
  const fullInMs = space === null || !bytesPerDay || bytesPerDay <= 0 ? null : (space.freeBytes / bytesPerDay) * dayMs;
  return {
    sizes: sizes.filter(({ t }) => t > shownFrom && t <= shownTo),
    bytesPerDay,
    days: fitted.length,
    fullAt: fullInMs === null || fullInMs > yearsMax * 365.25 * dayMs ? null : nowMs + fullInMs,
  };
}

/** From the first day on, those without a file included. */
function sumSizesByDay(days: readonly Pick<DayTotals, 'date' | 'bytes'>[], to: number): { t: number; bytes: number }[] {
  if (days.length === 0) return [];
  const byDate = new Map(days.map(({ date, bytes }) => [date, bytes]));
  const out: { t: number; bytes: number }[] = [];
  let bytes = 0;
  for (let day = parseDayStart(days[0]!.date); day < to; day += dayMs) {
    bytes += byDate.get(formatDay(day)) ?? 0;
    out.push({ t: day + dayMs, bytes });
  }
  return out;
}

/** The slope of the line that lies nearest to values at 0, 1, 2 and so on. */
export function estimateSlope(values: readonly number[]): number {
  const middle = (values.length - 1) / 2;
  const mean = values.reduce((sum, value) => sum + value, 0) / values.length;
  const [over, under] = values.reduce(
    ([xy, xx], value, i) => [xy + (i - middle) * (value - mean), xx + (i - middle) ** 2],
    [0, 0],
  );
  return under === 0 ? 0 : over / under;
}
