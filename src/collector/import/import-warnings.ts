import { formatCount, formatNumber } from '../../base/format-quantity.ts';
import type { RunWarning } from '../run/judge-run.ts';
import { formatTradesGuess } from './guess-flags.ts';
import type { CheckedFile, ImportInput } from './prepare-import.ts';

// Warnings of an import that succeeded, and the failure of one with too many rejected rows.

export function formatImportWarnings(
  input: ImportInput,
  files: readonly CheckedFile[],
  rejectedGroups: ReadonlyMap<string, RejectedGroup>,
): RunWarning[] {
  return [
    ...formatWarnings(input, rejectedGroups),
    ...formatUnused(files),
    ...formatTrades(files),
    ...formatUnmatched(input, files),
    ...formatPricesAboveOne(input, files),
  ];
}

/** A warning for prices above 1 beside prices below, some of which may be in cents. */
function formatPricesAboveOne({ flags }: ImportInput, files: readonly CheckedFile[]): string[] {
  const mixed = files.filter(({ pricesAboveOne }) => pricesAboveOne > 0);
  if (flags.rows.priceScale !== null || mixed.length === 0) return [];
  const count = mixed.reduce((sum, { pricesAboveOne }) => sum + pricesAboveOne, 0);
  return [
    `${formatCount(count, 'price')} above 1 ${count === 1 ? 'was' : 'were'} stored as received (${formatPaths(mixed)}). --price-scale 1 confirms that.`,
  ];
}

/** A warning that names the files of which --where selects no row. */
function formatUnmatched({ flags: { filters } }: ImportInput, files: readonly CheckedFile[]): string[] {
  const empty = [...Map.groupBy(files, ({ path }) => path).values()]
    .filter((results) => results.every(({ rows, fault }) => rows === 0 && fault === null))
    .map(([result]) => result!);
  if (filters.length === 0 || empty.length === 0) return [];
  const wanted = filters.map(({ column, value }) => `--where ${column}=${value}`).join(' ');
  return [`No row matches ${wanted}: ${formatPaths(empty)}.`];
}

/** Warnings that name the columns that were not imported, one for each set of columns. */
const formatUnused = (files: readonly CheckedFile[]): RunWarning[] =>
  [...Map.groupBy(files, ({ unused, moreFlags }) => [unused.join(', '), ...moreFlags].join('\n'))]
    .filter(([key]) => key !== '')
    .slice(0, reasonsMax)
    .map(([key, of]) => {
      const [columns, ...flags] = key.split('\n');
      const text = `Columns that were not imported: ${columns} (${formatPaths(of)}).`;
      return flags.length === 0 ? { kind: 'unused columns', text } : `${text} ${formatMoreFlags(flags)}.`;
    });

/** Warnings about files that look like trades, one for each set of flags. */
const formatTrades = (files: readonly CheckedFile[]): string[] =>
  [...Map.groupBy(files, ({ trades }) => (trades === null ? '' : formatTradesGuess(trades)))]
    .filter(([key]) => key !== '')
    .slice(0, reasonsMax)
    .map(([, of]) => `${formatTradesGuess(of[0]!.trades!, ` (${formatPaths(of)})`)}. --dataset ticks confirms that.`);

/** A clause about the flags with which unused columns are imported. */
export const formatMoreFlags = (flags: readonly string[]): string => `${flags.join(' ')} imports ticks and quotes`;

function formatPaths(files: readonly { readonly path: string }[]): string {
  const paths = [...new Set(files.map(({ path }) => path))];
  return `${paths.slice(0, pathsMax).join(', ')}${paths.length > pathsMax ? ', …' : ''}`;
}

export interface RejectedGroup {
  count: number;
  readonly paths: Set<string>;
}

/** Number of paths shown per reason. */
const pathsMax = 3;
/** Number of reasons shown separately. */
const reasonsMax = 20;

export function countRejected(rejectedGroups: Map<string, RejectedGroup>, key: string, path: string): void {
  const known = rejectedGroups.get(key) ?? { count: 0, paths: new Set<string>() };
  known.count++;
  if (known.paths.size <= pathsMax) known.paths.add(path);
  if (rejectedGroups.has(key) || rejectedGroups.size < reasonsMax) rejectedGroups.set(key, known);
}

function formatWarnings({ ignored }: ImportInput, rejectedGroups: ReadonlyMap<string, RejectedGroup>): string[] {
  const named = (paths: readonly string[]): string => formatPaths(paths.map((path) => ({ path })));
  const skipped = ignored.length === 0 ? [] : [`Skipped files of unknown type: ${named(ignored)}.`];
  const rejected = [...rejectedGroups].map(([key, { count, paths }]) => {
    const [what, reason] = key.split('\n');
    return `${count} ${what}${count === 1 ? ' was' : 's were'} rejected: ${reason} (${named([...paths])}).`;
  });
  return [...skipped, ...rejected];
}

/** Number of reasons shown for a rejected file. */
const overReasonsShown = 3;

/** The failure for a file with too many rejected rows: the first reasons, and the flags that would help. */
export function formatOverShare(
  { path, dataset, rows, rejected, reasons, flags }: CheckedFile,
  shareMax: number,
): string {
  const shown = reasons
    .slice(0, overReasonsShown)
    .map(({ reason, count, first }) => `${formatNumber(count)} × ${reason}, first ${first.slice(0, rawCharsShown)}`);
  const help = flags.length > 0 ? ` Use ${flags.join(' ')}.` : '';
  const why = rejected > shareMax * rows ? `, which exceeds the allowed share of ${shareMax}` : '';
  return `${path}: ${formatNumber(rejected)} of ${formatNumber(rows)} ${dataset ?? 'rows'} rejected${why}: nothing was imported. ${shown.join('; ')}.${help} --allow-rejected SHARE imports the other rows anyway.`;
}

const rawCharsShown = 120;
