import { createRequire } from 'node:module';
import type { ResultTable } from '../archive/query/query.ts';
import { createPaints, escapeControls, type Paint, type TerminalStyle } from './terminal-style.ts';

/** The line under a table. */
interface TableFooter {
  /** Number of rows, as text. */
  readonly counted: string;
  /** Advice, printed if not all columns fit. */
  readonly advice: string;
}

const columnGap = 2;
/** Minimum width of a shortened text column, in terminal columns. */
const textWidthMin = 12;

/**
 * Renders a table, aligned by displayed width, with a footer below. Ends with a newline. On a terminal, text that does not fit
 * is shortened; without one, nothing is.
 * @param textLinesMax maximum number of lines of a text with spaces, before it is shortened
 */
export function renderTable(
  table: ResultTable,
  style: TerminalStyle,
  footer: TableFooter = buildResultFooter(table),
  textLinesMax = 1,
): string {
  if (table.plan !== null) return `${table.plan.trimEnd()}\n`;
  const { bold, faint } = createPaints(style.hasColour);
  const names = table.columns.map(({ name }) => escapeControls(name));
  const rows = table.rows.map((row) => row.map((cell) => (cell === null ? null : escapeControls(cell))));
  const naturalWidths = names.map((name, c) =>
    rows.reduce((max, row) => Math.max(max, measureCell(row[c]!)), measureCell(name)),
  );
  const widths = style.width === null ? naturalWidths : fitColumns(table, naturalWidths, style.width);
  const line = (cell: (c: number, width: number) => string): string =>
    widths
      .map((width, c) => cell(c, width))
      .join(' '.repeat(columnGap))
      .trimEnd();
  const alignCell = (c: number, width: number, text: string, paint: Paint): string => {
    const shownCount = truncateCell(text, width);
    const padding = ' '.repeat(Math.max(0, width - measureText(shownCount)));
    return table.columns[c]!.kind === 'number' ? padding + paint(shownCount) : paint(shownCount) + padding;
  };
  return [
    line((c, width) => alignCell(c, width, names[c]!, bold)),
    line((_, width) => faint('─'.repeat(width))),
    ...rows.flatMap((row) => {
      const cells = widths.map((width, c) => wrapCell(row[c] ?? 'NULL', width, textLinesMax));
      return Array.from({ length: Math.max(...cells.map(({ length }) => length)) }, (_, i) =>
        line((c, width) => alignCell(c, width, cells[c]![i] ?? '', row[c] === null ? faint : asIs)),
      );
    }),
    `${faint(formatFooter(table, widths.length, footer))}\n`,
  ].join('\n');
}

/**
 * Renders items as a table with one column for each of `cells`.
 * @param kinds kinds of columns that are not `fixed`
 */
export function renderList<T>(
  items: readonly T[],
  cells: Readonly<Record<string, (item: T) => string>>,
  style: TerminalStyle,
  counted: string,
  kinds: Readonly<Record<string, 'text' | 'number'>> = {},
): string {
  const columns = Object.keys(cells).map((name) => ({ name, kind: kinds[name] ?? 'fixed' }) as const);
  const rows = items.map((item) => Object.values(cells).map((format) => format(item)));
  return renderTable({ columns, rows, isComplete: true, plan: null }, style, { counted, advice: 'widen the terminal' });
}

const asIs: Paint = (text) => text;

const measureCell = (cell: string | null): number => (cell === null ? 'NULL'.length : measureText(cell));

/** Column widths that fit into `width`. Shortens the widest text columns first, then omits the last columns. */
function fitColumns({ columns }: ResultTable, naturalWidths: readonly number[], width: number): number[] {
  const minWidths = naturalWidths.map((n, c) => (columns[c]!.kind === 'text' ? Math.min(n, textWidthMin) : n));
  let shownCount = 1;
  while (shownCount < naturalWidths.length && sumWidths(minWidths.slice(0, shownCount + 1)) <= width) shownCount++;
  const widths = naturalWidths
    .slice(0, shownCount)
    .map((n, c) => (columns[c]!.kind === 'text' ? Math.min(n, width) : n));
  while (sumWidths(widths) > width) {
    const spareWidths = widths.map((w, c) => (w > minWidths[c]! ? w : 0));
    const widest = spareWidths.indexOf(Math.max(...spareWidths));
    if (spareWidths[widest] === 0) break;
    widths[widest]!--;
  }
  return widths;
}

const sumWidths = (widths: readonly number[]): number =>
  widths.reduce((sum, width) => sum + width + columnGap, -columnGap);

/** Wraps a text at spaces to lines of a width; the last one has the rest, and a longer word is not broken. */
function wrapCell(text: string, width: number, linesMax: number): string[] {
  if (linesMax === 1 || measureText(text) <= width) return [text];
  const lines = wrapLines(text, width);
  return lines.length <= linesMax ? lines : [...lines.slice(0, linesMax - 1), lines.slice(linesMax - 1).join(' ')];
}

function truncateCell(text: string, width: number): string {
  if (measureText(text) <= width) return text;
  const graphemes = new Intl.Segmenter('en', { granularity: 'grapheme' });
  let out = '';
  let used = 1;
  for (const { segment } of graphemes.segment(text)) {
    used += measureText(segment);
    if (used > width) break;
    out += segment;
  }
  return `${out}…`;
}

function buildResultFooter({ rows, isComplete }: ResultTable): TableFooter {
  const countText = rows.length === 0 ? 'no rows' : rows.length === 1 ? '1 row' : `${rows.length} rows`;
  const advice = 'select fewer columns, or widen the terminal';
  return { counted: isComplete ? countText : `first ${countText}, more follow`, advice };
}

function formatFooter(
  { columns }: ResultTable,
  shownCount: number,
  { counted: countText, advice }: TableFooter,
): string {
  return shownCount === columns.length
    ? countText
    : `${countText}, ${shownCount} of ${columns.length} columns: ${advice}`;
}

/** Stands for a space within a name. A noncharacter, so that no text has it. */
const keptSpace = '\ufdd0';

/** Marks the spaces of a name or path, so that `wrapText` does not break it. */
export const keepTogether = (name: string): string => name.replaceAll(' ', keptSpace);

/**
 * Wraps a clause that ends with a command, with the commands in it completed. That command is on one line, so that it can be
 * copied. See `wrapText`.
 */
export function wrapAction(text: string, style: TerminalStyle, rest = ''): string[] {
  const { complete, width } = style;
  const [, clause, original] = /^(.*?:) ((?:oddslake|gzip) .*)$/s.exec(text) ?? [];
  const isOneLine = width === null || measureText(rest + complete(text)) <= width;
  if (clause === undefined || original === undefined || original.includes('. ') || isOneLine)
    return wrapAdvice(text, style, rest, rest);
  const command = complete(original);
  const indent = measureText(rest + command) + 2 <= width ? `${rest}  ` : '    ';
  return [...wrapText(clause, width, rest, rest), `${indent}${command}`];
}

/**
 * Wraps a text at spaces to lines of at most `width` columns; null: no limit. A longer word is not broken.
 * @param first prefix of the first line, at most as wide as `rest`
 * @param rest prefix of the other lines
 */
export function wrapText(text: string, width: number | null, first = '', rest = ''): string[] {
  const lines = width === null ? [text] : wrapLines(text, Math.max(20, width - rest.length));
  return lines.map((line, i) => (i === 0 ? first : rest) + line.replaceAll(keptSpace, ' '));
}

/** Like wrapText, with the commands in the text completed. A command is not broken, so that it can be copied. */
export const wrapAdvice = (
  text: string,
  { complete, width }: Pick<TerminalStyle, 'complete' | 'width'>,
  first = '',
  rest = '',
): string[] => wrapText(complete(text, keptSpace), width, first, rest);

// The packages that measure and wrap any text compile large patterns. They are loaded at the first text that needs them, because most
// outputs have only characters of one column, and are not wrapped.

const require = createRequire(import.meta.url);
const loadStringWidth = () => (require('string-width') as typeof import('string-width')).default;
const loadWrapAnsi = () => (require('wrap-ansi') as typeof import('wrap-ansi')).default;

/**
 * Texts of characters that take one column each and combine with no other: Latin without the soft hyphen, general punctuation without
 * the marks of zero width, arrows, and the lines of tables.
 */
export const oneColumnText = /^[\x20-\x7e\xa1-\xac\xae-\u02ff\u2010-\u2027\u2030-\u203b\u2190-\u2193\u2500-\u257f]*$/;

/** The number of terminal columns of a text, without its escape sequences. */
export const measureText = (text: string): number => (oneColumnText.test(text) ? text.length : loadStringWidth()(text));

/** Wraps a text at spaces to lines of at most `width` columns. A longer word is not broken. */
const wrapLines = (text: string, width: number): string[] => loadWrapAnsi()(text, width).split('\n');
