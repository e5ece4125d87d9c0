import type { RecordPaths } from '../../archive/format/parse-market.ts';
import { isTimeName } from '../../archive/format/series-datasets.ts';
import {
  type ColumnFilter,
  type ColumnRename,
  canBeNumber,
  canBeSymbol,
  canBeTime,
  isLocalTime,
  type RowColumn,
  type RowFile,
  type RowReader,
} from '../../archive/query/read-rows.ts';
import { UsageError } from '../../base/errors.ts';
import { formatNumber } from '../../base/format-quantity.ts';
import { formatErrorLine, type ImportFile, readBeginning, readLines } from './files.ts';
import { type FileSample, type GivenFlags, hasObservedPrices, openColumns } from './guess-columns.ts';
import { formatTradesGuess, guessBothFlags, guessFlags, guessTrades, type TradesGuess } from './guess-flags.ts';
import { type ImportDataset, isWithoutZone, type TickRowRules, timedDatasets } from './import-rows.ts';
import { tradeTextNames } from './import-trades.ts';
import { looksLikeCents } from './price-range.ts';
import {
  detectDatasets,
  type FileFault,
  formatCell,
  hasLevelRows,
  listFields,
  listReadColumns,
  listUnusedColumns,
  matchesFilters,
  quotePriceNames,
  readField,
  renameColumns,
  resolveColumns,
} from './row-columns.ts';

export interface CheckRules extends GivenFlags {
  readonly paths: RecordPaths;
}

/** A row file and what it contains. */
export interface RowPlan {
  /** At least one. Several read the same rows. */
  readonly datasets: readonly ImportDataset[];
  /** Null for NDJSON, which is read line by line. */
  readonly rows: { readonly file: RowFile; readonly columns: readonly RowColumn[] } | null;
  /** The columns that have a different name in the file, and the filters, as the file spells them. */
  readonly renames: readonly ColumnRename[];
  readonly filters: readonly ColumnFilter[];
  /** Columns of the file that are not imported. */
  readonly unused: readonly string[];
  /** Flags with which the file feeds one more dataset, from its unused columns. Empty if there are none. */
  readonly moreFlags: readonly string[];
  /** Columns that look like trades, in a file of ticks whose dataset is inferred. Null if there are none. */
  readonly trades: TradesGuess | null;
}

/** What the first rows of a file show that the flags do not allow for. */
interface Inspection {
  readonly plan: RowPlan;
  readonly lacksZone: boolean;
  readonly hasCents: boolean;
  /** The flags that a look at the first rows suggests. */
  advise(): string | undefined;
}

/** A fault of a file, and the flags with which it may be imported. */
interface GuessedFault extends FileFault {
  readonly advice?: string;
}

export const centsFault =
  'the prices look like cents. Use --price-scale 0.01 to divide them by 100, or --price-scale 1 to store them as they are';

export const lineBytesMax = 1 << 20;
const headBytes = 1 << 16;
const sampleRows = 1000;

/**
 * Checks the beginning of a row file: whether the required columns are present and its times can be parsed. `openReader` is
 * not called for JSON lines. `unpacked`: path of the decompressed file for compressed Parquet.
 * @throws UsageError for times without a zone if none is given, for prices that may be in cents if no scale is given, and
 * for any fault in a file that was named explicitly
 */
export async function checkRows(
  file: ImportFile,
  openReader: () => Promise<RowReader>,
  rules: CheckRules,
  unpacked?: string,
): Promise<RowPlan | FileFault> {
  const result = await inspectRows(file, openReader, rules, unpacked);
  if ('fault' in result) {
    const { fault, advice } = result;
    if (file.isNamed) throw new UsageError(`${file.path}: ${fault}.${advice === undefined ? '' : ` ${advice}`}`);
    return { fault };
  }
  const faults = [
    ...(result.lacksZone && rules.rows.zone === null
      ? ['timestamps without a time zone. Use --tz to name the zone, e.g. --tz UTC or --tz America/New_York']
      : []),
    ...(result.hasCents ? [centsFault] : []),
  ];
  if (faults.length === 0) return result.plan;
  const { trades } = result.plan;
  const tradesText = trades === null ? [] : [`${formatTradesGuess(trades)}.`];
  throw new UsageError(
    [`${file.path}: ${faults.join('; ')}.`, ...tradesText, result.advise() ?? ''].join(' ').trimEnd(),
  );
}

async function inspectRows(
  file: ImportFile,
  openReader: () => Promise<RowReader>,
  rules: CheckRules,
  unpacked: string | undefined,
): Promise<Inspection | GuessedFault> {
  const reader = file.format === 'ndjson' ? null : await openReader();
  try {
    return reader === null ? await inspectLines(file, rules) : await inspectTable(file, reader, rules, unpacked);
  } catch (error) {
    return { fault: `cannot be read: ${formatErrorLine(error)}` };
  }
}

/** The flags that a look at the first rows suggests, as a sentence, with the flags on a line of their own. */
function formatAdvice(sample: FileSample, given: GivenFlags): string | undefined {
  const guess = guessFlags(sample, given);
  if (guess === null || guess.readable === 0) return undefined;
  const { clauses, flags, rows, readable } = guess;
  return `${clauses.join('; ')}. Of the first ${formatNumber(rows)} rows, ${formatNumber(readable)} can be read with:\n  ${flags.join(' ')}`;
}

/** A fault of the columns, with advice if there is some. */
function adviseOn({ fault }: FileFault, sample: FileSample, given: GivenFlags): GuessedFault {
  const advice = formatAdvice(sample, given);
  return advice === undefined ? { fault } : { fault, advice };
}

async function inspectLines(file: ImportFile, rules: CheckRules): Promise<Inspection | GuessedFault> {
  for await (const lines of readLines(file, lineBytesMax)) {
    const head = lines.slice(0, sampleRows);
    const objects = head
      .map(({ text, fault }) => (fault === null ? parseJsonObject(text) : null))
      .filter((row) => row !== null);
    if (objects.length === 0) return { fault: 'no JSON object in the first lines' };
    const names = listFields(objects);
    const found = resolveColumns(names, rules);
    if ('fault' in found) return found;
    const { renames, filters } = found;
    const matching = objects.filter((row) => matchesFilters(row, filters));
    // The first rows that match may come later.
    const rows = (matching.length > 0 ? matching : objects).map((row) => renameColumns(row, renames));
    const present = [...new Set(rows.flatMap((row) => Object.keys(row)))];
    const given = { ...rules, ...found };
    const sample = sampleLines(head.map(({ text }) => text));
    const hasPrices = hasObservedPrices(sample, rules.paths);
    const datasets = detectDatasets(present, rules.datasets, rules.paths, names, hasPrices);
    if ('fault' in datasets) return adviseOn(datasets, sample, given);
    if (datasets.includes('orderbooks') && hasLevelRows(present))
      return { fault: 'order books with one level a row can be imported from CSV and Parquet only' };
    const isLocal = (t: unknown): boolean => typeof t === 'string' && isWithoutZone(t);
    const unused = listUnusedColumns(names, datasets, found);
    const more = canFeedMore(datasets, rules, unused) ? guessMore(sample, given, datasets) : nothingMore;
    return {
      plan: { datasets, rows: null, renames, filters, unused, ...more },
      lacksZone: !datasets.includes('markets') && rows.some((row) => isLocal(row.t)),
      hasCents: havePricesInCents(datasets, rules.rows, (name) => rows.map((row) => row[name])),
      advise: () => formatAdvice(sample, { ...given, datasets }),
    };
  }
  return { fault: 'empty file' };
}

/** The rows of JSON lines as text: numbers with the digits that the line has. */
function sampleLines(texts: readonly string[]): FileSample {
  const objects = texts.map((text) => parseJsonObject(text, allNumbers)).filter((row) => row !== null);
  const names = listFields(objects);
  return { names, rows: objects.map((row) => names.map((name) => formatCell(readField(row, name)))) };
}

/** Whether a look for the columns of another dataset is worth it: the user named none, and there are unused columns. */
const canFeedMore = (datasets: readonly ImportDataset[], given: GivenFlags, unused: readonly string[]): boolean =>
  given.datasets === null &&
  unused.length > 0 &&
  datasets.every((dataset) => dataset === 'ticks' || dataset === 'quotes');

type MoreDatasets = Pick<RowPlan, 'moreFlags' | 'trades'>;

const nothingMore: MoreDatasets = { moreFlags: [], trades: null };

/** What the unused columns of a file look like. */
const guessMore = (sample: FileSample, given: GivenFlags, datasets: readonly ImportDataset[]): MoreDatasets => ({
  moreFlags: guessBothFlags(sample, given) ?? [],
  trades: datasets.includes('ticks') ? guessTrades(sample, given) : null,
});

/** Whether the prices of ticks, or those of quotes, are probably in cents, and no scale is given. */
const havePricesInCents = (
  datasets: readonly ImportDataset[],
  rules: TickRowRules,
  valuesOf: (name: string) => readonly unknown[],
): boolean =>
  (datasets.includes('ticks') && hasCents(valuesOf('p'), rules)) ||
  (datasets.includes('trades') && hasCents(valuesOf('price'), rules)) ||
  (datasets.includes('quotes') && hasCents(quotePriceNames.flatMap(valuesOf), rules));

/** Whether prices are probably in cents, and no scale is given. */
const hasCents = (prices: readonly unknown[], { priceScale, hasDecimalComma }: TickRowRules): boolean => {
  if (priceScale !== null) return false;
  const text = (price: unknown): string => (hasDecimalComma ? String(price).replace(',', '.') : String(price));
  return looksLikeCents(
    prices.filter((price) => price !== null && price !== undefined && price !== '').map((price) => Number(text(price))),
  );
};

/**
 * The flags with which more rows of a file can be read, from a look at its first rows. Empty if that shows none.
 * @param plan as `checkRows` returned it
 */
export async function suggestFlags(
  file: ImportFile,
  reader: RowReader,
  rules: CheckRules,
  plan: RowPlan,
): Promise<readonly string[]> {
  if (plan.datasets.includes('markets')) return [];
  const given = { ...rules, datasets: plan.datasets, renames: plan.renames, filters: plan.filters };
  if (plan.rows === null) {
    for await (const lines of readLines(file, lineBytesMax)) {
      const texts = lines.slice(0, sampleRows).map(({ text }) => text);
      return guessFlags(sampleLines(texts), given)?.flags ?? [];
    }
    return [];
  }
  const sample = await sampleTable(reader, plan.rows.file, plan.rows.columns);
  return guessFlags(sample, { ...given, renames: [], filters: [] })?.flags ?? [];
}

/** Lists and structs show nothing about a column, and DuckDB crashes on lists whose levels are invalid. */
const isNested = ({ type }: RowColumn): boolean => /\[\d*\]$|^(STRUCT|MAP|UNION)\b/.test(type);

async function sampleTable(reader: RowReader, file: RowFile, columns: readonly RowColumn[]): Promise<FileSample> {
  const plain = columns.filter((column) => !isNested(column));
  const rows: (string | null)[][] = [];
  if (plain.length > 0)
    for await (const texts of reader.readTexts(file, plain, { limit: sampleRows }))
      for (let i = 0; i < texts[0]!.length; i++) rows.push(texts.map((column) => column[i]!));
  // The values of the others are null.
  return { names: [...plain, ...columns.filter(isNested)].map(({ name }) => name), rows };
}

const allNumbers = Symbol('all numbers');

/**
 * Parses the JSON object in a line. Null if it is not an object. `exact`: keep the numbers of these fields, or of all
 * fields, as text, because a double cannot hold all digits of a time in nanoseconds.
 */
export function parseJsonObject(
  text: string,
  exact?: readonly string[] | typeof allNumbers,
): Record<string, unknown> | null {
  const keepText = (name: string, value: unknown, context?: { readonly source?: string }): unknown =>
    typeof value === 'number' && (exact === allNumbers || exact?.includes(name)) ? (context?.source ?? value) : value;
  try {
    const value: unknown = JSON.parse(text.replace(/^\ufeff/, ''), exact === undefined ? undefined : keepText);
    return typeof value === 'object' && value !== null && !Array.isArray(value)
      ? (value as Record<string, unknown>)
      : null;
  } catch {
    return null;
  }
}

async function inspectTable(
  file: ImportFile,
  reader: RowReader,
  rules: CheckRules,
  unpacked: string | undefined,
): Promise<Inspection | GuessedFault> {
  const source = await toRowFile(file, unpacked);
  if ('fault' in source) return source;
  const ownColumns = await reader.readColumns(source);
  const names = ownColumns.map(({ name }) => name);
  const found = resolveColumns(names, rules);
  if ('fault' in found) return found;
  const { renames, filters } = found;
  const isReplaced = (name: string): boolean =>
    renames.some(([read]) => read.toLowerCase() === name.toLowerCase()) && !renames.some(([, read]) => read === name);
  const rowFile = { ...source, renames, filters, replaced: names.filter(isReplaced) };
  const columns = await reader.readColumns(rowFile);
  const read = columns.map(({ name }) => name);
  const own = await sampleTable(reader, source, ownColumns);
  const given = { ...rules, ...found };
  const datasets = detectDatasets(read, rules.datasets, rules.paths, names, hasObservedPrices(own, rules.paths));
  if ('fault' in datasets) return adviseOn({ fault: `${datasets.fault}${describePartitions(file.path)}` }, own, given);
  const unused = listUnusedColumns(names, datasets, found);
  const more = canFeedMore(datasets, rules, unused) ? guessMore(own, given, datasets) : nothingMore;
  const plan = { datasets, rows: { file: rowFile, columns }, renames, filters, unused, ...more };
  if (datasets.includes('markets')) return { plan, lacksZone: false, hasCents: false, advise: () => undefined };
  const type = (name: string): string => columns.find((column) => column.name === name)!.type;
  if (!canBeSymbol(type('symbol'))) return { fault: `column symbol is ${type('symbol')}, not text` };
  if (!canBeTime(type('t')))
    return {
      fault: `column t is ${type('t')}, ${type('t') === 'FLOAT' ? 'which has too few digits for a time' : 'not a time'}`,
    };
  for (const name of listOwnColumns(datasets, columns))
    if (isTimeName(name) ? !canBeTime(type(name)) : !tradeTextNames.includes(name) && !canBeNumber(type(name)))
      return { fault: `column ${name} is ${type(name)}, not a ${isTimeName(name) ? 'time' : 'number'}` };
  const sample = await sampleTable(reader, rowFile, columns);
  const valuesOf = openColumns(sample);
  const hasLocalTexts = type('t') === 'VARCHAR' && valuesOf('t').some((text) => text !== null && isWithoutZone(text));
  return {
    plan,
    lacksZone: isLocalTime(type('t')) || hasLocalTexts,
    hasCents: havePricesInCents(datasets, rules.rows, valuesOf),
    advise: () => formatAdvice(sample, { ...rules, datasets, renames: [], filters: [] }),
  };
}

/** The columns of a table of ticks, quotes or trades beside symbol and time. Empty for other datasets. */
export function listOwnColumns(datasets: readonly ImportDataset[], columns: readonly RowColumn[]): string[] {
  const read = listReadColumns(datasets.filter((dataset) => timedDatasets.includes(dataset)));
  const present = new Set(columns.map(({ name }) => name));
  return read.filter((name) => name !== 'symbol' && name !== 't' && name !== 'seq' && present.has(name));
}

/** A clause that names the values in the names of folders of a partitioned data set. */
function describePartitions(path: string): string {
  const named = path
    .split('/')
    .slice(0, -1)
    .filter((folder) => /^\w+=/.test(folder));
  return named.length === 0 ? '' : `; ${named.join(', ')} in the names of the folders are not read`;
}

async function toRowFile(file: ImportFile, unpacked: string | undefined): Promise<RowFile | FileFault> {
  const { path, compression } = file;
  if (file.format === 'parquet') return { format: 'parquet', path: unpacked ?? path };
  const beginning = await readBeginning(file, headBytes);
  if (/^[^\r\n]*\0/.test(beginning.toString('latin1'))) return { fault: 'not UTF-8 text' };
  const head = parseCsvHeader(beginning.toString('utf8'));
  if (head === undefined) return { fault: 'the first line is not a header with unique column names' };
  return { format: 'csv', path, compression, ...head };
}

const csvDelimiters = [',', ';', '\t', '|'];

/**
 * Parses the header of a CSV file (RFC 4180) and detects its delimiter. Undefined if there is no complete line, or if
 * two names differ only in case, which DuckDB ignores.
 */
export function parseCsvHeader(text: string): { names: string[]; delimiter: string } | undefined {
  const [line, ...rest] = text.replace(/^\ufeff/, '').split(/\r\n|\n|\r/, 2);
  if (line === undefined || line === '' || (rest.length === 0 && text.length > csvHeaderCharsMax)) return undefined;
  const candidates = csvDelimiters.map((delimiter) => ({ delimiter, names: splitCsvLine(line, delimiter) }));
  const best = candidates.reduce((a, b) => (b.names.length > a.names.length ? b : a));
  const different = new Set(best.names.map((name) => name.toLowerCase()));
  return different.size < best.names.length ? undefined : best;
}

const csvHeaderCharsMax = 60_000;

function splitCsvLine(line: string, delimiter: string): string[] {
  const fields: string[] = [];
  let field = '';
  let quoted = false;
  for (let i = 0; i < line.length; i++) {
    const char = line[i]!;
    if (quoted && char === '"' && line[i + 1] === '"') field += line[++i];
    else if (char === '"') quoted = !quoted;
    else if (char === delimiter && !quoted) {
      fields.push(field);
      field = '';
    } else field += char;
  }
  // The index column of a pandas data frame has no name.
  return [...fields, field].map((name, i) => (name.trim() === '' ? `column_${i}` : name.trim()));
}
