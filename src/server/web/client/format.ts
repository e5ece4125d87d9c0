import { formatNumber, formatPlainNumber } from '../../../base/format-quantity.ts';
import { dayMs, minuteMs } from '../../../base/window.ts';

/** The UTC day: 2026-11-19 */
export const formatDate = (ms: number): string => new Date(ms).toISOString().slice(0, 10);

/** A time in UTC. Seconds and milliseconds are omitted if they are zero: 2026-11-19 12:30 */
export function formatTime(ms: number): string {
  const iso = new Date(ms).toISOString();
  const end = ms % minuteMs === 0 ? 16 : ms % 1000 === 0 ? 19 : 23;
  return iso.slice(0, end).replace('T', ' ');
}

/** A time for links: a day if it is midnight, otherwise an instant: 2026-11-19, 2026-11-19T12:30:00Z */
export const formatIsoTime = (ms: number): string =>
  ms % dayMs === 0 ? formatDate(ms) : new Date(ms).toISOString().replace('.000Z', 'Z');

/** A size with at most six decimals: 1,234.5 */
export function formatQuantity(n: number): string {
  const [whole, decimals] = formatPlainNumber(n).split('.') as [string, string?];
  return /^-?\d+$/.test(whole)
    ? `${formatNumber(Number(whole))}${decimals === undefined ? '' : `.${decimals}`}`
    : formatPlainNumber(n);
}
