/** `12,345`. Does not use toLocaleString for integers, because its first call takes 20 ms. */
export const formatThousands = (value: number): string =>
  Number.isSafeInteger(value) ? String(value).replaceAll(/\B(?=(?:\d{3})+$)/g, ',') : value.toLocaleString('en-US');

/** `12,345`. */
export const formatNumber = formatThousands;

/** `1 file`, `12,345 files`. */
export const formatCount = (count: number, noun: string): string =>
  `${formatNumber(count)} ${noun}${count === 1 ? '' : 's'}`;

/** `1.2 MB`; decimal units. */
export function formatBytes(bytes: number): string {
  const units = ['B', 'kB', 'MB', 'GB', 'TB'];
  // 999.95 kB is shown as 1.0 MB.
  const step = bytes < 1000 ? 0 : Math.min(units.length - 1, Math.floor(Math.log10(bytes / 0.99995) / 3));
  return step === 0 ? `${bytes} B` : `${(bytes / 1000 ** step).toFixed(1)} ${units[step]}`;
}

/** `850 ms`, `12.3 s`, `4 min 5 s`, `2 h 5 min`. */
export function formatDuration(ms: number): string {
  // Round before splitting into units, so that 59.96 s is not shown as 60.0 s.
  if (Math.round(ms) < 1000) return `${Math.round(ms)} ms`;
  if (Math.round(ms / 100) < 600) return `${(ms / 1000).toFixed(1)} s`;
  const seconds = Math.round(ms / 1000);
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min ${seconds % 60} s`;
  const minutes = Math.floor(seconds / 60);
  return `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
}
