import { formatCount, formatNumber } from '../base/format-quantity.ts';
import { formatIsoUtc } from '../base/time.ts';
import { formatTradesGuess } from '../collector/import/guess-flags.ts';
import type { ArchivePlan } from '../collector/import/import-archive.ts';
import { formatMoreFlags } from '../collector/import/import-warnings.ts';
import { centsFault } from '../collector/import/preflight.ts';
import type { CheckedFile } from '../collector/import/prepare-import.ts';
import type { StoredRow } from '../collector/import/rejected-rows.ts';
import { renderList } from './table.ts';
import { escapeControls, type TerminalStyle } from './terminal-style.ts';

const reasonsShown = 5;
const filesShown = 20;

/**
 * Formats the result of a dry run of an import: for each file its counts, the first rows as they would be stored, the reasons
 * for rejected rows, the flags that help, and the columns that are not imported.
 */
export function formatDryRun(files: readonly CheckedFile[], isJson: boolean, style: TerminalStyle): string {
  if (isJson) {
    const checked = files.map(({ path, dataset, rows, rejected, reasons, fault, ...file }) => ({
      path,
      ...(dataset === null ? {} : { dataset }),
      rows,
      rejected,
      is_over_share: file.isOverShare,
      has_cents: file.hasCents,
      prices_above_one: file.pricesAboveOne,
      fault,
      flags: file.flags,
      reasons: reasons.slice(0, reasonsShown),
      first_rows: file.firstRows,
      unused_columns: file.unused,
      more_flags: file.moreFlags,
      trades_flags: file.trades?.flags ?? [],
    }));
    return `${JSON.stringify({ files: checked.slice(0, filesShown), files_count: files.length })}\n`;
  }
  const more = files.length > filesShown ? [`… and ${formatCount(files.length - filesShown, 'file')} more`] : [];
  return `${[...files.slice(0, filesShown).flatMap((file) => formatFile(file, style)), ...more].join('\n')}\n`;
}

/** Formats what an import of another archive would take. */
export function formatArchivePlan({ archive, generation, rows, from, to }: ArchivePlan, isJson: boolean): string {
  if (isJson) return `${JSON.stringify({ archive, generation, rows, from, to })}\n`;
  const days = from === null ? 'no days' : `${from} to ${to}`;
  return [
    `${escapeControls(archive)}: generation ${generation}, ${days}; every file is as its manifest says`,
    ...Object.entries(rows).map(([dataset, count]) => `  ${dataset}: ${formatCount(count, 'row')}`),
    '',
  ].join('\n');
}

function formatFile(file: CheckedFile, style: TerminalStyle): string[] {
  const { dataset, rows, rejected, reasons, fault, isOverShare, hasCents, pricesAboveOne, flags, firstRows } = file;
  const { unused, moreFlags, trades } = file;
  const name = dataset === null ? file.path : `${file.path}, ${dataset}`;
  const overText = isOverShare ? ': too many, nothing would be imported' : '';
  const shareText = rejected > 0 ? ` (${((100 * rejected) / rows).toFixed(1)} %)` : '';
  return [
    `${escapeControls(name)}: ${formatCount(rows, 'row')}, ${formatNumber(rejected)} rejected${shareText}${overText}`,
    ...(fault === null ? [] : [`  ${escapeControls(fault)}`]),
    ...reasons
      .slice(0, reasonsShown)
      .map((r) => `  ${formatNumber(r.count)} × ${r.reason}, first ${escapeControls(r.first.slice(0, 120))}`),
    ...(hasCents ? [`  nothing would be imported: ${centsFault}`] : []),
    ...(hasCents || pricesAboveOne === 0 ? [] : [`  ${formatCount(pricesAboveOne, 'price')} above 1`]),
    ...(flags.length === 0 ? [] : [`  add ${flags.join(' ')}`]),
    ...(unused.length === 0 ? [] : [`  not imported: ${escapeControls(unused.join(', '))}`]),
    ...(moreFlags.length === 0 ? [] : [`  ${escapeControls(formatMoreFlags(moreFlags))}`]),
    ...(trades === null ? [] : [`  ${escapeControls(formatTradesGuess(trades))}`]),
    ...(firstRows.length === 0 ? [] : [formatRows(firstRows, style)]),
  ];
}

/** The first rows as a table, indented. */
function formatRows(rows: readonly StoredRow[], style: TerminalStyle): string {
  const names = Object.keys(rows[0]!);
  const cells = Object.fromEntries(
    names.map((name) => [name, (row: StoredRow) => formatValue(name, row[name] ?? null)]),
  );
  const kinds = Object.fromEntries(
    names.map((name) => [
      name,
      name !== 't' && rows.some((row) => typeof row[name] === 'number') ? ('number' as const) : ('text' as const),
    ]),
  );
  const width = style.width === null ? null : style.width - 2;
  const table = renderList(rows, cells, { ...style, width }, `the first ${formatCount(rows.length, 'row')}`, kinds);
  return table
    .trimEnd()
    .split('\n')
    .map((line) => `  ${line}`)
    .join('\n');
}

/** Times are epoch ms in `t` and in columns that end in `_seen`. */
const formatValue = (name: string, value: StoredRow[string]): string =>
  value === null
    ? ''
    : typeof value === 'number' && (name === 't' || name.endsWith('_seen'))
      ? formatIsoUtc(value)
      : quoteSpaces(String(value));

/** Shows the spaces at the ends of a text. */
const quoteSpaces = (text: string): string => (text === text.trim() ? text : JSON.stringify(text));
