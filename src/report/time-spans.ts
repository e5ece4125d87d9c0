import { formatIsoUtc } from '../base/time.ts';
import { minuteMs } from '../base/window.ts';

// Formats of times, durations and sizes.

/** `2026-11-22 03:17`, to the minute. */
export const formatMinute = (ms: number): string => formatIsoUtc(ms).slice(0, 16).replace('T', ' ');

/** `3 d 4 h`, `5 h 12 min`, `12 min`, `8 s`: the two largest units; `6.2 years`. */
export function formatLongDuration(ms: number): string {
  if (ms < minuteMs - 500) return `${Math.max(0, Math.round(ms / 1000))} s`;
  const minutes = Math.round(ms / minuteMs);
  const [days, hours] = [Math.floor(minutes / 1440), Math.floor(minutes / 60) % 24];
  if (days >= 1000) return `${(days / 365.25).toFixed(1)} years`;
  if (days >= 100) return `${days} d`;
  if (days > 0) return hours === 0 ? `${days} d` : `${days} d ${hours} h`;
  if (hours > 0) return minutes % 60 === 0 ? `${hours} h` : `${hours} h ${minutes % 60} min`;
  return `${minutes} min`;
}

const byteUnits = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'] as const;

/** `1.2 MB`, in decimal units. */
export function formatBytes(bytes: number): string {
  const step = findUnitIndex(bytes);
  return step === 0 ? `${Math.round(bytes)} B` : `${(bytes / 1000 ** step).toFixed(1)} ${byteUnits[step]}`;
}

/** The unit for values up to `bytes`, and its size in bytes. */
export function chooseByteUnit(bytes: number): { readonly name: string; readonly bytes: number } {
  const step = findUnitIndex(bytes);
  return { name: byteUnits[step]!, bytes: 1000 ** step };
}

// 999.95 kB is shown as 1.0 MB.
const findUnitIndex = (bytes: number): number =>
  bytes < 1000 ? 0 : Math.min(byteUnits.length - 1, Math.floor(Math.log10(bytes / 0.99995) / 3));

/** A text in one line of at most `lettersMax` characters; a shortened text ends with `…`. */
export function shortenText(text: string, lettersMax: number): string {
  const letters = [...text.replaceAll(/\s+/gu, ' ')];
  return letters.length <= lettersMax ? letters.join('') : `${letters.slice(0, lettersMax - 1).join('')}…`;
}
