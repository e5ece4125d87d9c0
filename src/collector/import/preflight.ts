import { join } from 'node:path';
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
import { decompressFile, type ImportFile, readBeginning, readLines } from './files.ts';
import { detectDataset, type ImportDataset, lacksZone, parseCsvHeader, type TickRowRules } from './import-rows.ts';

export interface CheckRules {
  readonly dataset: ImportDataset | null;
  readonly rows: TickRowRules;
  /** Columns that are read under another name. */
  readonly renames: readonly ColumnRename[];
  readonly paths: RecordPaths;
}

/** A file of rows and what it holds. */
export interface RowPlan {
  readonly dataset: ImportDataset;
  /** Null for NDJSON, which is read line by line. */
  readonly rows: { readonly file: RowFile; readonly columns: readonly RowColumn[] } | null;
}

/** A file of a folder that cannot be imported, and why: a clause. The others go on. */
export interface FileFault {
  readonly fault: string;
}

export const lineBytesMax = 1 << 20;
const headBytes = 1 << 16;
const sampleRows = 1000;

/**
 * Looks at the beginning of a file of rows: whether its columns are there and its times can be understood. `rowFile`:
 * where a packed Parquet file was unpacked to.
 * @throws UsageError for times without a zone where none was given, and for whatever is wrong with a named file
 */
export async function checkRows(
  file: ImportFile,
  reader: RowReader,
  rules: CheckRules,
  unpacked?: string,
): Promise<RowPlan | FileFault> {
  const found = await inspectRows(file, reader, rules, unpacked);
  if ('fault' in found && file.isNamed) throw new UsageError(`${file.path}: ${found.fault}.`);
  if ('fault' in found || !found.lacksZone || rules.rows.zone !== null) return found;
  throw new UsageError(
    `${file.path}: its times say nothing of their zone. Say which it is, e.g. --tz UTC or --tz America/New_York.`,
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
    return { fault: `it cannot be read: ${formatErrorLine(error)}` };
  }
}

/** The first line of what an error says. */
export const formatErrorLine = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).split('\n')[0]!.replace(/\.$/, '');

async function inspectLines(
  file: ImportFile,
  rules: CheckRules,
): Promise<(RowPlan & { lacksZone: boolean }) | FileFault> {
  for await (const lines of readLines(file, lineBytesMax)) {
    const found = lines.slice(0, sampleRows).map(({ text, fault }) => (fault === null ? parseJsonObject(text) : null));
    const own = found.filter((row) => row !== null);
    if (own.length === 0) return { fault: 'no line at its beginning is a JSON object' };
    const lacking = findMissingColumns(rules.renames, [...new Set(own.flatMap((row) => Object.keys(row)))]);
    if (lacking !== undefined) return lacking;
    const rows = own.map((row) => renameColumns(row, rules.renames));
    const names = new Set(rows.flatMap((row) => Object.keys(row)));
    const dataset = detectDataset([...names], rules.dataset, rules.paths);
    if (typeof dataset === 'object') return { fault: dataset.lacks };
    const isLocal = (t: unknown): boolean => typeof t === 'string' && lacksZone(t);
    return { dataset, rows: null, lacksZone: dataset === 'ticks' && rows.some((row) => isLocal(row.t)) };
  }
  return { fault: 'it is empty' };
}

/** The fault of a file that lacks a column of another name. */
function findMissingColumns(renames: readonly ColumnRename[], names: readonly string[]): FileFault | undefined {
  const lacking = renames.map(([, own]) => own).filter((own) => !names.includes(own));
  if (lacking.length === 0) return undefined;
  const found = `it has ${names.slice(0, 12).join(', ') || 'none'}${names.length > 12 ? ', …' : ''}`;
  return { fault: `it lacks the column${lacking.length > 1 ? 's' : ''} ${lacking.join(', ')} of --columns (${found})` };
}

/** A row with its columns under the names that they are read by. */
export function renameColumns(row: Record<string, unknown>, renames: readonly ColumnRename[]): Record<string, unknown> {
  if (renames.length === 0) return row;
  const rest = Object.entries(row).filter(([name]) => !renames.some((pair) => pair.includes(name)));
  const read = renames.flatMap(([name, own]) => (Object.hasOwn(row, own) ? [[name, row[own]]] : []));
  return Object.fromEntries([...rest, ...read]);
}

/**
 * The JSON object in a line; null where there is none. `exact`: numbers of this name as their text, since a double does not
 * hold the digits of nanoseconds.
 */
export function parseJsonObject(line: string, exact?: string): Record<string, unknown> | null {
  const keepText = (name: string, value: unknown, context?: { readonly source?: string }): unknown =>
    name === exact && typeof value === 'number' ? (context?.source ?? value) : value;
  try {
    const value: unknown = JSON.parse(line.replace(/^\ufeff/, ''), exact === undefined ? undefined : keepText);
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
  const own = await toRowFile(file, unpacked);
  if ('fault' in own) return own;
  const { renames } = rules;
  const names = (await reader.readColumns(own)).map(({ name }) => name);
  const missing = findMissingColumns(renames, names);
  if (missing !== undefined) return missing;
  const isReplaced = (name: string): boolean =>
    renames.some(([read]) => read.toLowerCase() === name.toLowerCase()) && !renames.some(([, read]) => read === name);
  const rowFile = renames.length === 0 ? own : { ...own, renames, replaced: names.filter(isReplaced) };
  const columns = await reader.readColumns(rowFile);
  const dataset = detectDataset(
    columns.map(({ name }) => name),
    rules.dataset,
    rules.paths,
  );
  if (typeof dataset === 'object') return { fault: dataset.lacks };
  const rows = { file: rowFile, columns };
  if (dataset === 'markets') return { dataset, rows, lacksZone: false };
  const type = (name: string): string => columns.find((column) => column.name === name)!.type;
  if (!canBeSymbol(type('symbol'))) return { fault: `its column symbol is ${type('symbol')}, no text` };
  if (!canBeTime(type('t'))) return { fault: `its column t is ${type('t')}, no time` };
  if (!canBePrice(type('p'))) return { fault: `its column p is ${type('p')}, no number` };
  let lacking = isLocalTime(type('t'));
  if (type('t') === 'VARCHAR') {
    for await (const { t } of reader.readTicks(rowFile, columns, rules.rows.unit)) {
      lacking = t.some((text) => typeof text === 'string' && lacksZone(text));
      break;
    }
  }
  return { dataset, rows, lacksZone: lacking };
}

async function toRowFile(file: ImportFile, unpacked: string | undefined): Promise<RowFile | FileFault> {
  const { path, compression } = file;
  if (file.format === 'parquet') return { format: 'parquet', path: unpacked ?? path };
  const beginning = await readBeginning(file, headBytes);
  if (/^[^\r\n]*\0/.test(beginning.toString('latin1'))) return { fault: 'it is no text in UTF-8' };
  const head = parseCsvHeader(beginning.toString('utf8'));
  if (head === undefined) return { fault: 'its first line does not name its columns, each once' };
  return { format: 'csv', path, compression, ...head };
}

/** Unpacks a compressed Parquet file, which has to be read from its end, into `folder`; the path it has there. */
export async function decompressParquet(file: ImportFile, folder: string, signal: AbortSignal): Promise<string> {
  const target = join(folder, 'unpacked.parquet');
  await decompressFile(file, target, signal);
  return target;
}
