import type { MendedFile, Repaired } from '../archive/repair/repair-report.ts';
import { many, number, size } from '../core/format-quantity.ts';
import { isoUtc } from '../core/time.ts';

const linesMax = 50;

/** What a repair did, for a person: a line a file, then what is asked for again. */
export function repairText({ mended, lost, files, bytes, generation }: Repaired): string {
  const verdict = mended.length === 0 ? 'all as published' : `${many(mended.length, 'file')} mended`;
  const ticks = lost.reduce((sum, window) => sum + window.ticks, 0);
  return [
    ...cut(mended.map(fileText)),
    ...(lost.length === 0 ? [] : [`${number(ticks)} ticks are lost in ${many(lost.length, 'window')}:`]),
    ...cut(lost.map((w) => `  ${w.symbol}  ${isoUtc(w.from)} … ${isoUtc(w.to)}  ${many(w.ticks, 'tick')}`)),
    `${many(files, 'file')}, ${size(bytes)}, generation ${generation}: ${verdict}`,
  ]
    .map((line) => `${line}\n`)
    .join('');
}

const cut = (lines: readonly string[]): string[] =>
  lines.length <= linesMax
    ? [...lines]
    : [...lines.slice(0, linesMax), `  … and ${number(lines.length - linesMax)} more`];

function fileText({ path, what, outcome, setAside, rows, rowsLost }: MendedFile): string {
  const kept =
    rows !== null && rowsLost !== null && rowsLost > 0
      ? `, ${number(rows - rowsLost)} of ${many(rows, 'row')} kept`
      : '';
  const aside = setAside === null ? '' : `; what was there is in ${setAside}`;
  return `${path}: ${what}; ${outcome}${kept}${aside}`;
}
