import type { RepairedFile, RepairReport } from '../archive/repair/repair-report.ts';
import { formatBytes, formatCount, formatNumber } from '../core/format-quantity.ts';
import { formatIsoUtc } from '../core/time.ts';

const linesMax = 50;

/** What a repair did, for a person: a line a file, then what is asked for again. */
export function formatRepair({ mended, lost, files, bytes, generation }: RepairReport): string {
  const verdict = mended.length === 0 ? 'all as published' : `${formatCount(mended.length, 'file')} mended`;
  const ticks = lost.reduce((sum, window) => sum + window.ticks, 0);
  return [
    ...limitLines(mended.map(formatRepairedFile)),
    ...(lost.length === 0 ? [] : [`${formatNumber(ticks)} ticks are lost in ${formatCount(lost.length, 'window')}:`]),
    ...limitLines(
      lost.map(
        (w) => `  ${w.symbol}  ${formatIsoUtc(w.from)} … ${formatIsoUtc(w.to)}  ${formatCount(w.ticks, 'tick')}`,
      ),
    ),
    `${formatCount(files, 'file')}, ${formatBytes(bytes)}, generation ${generation}: ${verdict}`,
  ]
    .map((line) => `${line}\n`)
    .join('');
}

const limitLines = (lines: readonly string[]): string[] =>
  lines.length <= linesMax
    ? [...lines]
    : [...lines.slice(0, linesMax), `  … and ${formatNumber(lines.length - linesMax)} more`];

function formatRepairedFile({ path, what, outcome, setAside, rows, rowsLost }: RepairedFile): string {
  const kept =
    rows !== null && rowsLost !== null && rowsLost > 0
      ? `, ${formatNumber(rows - rowsLost)} of ${formatCount(rows, 'row')} kept`
      : '';
  const aside = setAside === null ? '' : `; what was there is in ${setAside}`;
  return `${path}: ${what}; ${outcome}${kept}${aside}`;
}
