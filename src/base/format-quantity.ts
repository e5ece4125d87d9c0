import { dayMs, hourMs, minuteMs } from './window.ts';

/** `12,345`. Does not use toLocaleString for integers, because its first call takes 20 ms. */
export const formatNumber = (value: number): string =>
  Number.isSafeInteger(value) ? String(value).replaceAll(/\B(?=(?:\d{3})+$)/g, ',') : value.toLocaleString('en-US');

/** `1 file`, `12,345 files`. */
export const formatCount = (count: number, noun: string): string =>
  `${formatNumber(count)} ${noun}${count === 1 ? '' : 's'}`;

/** A number with at most six decimals, without trailing zeros. */
export const formatPlainNumber = (value: number): string => String(Number(value.toFixed(6)));

/** A text on one line of at most `lettersMax` characters; a shortened text ends with `…`. */
export function shortenText(text: string, lettersMax: number): string {
  const letters = [...text.replaceAll(/\s+/gu, ' ').trim()];
  return letters.length <= lettersMax ? letters.join('') : `${letters.slice(0, lettersMax - 1).join('')}…`;
}

/** `5`, `12.5`, `0.25`: three significant digits. */
export const formatRate = (perSecond: number): string => formatNumber(Number(perSecond.toPrecision(3)));

const byteUnits = ['B', 'kB', 'MB', 'GB', 'TB', 'PB'] as const;

/** The decimal unit for values up to `bytes`, and its size in bytes. */
export function chooseByteUnit(bytes: number): { readonly name: string; readonly bytes: number } {
  // 999.95 kB is shown as 1.0 MB.
  const step = bytes < 1000 ? 0 : Math.min(byteUnits.length - 1, Math.floor(Math.log10(bytes / 0.99995) / 3));
  return { name: byteUnits[step]!, bytes: 1000 ** step };
}

/** `1.2 MB`; decimal units. */
export function formatBytes(bytes: number): string {
  const unit = chooseByteUnit(bytes);
  return unit.bytes === 1 ? `${Math.round(bytes)} B` : `${(bytes / unit.bytes).toFixed(1)} ${unit.name}`;
}

/**
 * `850 ms`, `12.3 s`, then the two largest units without a zero: `4 min 5 s`, `2 h 5 min`, `3 d 4 h`, `254 d`, `3.2 years`.
 * Negative durations are shown as `0 ms`.
 */
export function formatDuration(duration: number): string {
  const ms = Math.max(0, duration);
  // Round before splitting into units, so that 59.96 s is not shown as 60.0 s.
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  if (Math.round(ms / 100) < 600) return `${(ms / 1000).toFixed(1)} s`;
  if (Math.round(ms / 1000) < 3600) return formatUnits(ms / 1000, 60, 'min', 's');
  if (Math.round(ms / minuteMs) < 1440) return formatUnits(ms / minuteMs, 60, 'h', 'min');
  const days = Math.round(ms / dayMs);
  if (days < 100) return formatUnits(ms / hourMs, 24, 'd', 'h');
  return days < 1000 ? `${days} d` : `${(days / 365.25).toFixed(1)} years`;
}

function formatUnits(small: number, perLarge: number, largeUnit: string, smallUnit: string): string {
  const [large, rest] = [Math.floor(Math.round(small) / perLarge), Math.round(small) % perLarge];
  return `${large} ${largeUnit}${rest === 0 ? '' : ` ${rest} ${smallUnit}`}`;
}
