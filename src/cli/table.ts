import stringWidth from 'string-width';
import type { ResultTable } from '../archive/query/query.ts';
import { createPaints, escapeControls, type Paint, type TerminalStyle } from './terminal-style.ts';

/** The line under a table. */
export interface TableFooter {
  /** How many rows there are. */
  readonly counted: string;
  /** What to do where not all columns fit. */
  readonly advice: string;
}

const columnGap = 2;
/** No text column is made narrower than this to let others in, in terminal columns. */
const textWidthMin = 12;

/** The table as lines, aligned by what a terminal shows, with `below` under it. Ends with a newline. */
export function renderTable(
  table: ResultTable,
  style: TerminalStyle,
  below: TableFooter = buildResultFooter(table),
): string {
  if (table.plan !== null) return `${table.plan.trimEnd()}\n`;
  const { bold, faint } = createPaints(style.hasColour);
  const names = table.columns.map(({ name }) => escapeControls(name));
  const rows = table.rows.map((row) => row.map((cell) => (cell === null ? null : escapeControls(cell))));
  const natural = names.map((name, c) =>
    rows.reduce((most, row) => Math.max(most, measureCell(row[c]!)), measureCell(name)),
  );
  const widths = style.width === null ? natural : fitColumns(table, natural, style.width);
  const line = (cell: (c: number, width: number) => string): string =>
    widths
      .map((width, c) => cell(c, width))
      .join(' '.repeat(columnGap))
      .trimEnd();
  const aligned = (c: number, width: number, text: string, paint: Paint): string => {
    const shown = truncateCell(text, width);
    const space = ' '.repeat(Math.max(0, width - stringWidth(shown)));
    return table.columns[c]!.kind === 'number' ? space + paint(shown) : paint(shown) + space;
  };
  return [
    line((c, width) => aligned(c, width, names[c]!, bold)),
    line((_, width) => faint('─'.repeat(width))),
    ...rows.map((row) => line((c, width) => aligned(c, width, row[c] ?? 'NULL', row[c] === null ? faint : asIs))),
    `${faint(formatFooter(table, widths.length, below))}\n`,
  ].join('\n');
}

const asIs: Paint = (text) => text;

const measureCell = (cell: string | null): number => (cell === null ? 'NULL'.length : stringWidth(cell));

/**
 * Widths that fit into `width`, of as many columns as do: the widest texts give way first; where that is not enough,
 * the last columns are left out.
 */
function fitColumns({ columns }: ResultTable, natural: readonly number[], width: number): number[] {
  const narrowest = natural.map((n, c) => (columns[c]!.kind === 'text' ? Math.min(n, textWidthMin) : n));
  let shown = 1;
  while (shown < natural.length && sumWidths(narrowest.slice(0, shown + 1)) <= width) shown++;
  const widths = natural.slice(0, shown).map((n, c) => (columns[c]!.kind === 'text' ? Math.min(n, width) : n));
  while (sumWidths(widths) > width) {
    const spare = widths.map((w, c) => (w > narrowest[c]! ? w : 0));
    const widest = spare.indexOf(Math.max(...spare));
    if (spare[widest] === 0) break;
    widths[widest]!--;
  }
  return widths;
}

const sumWidths = (widths: readonly number[]): number => widths.reduce((sum, w) => sum + w + columnGap, -columnGap);

const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });

function truncateCell(text: string, width: number): string {
  if (stringWidth(text) <= width) return text;
  let out = '';
  let used = 1;
  for (const { segment } of graphemes.segment(text)) {
    used += stringWidth(segment);
    if (used > width) break;
    out += segment;
  }
  return `${out}…`;
}

function buildResultFooter({ rows, isComplete }: ResultTable): TableFooter {
  const counted = rows.length === 0 ? 'no rows' : rows.length === 1 ? '1 row' : `${rows.length} rows`;
  const advice = 'name fewer, or widen the terminal';
  return { counted: isComplete ? counted : `first ${rows.length} of more rows`, advice };
}

function formatFooter({ columns }: ResultTable, shown: number, { counted, advice }: TableFooter): string {
  return shown === columns.length ? counted : `${counted}, ${shown} of ${columns.length} columns: ${advice}`;
}
