import { timeEnd, timeMin } from '../core/time.ts';
import type { TimeZone } from '../core/time-zone.ts';
import { dayMs } from '../core/window.ts';

/** A time of a row in epoch milliseconds, or why it is none: a clause on `t`. */
export type ParsedTime = number | { readonly reason: string };

const timestampPattern =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,12}))?)?)? ?(?:(Z|UTC)|([+-])(\d\d)(?::?(\d\d))?)?$/i;

/** What a number stands for that is a time: so many of these since the epoch. */
export type TimeUnit = 's' | 'ms' | 'us' | 'ns';

/** How the times of a file are read. */
export interface TimeRules {
  /** The zone of timestamps that name none; null where it is not known. */
  readonly zone: TimeZone | null;
  /** The unit of times that are numbers. */
  readonly unit: TimeUnit;
  /** Whether a time that is finer than a millisecond is cut down to one; otherwise it is rejected. */
  readonly truncates: boolean;
}

/** Powers of ten from a unit to milliseconds. */
const unitExponent: Readonly<Record<TimeUnit, number>> = { s: 3, ms: 0, us: -3, ns: -6 };

export const tooFineError = { reason: 'is finer than a millisecond (see --truncate-time)' } as const;

const numberPattern = /^(-?)(\d{1,22})(?:\.(\d{1,12}))?$/;

/**
 * A time as text: a number of the unit since the epoch, or a timestamp as databases and pandas write it, with `T` or a
 * space. Nothing is rounded. Numbers are read by their digits: a double has too few of them for nanoseconds.
 */
export function parseTimeText(text: string, { zone, unit, truncates }: TimeRules): ParsedTime {
  const trimmed = text.trim();
  const digits = numberPattern.exec(trimmed);
  if (digits !== null) return parseDigits(digits[1]!, digits[2]!, digits[3] ?? '', unitExponent[unit], truncates);
  const match = timestampPattern.exec(trimmed);
  if (match === null) return { reason: 'is no time' };
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', utc, sign, zh, zm = '0'] = match;
  const midnight = Date.UTC(Number(year), Number(month) - 1, Number(day));
  const dayExists = new Date(midnight).getUTCDate() === Number(day) && Number(month) <= 12 && Number(year) >= 1000;
  if (!dayExists || Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59)
    return { reason: 'is a time that does not exist' };
  if (!truncates && /[1-9]/.test(fraction.slice(3))) return tooFineError;
  const inDay = (Number(hour) * 60 + Number(minute)) * 60_000 + Number(second) * 1000;
  const shown = midnight + inDay + Number(fraction.slice(0, 3).padEnd(3, '0'));
  if (utc !== undefined) return shown;
  if (sign === undefined) return resolveLocalTime(shown, zone);
  const offset = (Number(zh) * 60 + Number(zm)) * 60_000;
  return sign === '-' ? shown + offset : shown - offset;
}

function parseDigits(sign: string, whole: string, fraction: string, exponent: number, truncates: boolean): ParsedTime {
  const all = whole.padStart(whole.length + 6, '0') + fraction.padEnd(6, '0');
  const point = whole.length + 6 + exponent;
  if (!truncates && /[1-9]/.test(all.slice(point))) return tooFineError;
  return Number(sign + all.slice(0, point));
}

/** A wall-clock time, in milliseconds as if it were UTC, as the instant it means. */
export function resolveLocalTime(shownMs: number, zone: TimeZone | null): ParsedTime {
  if (zone === null) return { reason: 'has no zone (see --tz)' };
  // Zones know nothing of times that are refused anyway.
  if (!(shownMs >= timeMin - dayMs && shownMs < timeEnd + dayMs)) return shownMs;
  const instant = zone.toInstant(shownMs);
  if (instant === 'skipped') return { reason: `does not exist in ${zone.name}, where clocks were put forward` };
  if (instant === 'twice') return { reason: `is ambiguous in ${zone.name}, where clocks were put back` };
  return instant;
}

/** Whether a text is a timestamp that says nothing of its zone. */
export function lacksZone(text: string): boolean {
  const match = timestampPattern.exec(text.trim());
  return match !== null && match[8] === undefined && match[9] === undefined;
}
