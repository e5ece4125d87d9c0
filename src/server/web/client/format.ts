// Formats numbers and times independently of the language and time zone of the browser.

export const minuteMs = 60_000;
export const dayMs = 1440 * minuteMs;

/** 1234567 → 1,234,567 */
export const formatInteger = (n: number): string => String(n).replace(/\B(?=(\d{3})+(?!\d))/g, ',');

const byteUnits = ['bytes', 'kB', 'MB', 'GB', 'TB', 'PB'] as const;

/** Bytes in powers of 1,000, with at least three digits: 12.3 MB */
export function formatBytes(bytes: number): string {
  if (bytes === 1) return '1 byte';
  let power = 0;
  let left = bytes;
  while (left >= 999.5 && power < byteUnits.length - 1) {
    left /= 1000;
    power++;
  }
  const digits = power === 0 || left >= 99.95 ? 0 : left >= 9.995 ? 1 : 2;
  return `${left.toFixed(digits)} ${byteUnits[power]}`;
}

/** A count with its noun: 1 day, 2,000 days */
export const formatCount = (n: number, one: string, many = `${one}s`): string =>
  `${formatInteger(n)} ${n === 1 ? one : many}`;

/** A duration in its two largest units: 3 d 4 h, 12 min */
export function formatDuration(ms: number): string {
  const seconds = Math.max(0, Math.round(ms / 1000));
  if (seconds < 60) return `${seconds} s`;
  const minutes = Math.round(seconds / 60);
  if (minutes < 60) return `${minutes} min`;
  const [hours, minutesLeft] = [Math.floor(minutes / 60), minutes % 60];
  if (hours < 48) return minutesLeft === 0 ? `${hours} h` : `${hours} h ${minutesLeft} min`;
  const [days, hoursLeft] = [Math.floor(hours / 24), hours % 24];
  return hoursLeft === 0 || days > 99 ? `${formatInteger(days)} d` : `${days} d ${hoursLeft} h`;
}

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

/** A price with at most six decimals. */
export const formatPrice = (p: number): string => String(Number(p.toFixed(6)));

/** A size with at most six decimals: 1,234.5 */
export function formatQuantity(n: number): string {
  const [whole, decimals] = formatPrice(n).split('.') as [string, string?];
  return /^-?\d+$/.test(whole)
    ? `${formatInteger(Number(whole))}${decimals === undefined ? '' : `.${decimals}`}`
    : formatPrice(n);
}

/** At most `max` characters of a text, on one line. */
export function truncateText(text: string, max: number): string {
  const characters = [...text.replace(/\s+/g, ' ').trim()];
  return characters.length <= max ? characters.join('') : `${characters.slice(0, max - 1).join('')}…`;
}
