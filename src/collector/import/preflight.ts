import type { RecordPaths } from '../../archive/format/parse-market.ts';
import {
  type ColumnRename,
  canBePrice,
  canBeSymbol,
  canBeTime,
  isLocalTime,
  type RowColumn,
  type RowFile,
  type RowReader,
} from '../../archive/query/read-rows.ts';
import { UsageError } from '../../base/errors.ts';
import { formatErrorLine, type ImportFile, readBeginning, readLines } from './files.ts';
import { type ImportDataset, isWithoutZone, type TickRowRules } from './import-rows.ts';

export interface CheckRules {
  readonly dataset: ImportDataset | null;
  readonly rows: TickRowRules;
  /** Columns that have a different name in the file. */
  readonly renames: readonly ColumnRename[];
  readonly paths: RecordPaths;
}

/** A row file and what it contains. */
export interface RowPlan {
  readonly dataset: ImportDataset;
  /** Null for NDJSON, which is read line by line. */
  readonly rows: { readonly file: RowFile; readonly columns: readonly RowColumn[] } | null;
}

/** A file in a folder that cannot be imported, with the reason as a clause. The other files are imported. */
export interface FileFault {
  readonly fault: string;
}

export const lineBytesMax = 1 << 20;
const headBytes = 1 << 16;
const sampleRows = 1000;

/**
 * Checks the beginning of a row file: whether the required columns are present and its times can be parsed. `unpacked`:
 * path of the decompressed file for compressed Parquet.
 * @throws UsageError for times without a zone if none is given, and for any fault in a file that was named explicitly
 */
export async function checkRows(
  file: ImportFile,
  reader: RowReader,
  rules: CheckRules,
  unpacked?: string,
): Promise<RowPlan | FileFault> {
  const result = await inspectRows(file, reader, rules, unpacked);
  if ('fault' in result && file.isNamed) throw new UsageError(`${file.path}: ${result.fault}.`);
  if ('fault' in result || !result.lacksZone || rules.rows.zone !== null) return result;
  throw new UsageError(
    `${file.path}: timestamps without a time zone. Use --tz to name the zone, e.g. --tz UTC or --tz America/New_York.`,
  );
}

async function inspectRows(
  file: ImportFile,
  reader: RowReader,
  rules: CheckRules,
  unpacked: string | undefined,
): Promise<(RowPlan & { lacksZone: boolean }) | FileFault> {
  try {
    return file.format === 'ndjson'
      ? await inspectLines(file, rules)
      : await inspectTable(file, reader, rules, unpacked);
  } catch (error) {
    return { fault: `cannot be read: ${formatErrorLine(error)}` };
  }
}

async function inspectLines(
  file: ImportFile,
  rules: CheckRules,
): Promise<(RowPlan & { lacksZone: boolean }) | FileFault> {
  for await (const lines of readLines(file, lineBytesMax)) {
    const parsedRows = lines
      .slice(0, sampleRows)
      .map(({ text, fault }) => (fault === null ? parseJsonObject(text) : null));
    const objects = parsedRows.filter((row) => row !== null);
    if (objects.length === 0) return { fault: 'no JSON object in the first lines' };
    const missing = findMissingColumns(rules.renames, [...new Set(objects.flatMap((row) => Object.keys(row)))]);
    if (missing !== undefined) return missing;
    const rows = objects.map((row) => renameColumns(row, rules.renames));
    const names = new Set(rows.flatMap((row) => Object.keys(row)));
    const dataset = detectDataset([...names], rules.dataset, rules.paths);
    if (typeof dataset === 'object') return dataset;
    const isLocal = (t: unknown): boolean => typeof t === 'string' && isWithoutZone(t);
    return { dataset, rows: null, lacksZone: dataset === 'ticks' && rows.some((row) => isLocal(row.t)) };
  }
  return { fault: 'empty file' };
}

/** Returns a fault if a column named by --columns is missing. */
function findMissingColumns(renames: readonly ColumnRename[], names: readonly string[]): FileFault | undefined {
  const missing = renames.map(([, fileName]) => fileName).filter((fileName) => !names.includes(fileName));
  if (missing.length === 0) return undefined;
  return {
    fault: `missing column${missing.length > 1 ? 's' : ''} ${missing.join(', ')} named by --columns (${formatFoundColumns(names)})`,
  };
}

const formatFoundColumns = (names: readonly string[]): string =>
  `found: ${names.slice(0, 12).join(', ') || 'none'}${names.length > 12 ? ', …' : ''}`;

/** Renames the columns of a row to the names used by the import. */
export function renameColumns(row: Record<string, unknown>, renames: readonly ColumnRename[]): Record<string, unknown> {
  if (renames.length === 0) return row;
  const rest = Object.entries(row).filter(([name]) => !renames.some((pair) => pair.includes(name)));
  const read = renames.flatMap(([name, fileName]) => (Object.hasOwn(row, fileName) ? [[name, row[fileName]]] : []));
  return Object.fromEntries([...rest, ...read]);
}

/**
 * Parses the JSON object in a line. Null if it is not an object. `exact`: keep the numbers of this field as text,
 * because a double cannot hold all digits of a time in nanoseconds.
 */
export function parseJsonObject(text: string, exact?: string): Record<string, unknown> | null {
  const keepText = (name: string, value: unknown, context?: { readonly source?: string }): unknown =>
    name === exact && typeof value === 'number' ? (context?.source ?? value) : value;
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
): Promise<(RowPlan & { lacksZone: boolean }) | FileFault> {
  const source = await toRowFile(file, unpacked);
  if ('fault' in source) return source;
  const { renames } = rules;
  const names = (await reader.readColumns(source)).map(({ name }) => name);
  const missing = findMissingColumns(renames, names);
  if (missing !== undefined) return missing;
  const isReplaced = (name: string): boolean =>
    renames.some(([read]) => read.toLowerCase() === name.toLowerCase()) && !renames.some(([, read]) => read === name);
  const rowFile = renames.length === 0 ? source : { ...source, renames, replaced: names.filter(isReplaced) };
  const columns = await reader.readColumns(rowFile);
  const dataset = detectDataset(
    columns.map(({ name }) => name),
    rules.dataset,
    rules.paths,
  );
  if (typeof dataset === 'object') return dataset;
  const rows = { file: rowFile, columns };
  if (dataset === 'markets') return { dataset, rows, lacksZone: false };
  const type = (name: string): string => columns.find((column) => column.name === name)!.type;
  if (!canBeSymbol(type('symbol'))) return { fault: `column symbol is ${type('symbol')}, not text` };
  if (!canBeTime(type('t'))) return { fault: `column t is ${type('t')}, not a time` };
  if (!canBePrice(type('p'))) return { fault: `column p is ${type('p')}, not a number` };
  let hasLocalTimes = isLocalTime(type('t'));
  if (type('t') === 'VARCHAR') {
    for await (const { t } of reader.readTicks(rowFile, columns, rules.rows.unit)) {
      hasLocalTimes = t.some((text) => typeof text === 'string' && isWithoutZone(text));
      break;
    }
  }
  return { dataset, rows, lacksZone: hasLocalTimes };
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

const tickColumnNames = ['symbol', 't', 'p'];

/**
 * Detects the dataset of rows with these columns. If there is none, returns the reason as a clause. `expected`: the expected
 * dataset, or null.
 */
export function detectDataset(
  names: readonly string[],
  expected: ImportDataset | null,
  { symbolPaths, fieldPaths }: RecordPaths,
): ImportDataset | FileFault {
  const columns = new Set(names);
  const missing = tickColumnNames.filter((name) => !columns.has(name));
  const top = (paths: readonly string[]): boolean => paths.some((path) => columns.has(path.split('/')[0]!));
  const isList = columns.has('canonical_id') || columns.has('symbol') || top(symbolPaths);
  const hasMarketColumns = top([...Object.values(fieldPaths).flat(), 'category', 'is_active', 'confidence']);
  if (expected !== 'markets' && missing.length === 0) return 'ticks';
  if (expected === 'markets' && isList) return 'markets';
  if (expected === null && columns.has('canonical_id')) return 'markets';
  if (expected === null && isList && hasMarketColumns && !columns.has('t') && !columns.has('p')) return 'markets';
  const foundText = formatFoundColumns(names);
  if (expected === 'markets') return { fault: `missing column symbol or canonical_id (${foundText})` };
  const hint = expected === null ? '; a market list has a canonical_id column or needs --dataset markets' : '';
  return { fault: `missing column${missing.length > 1 ? 's' : ''} ${missing.join(', ')} (${foundText})${hint}` };
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
  return [...fields, field].map((name, i) => (name === '' ? `column_${i}` : name));
}
