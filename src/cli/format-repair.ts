import type { RepairedFile, RepairReport } from '../archive/integrity/repair.ts';
import { formatBytes, formatCount, formatNumber } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import type { SummaryDetails } from './print-summary.ts';
import { keepTogether, wrapText } from './table.ts';
import { escapeControls, type TerminalStyle } from './terminal-style.ts';

/** Formats a repair for its summary: the result in the table, and below it each damaged file and each lost window. */
export function formatRepair({ repaired, lost, files, bytes, generation }: RepairReport): SummaryDetails {
  const checkedText = `${formatCount(files, 'file')}, ${formatBytes(bytes)}`;
  if (repaired.length === 0)
    return { row: ['repaired', [`nothing: no damage found in ${checkedText}`]], format: () => [] };
  const outcomes = [...Map.groupBy(repaired, ({ outcome }) => outcome)].map(
    ([outcome, { length }]) => `${formatNumber(length)} ${outcome}`,
  );
  const ticks = lost.reduce((sum, window) => sum + window.ticks, 0);
  const lines = [
    'The damaged files:',
    ...limitLines(repaired.map(formatRepairedFile)),
    ...(lost.length === 0
      ? []
      : [
          `${formatCount(ticks, 'tick')} of ${formatCount(lost.length, 'window')} in them could not be kept; those brought back are in the line "restored":`,
        ]),
    ...limitLines(
      lost.map(
        (w) =>
          `  ${keepTogether(escapeControls(w.symbol))}  ${formatIsoUtc(w.from)} … ${formatIsoUtc(w.to)}  ${keepTogether(formatCount(w.ticks, 'tick'))}`,
      ),
    ),
  ];
  return {
    row: [
      'repaired',
      [
        `${formatCount(repaired.length, 'file')}: ${outcomes.join(', ')}`,
        `of ${checkedText} (generation ${formatNumber(generation)})`,
      ],
    ],
    format: ({ width }: TerminalStyle) =>
      lines.flatMap((line) =>
        wrapText(line.trimStart(), width, line.startsWith(' ') ? '  ' : '', line.startsWith(' ') ? '      ' : ''),
      ),
  };
}

const linesMax = 50;

const limitLines = (lines: readonly string[]): string[] =>
  lines.length <= linesMax
    ? [...lines]
    : [...lines.slice(0, linesMax), `  … and ${formatNumber(lines.length - linesMax)} more`];

function formatRepairedFile({
  path,
  kind,
  outcome,
  moved_to: movedTo,
  rows,
  rows_lost: rowsLost,
}: RepairedFile): string {
  const keptText =
    rows !== null && rowsLost !== null && rowsLost > 0
      ? `, ${formatNumber(rows - rowsLost)} of ${formatCount(rows, 'row')} kept`
      : '';
  const movedText = movedTo === null ? '' : `; the damaged file was moved to ${keepTogether(escapeControls(movedTo))}`;
  return `  ${keepTogether(escapeControls(path))}: ${kind}; ${outcome}${keptText}${movedText}`;
}
