import { timeEnd, timeMin } from '../core/time.ts';
import { dayMs } from '../core/window.ts';
import type { Zone } from '../core/zone.ts';

/** A time of a row in epoch milliseconds, or why it is none: a clause on `t`. */
export type ReadTime = number | { readonly reason: string };

const stamp =
  /^(\d{4})-(\d\d)-(\d\d)(?:[T ](\d\d):(\d\d)(?::(\d\d)(?:[.,](\d{1,12}))?)?)? ?(?:(Z|UTC)|([+-])(\d\d)(?::?(\d\d))?)?$/i;

/**
 * A time as text: epoch milliseconds, or a timestamp as databases and pandas write it, with `T` or a space. Nothing is
 * rounded: what is finer than a millisecond is none. `zone`: what one without a zone is read in; null where that is not known.
 */
export function readTimeText(text: string, zone: Zone | null): ReadTime {
  const trimmed = text.trim();
  if (/^-?\d{1,16}(\.0+)?$/.test(trimmed)) return Number(trimmed);
  const match = stamp.exec(trimmed);
  if (match === null) return { reason: 'is no time' };
  const [, year, month, day, hour = '0', minute = '0', second = '0', fraction = '', utc, sign, zh, zm = '0'] = match;
  const midnight = Date.UTC(Number(year), Number(month) - 1, Number(day));
  const dayExists = new Date(midnight).getUTCDate() === Number(day) && Number(month) <= 12 && Number(year) >= 1000;
  if (!dayExists || Number(hour) > 23 || Number(minute) > 59 || Number(second) > 59)
    return { reason: 'is a time that does not exist' };
  if (/[1-9]/.test(fraction.slice(3))) return { reason: 'is finer than a millisecond' };
  const inDay = (Number(hour) * 60 + Number(minute)) * 60_000 + Number(second) * 1000;
  const shown = midnight + inDay + Number(fraction.slice(0, 3).padEnd(3, '0'));
  if (utc !== undefined) return shown;
  if (sign === undefined) return localTime(shown, zone);
  const offset = (Number(zh) * 60 + Number(zm)) * 60_000;
  return sign === '-' ? shown + offset : shown - offset;
}

/** A wall-clock time, in milliseconds as if it were UTC, as the instant it means. */
export function localTime(shownMs: number, zone: Zone | null): ReadTime {
  if (zone === null) return { reason: 'has no zone (see --tz)' };
  // Zones know nothing of times that are refused anyway.
  if (!(shownMs >= timeMin - dayMs && shownMs < timeEnd + dayMs)) return shownMs;
  const instant = zone.instantOf(shownMs);
  if (instant === 'skipped') return { reason: `does not exist in ${zone.name}, where clocks were put forward` };
  if (instant === 'twice') return { reason: `is ambiguous in ${zone.name}, where clocks were put back` };
  return instant;
}

/** Whether a text is a timestamp that says nothing of its zone. */
export function lacksZone(text: string): boolean {
  const match = stamp.exec(text.trim());
  return match !== null && match[8] === undefined && match[9] === undefined;
}
