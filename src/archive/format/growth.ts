import { formatDay, parseDayStart } from '../../base/time.ts';
import { dayMs, floorToDay } from '../../base/window.ts';

interface DailyGrowth {
  /** Mean published bytes of a finished day. */
  readonly bytesPerDay: number;
  /** Number of days in the mean. */
  readonly days: number;
}

const growthDaysMax = 30;
const growthDaysMin = 2;

/**
 * Computes how much an archive grows per day: the mean size of the last 30 finished UTC days, from the second day with files
 * on, because the first one is seldom whole. A day without files counts as 0 bytes. Null for fewer than two such days. Bytes
 * count for the day of the data, not of the fetch, so that a backfill is not taken for growth.
 * @param entries bytes of a date (YYYY-MM-DD), any number of entries for each; without a date they do not count
 */
export function computeDailyGrowth(
  entries: Iterable<{ readonly date: string | null; readonly bytes: number }>,
  nowMs: number,
): DailyGrowth | null {
  const byDate = new Map<string, number>();
  for (const { date, bytes } of entries)
    if (date !== null && bytes > 0) byDate.set(date, (byDate.get(date) ?? 0) + bytes);
  const today = floorToDay(nowMs);
  const first = [...byDate.keys()].reduce((min, date) => Math.min(min, parseDayStart(date)), Number.POSITIVE_INFINITY);
  const from = Math.max(first + dayMs, today - growthDaysMax * dayMs);
  const days = (today - from) / dayMs;
  if (!(days >= growthDaysMin)) return null;
  let bytes = 0;
  for (let day = from; day < today; day += dayMs) bytes += byDate.get(formatDay(day)) ?? 0;
  return { bytesPerDay: bytes / days, days };
}
