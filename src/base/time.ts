import { UsageError } from './errors.ts';
import { dayMs, hourMs, minuteMs } from './window.ts';

export { dayMs };

/** Valid times, in epoch milliseconds: the years 2000 to 2100, `timeMin <= t < timeEnd`. */
export const timeMin = Date.UTC(2000, 0, 1);
export const timeEnd = Date.UTC(2101, 0, 1);

const expectedTimeText =
  'epoch milliseconds, YYYY-MM-DD or an ISO-8601 instant with a zone (2026-07-01T12:00:00Z), in the years 2000 to 2100';
const instantPattern =
  /^(\d{4}-\d\d-\d\d)T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,3})0*)?)?(?:Z|([+-])([01]\d|2[0-3])(?::?([0-5]\d))?)$/;

/**
 * Parses epoch milliseconds, `YYYY-MM-DD` (UTC midnight) or an ISO-8601 instant with a zone, and returns epoch
 * milliseconds. Rejects instants with more than millisecond precision.
 * @param name the flag or field for the error message, e.g. `--from`
 * @throws UsageError for anything else, dates that do not exist and years outside 2000 to 2100
 */
export function parseTime(text: string, name: string): number {
  const ms = /^\d+$/.test(text) ? Number(text) : (parseMidnight(text) ?? parseInstant(text));
  if (ms !== undefined && timeMin <= ms && ms < timeEnd) return ms;
  throw new UsageError(`${name} ${quoteText(text)}: expected ${expectedTimeText}${describeMistake(text)}`);
}

/**
 * Parses a time as `parseTime` does, or one relative to now: `now`; `today` and `yesterday`, which begin at UTC midnight; or
 * a duration such as `24h` or `7d`, which is that long ago.
 * @param nowMs epoch ms
 * @throws UsageError for anything else
 */
export function parseRelativeTime(text: string, name: string, nowMs: number): number {
  const today = Math.floor(nowMs / dayMs) * dayMs;
  if (text === 'now') return nowMs;
  if (text === 'today') return today;
  if (text === 'yesterday') return today - dayMs;
  if (!/^\d+[smhd]$/.test(text)) return parseTime(text, name);
  const at = nowMs - parseDuration(text, name);
  if (at >= timeMin) return at;
  throw new UsageError(`${name} ${quoteText(text)}: this long ago was before the year 2000`);
}

/**
 * Checks a UTC day `YYYY-MM-DD`.
 * @throws UsageError for anything else, days that do not exist and years outside 2000 to 2100
 */
export function parseDay(text: string, name: string): string {
  const ms = parseMidnight(text);
  if (ms !== undefined && timeMin <= ms && ms < timeEnd) return text;
  throw new UsageError(`${name} ${quoteText(text)}: expected a day as YYYY-MM-DD (UTC), in the years 2000 to 2100`);
}

/**
 * Parses a UTC day, `today` or `yesterday`, and returns its midnight in epoch ms.
 * @param nowMs epoch ms
 * @throws UsageError as `parseDay`
 */
export const parseRelativeDay = (text: string, name: string, nowMs: number): number =>
  text === 'today' || text === 'yesterday' ? parseRelativeTime(text, name, nowMs) : parseDayStart(parseDay(text, name));

/** `2026-07-01T12:00:00Z`; milliseconds are shown only if they are not 0. */
export const formatIsoUtc = (ms: number): string => new Date(ms).toISOString().replace('.000Z', 'Z');

/** `2026-07-01T12:00Z`; seconds are dropped. */
export const formatIsoMinute = (ms: number): string => `${new Date(ms).toISOString().slice(0, 16)}Z`;

/** `2026-07-01 12:00`, for pages that state UTC once; seconds are dropped. */
export const formatMinute = (ms: number): string => new Date(ms).toISOString().slice(0, 16).replace('T', ' ');

/** The UTC day that contains `ms`, as `YYYY-MM-DD`. @throws RangeError if `ms` is no time */
export function formatDay(ms: number): string {
  if (!(timeMin <= ms && ms < timeEnd)) return formatAnyDay(ms);
  const day = Math.floor(ms / dayMs);
  return dayTexts.get(day) ?? keepDay(day, formatAnyDay(ms));
}

const formatAnyDay = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/**
 * The texts of days that were formatted, by their number since the epoch, and the reverse. An archive of years formats and
 * parses its days many times in a run. There are at most 36,890 of them between `timeMin` and `timeEnd`.
 */
const dayTexts = new Map<number, string>();
const dayNumbers = new Map<string, number>();

function keepDay(day: number, text: string): string {
  dayTexts.set(day, text);
  dayNumbers.set(text, day);
  return text;
}

/** UTC midnight of a day `YYYY-MM-DD`, in epoch milliseconds. Throws RangeError for a day that does not exist. */
export function parseDayStart(day: string): number {
  const ms = parseMidnight(day);
  if (ms === undefined) throw new RangeError(`not a day: ${quoteText(day)}`);
  return ms;
}

/** The day `days` later; earlier if negative. */
export const addDays = (day: string, days: number): string => formatDay(parseDayStart(day) + days * dayMs);

const unitMs = { ms: 1, s: 1000, m: minuteMs, h: hourMs, d: dayMs } as const;

/**
 * Parses a duration such as `300ms`, `90s`, `15m`, `2h` or `1d` of at most 100 years, and returns milliseconds.
 * @throws UsageError for anything else, including a number without a unit
 */
export function parseDuration(text: string, name: string): number {
  const [, amount, unit] = /^(\d{1,10})(ms|[smhd])$/.exec(text) ?? [];
  const ms = Number(amount) * unitMs[unit as keyof typeof unitMs];
  if (ms <= 36_525 * dayMs) return ms;
  throw new UsageError(
    `${name} ${quoteText(text)}: expected a whole number with a unit (300ms, 90s, 15m, 2h, 1d), at most 36525d`,
  );
}

function parseMidnight(text: string): number | undefined {
  const known = dayNumbers.get(text);
  if (known !== undefined) return known * dayMs;
  const [, year, month, day] = /^(\d{4})-(\d\d)-(\d\d)$/.exec(text) ?? [];
  const ms = Date.UTC(Number(year), Number(month) - 1, Number(day));
  // Date.UTC converts February 30 to a day in March, so the text is formatted again and compared.
  return Number.isFinite(ms) && formatDay(ms) === text ? ms : undefined;
}

function parseInstant(text: string): number | undefined {
  const match = instantPattern.exec(text);
  if (match === null) return undefined;
  const [, day, hour, minute, second = '0', fraction = '', sign, zoneHour = '0', zoneMinute = '0'] = match;
  const midnight = parseMidnight(day!);
  if (midnight === undefined || Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59) return undefined;
  const local =
    (Number(hour) * 60 + Number(minute)) * minuteMs + Number(second) * 1000 + Number(fraction.padEnd(3, '0'));
  const offset = (Number(zoneHour) * 60 + Number(zoneMinute)) * minuteMs;
  return midnight + local + (sign === '-' ? offset : -offset);
}

function describeMistake(text: string): string {
  if (/^\d{9,10}$/.test(text)) return '; this looks like seconds';
  if (/^\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?$/.test(text)) return '; this one has no zone';
  return '';
}

const quoteText = (text: string): string => JSON.stringify(text.length > 80 ? `${text.slice(0, 80)}…` : text);
