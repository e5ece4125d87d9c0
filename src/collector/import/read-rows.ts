import { join } from 'node:path';
import { parseMarket } from '../../archive/format/parse-market.ts';
import { isLocalTime, openRowReader, type RowReader } from '../../archive/query/read-rows.ts';
import type { Run } from '../run/run.ts';
import {
  decompressFile,
  formatErrorLine,
  type ImportFile,
  readChunks,
  readLines,
  UnreadableFileError,
} from './files.ts';
import { parseTypedColumns, readMarketRow } from './import-market.ts';
import type { RawReplay } from './import-raw.ts';
import { type RawTickRows, readRows, truncateRaw } from './import-rows.ts';
import type { ImportWriter } from './import-writer.ts';
import type { PageRead } from './page-workers.ts';
import { type CheckRules, checkRows, lineBytesMax, parseJsonObject, type RowPlan, renameColumns } from './preflight.ts';

/** State shared by the files of an import. */
export interface ImportContext {
  readonly run: Run;
  readonly rules: CheckRules;
  readonly writer: ImportWriter;
  /** Folder for scratch files. */
  readonly scratch: string;
  /** Latest time accepted, epoch ms. */
  readonly futureMs: number;
  /** Opens the reader on the first call. */
  reader(): Promise<RowReader>;
  readonly replay: RawReplay;
  /** Called for each rejected file, response or record that is not a tick. */
  onRejected(what: 'page' | 'response' | 'market record', reason: string, path: string): void;
  onProgress(): void;
}

/** Imports one file of rows or raw responses, to its end or up to a fault. Anything before the fault is imported. */
export async function importFile(context: ImportContext, file: ImportFile, plan: RowPlan | undefined): Promise<void> {
  if (file.format === 'raw') return await context.replay.take(file);
  const rows = plan ?? (await checkCompressedParquet(context, file));
  if (file.format === 'csv') await checkCsvLines(context, file);
  try {
    if (rows.dataset === 'markets') await importMarketRows(context, file, rows);
    else await importTickRows(context, file, rows);
  } finally {
    if (!context.run.context.signal.aborted) await context.writer.flushRows(file.writtenAt);
  }
}

/** Decompresses a Parquet file, because Parquet is read from its end, and checks it. */
export async function checkCompressedParquet(context: ImportContext, file: ImportFile): Promise<RowPlan> {
  const { signal } = context.run.context;
  const unpacked = join(context.scratch, 'unpacked.parquet');
  await decompressFile(file, unpacked, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    throw new UnreadableFileError(`cannot be decompressed: ${formatErrorLine(error)}`);
  });
  const plan = await checkRows(file, await context.reader(), context.rules, unpacked);
  if ('fault' in plan) throw new UnreadableFileError(plan.fault);
  return plan;
}

/** Marks errors of the iterable as faults of the file. Errors of its consumer pass through. */
async function* wrapReadErrors<T>(items: AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
  try {
    yield* items;
  } catch (error) {
    throw new UnreadableFileError(`cannot be read to the end: ${formatErrorLine(error)}`, { cause: error });
  }
}

/** DuckDB's limit for a line. It silently drops a longer line that spans two of its buffers. */
const csvLineBytesMax = 2_000_000;

/**
 * Detects faults that DuckDB ignores: a truncated compressed CSV, which it reads as a shorter file with a truncated
 * last price, and lines that never end.
 */
async function checkCsvLines({ run }: ImportContext, file: ImportFile): Promise<void> {
  let length = 0;
  for await (const chunk of wrapReadErrors(readChunks(file))) {
    run.context.signal.throwIfAborted();
    const ends = [chunk.indexOf(10), chunk.indexOf(13)].filter((at) => at >= 0);
    length += ends.length === 0 ? chunk.length : Math.min(...ends);
    if (length > csvLineBytesMax) throw new UnreadableFileError(`contains a line longer than ${csvLineBytesMax} bytes`);
    if (ends.length > 0) length = chunk.length - 1 - Math.max(chunk.lastIndexOf(10), chunk.lastIndexOf(13));
  }
}

/** Imports a saved page. @throws UnreadableFileError if it could not be read */
export async function importSavedPage(
  { run, rules, writer, onRejected }: ImportContext,
  file: ImportFile,
  page: PageRead,
): Promise<void> {
  if (page.kind === 'unreadable') throw new UnreadableFileError(page.reason);
  run.pages++;
  if (page.kind === 'ticks') return await writer.addPage(page.read, page.rejected);
  if (page.kind === 'rejected') {
    writer.rows.reject(null, page.rejected);
    onRejected('page', page.rejected.reason, file.path);
    return await writer.flushRows(file.writtenAt);
  }
  for (const record of page.records) {
    const facts = parseMarket(record, page.view === null ? [] : [page.view], rules.paths);
    if ('reason' in facts) onRejected('market record', facts.reason, file.path);
    else await writer.addMarkets(facts, page.observedAt, page.observedAt);
  }
}

async function importTickRows(context: ImportContext, file: ImportFile, { rows }: RowPlan): Promise<void> {
  const { writer, rules } = context;
  const importRows = async (raw: RawTickRows): Promise<void> => {
    readRows(raw, rules.rows, writer.rows);
    await writer.flushWhenFull(file.writtenAt);
    context.onProgress();
  };
  const rejectLine = async (reason: string, text: string): Promise<void> => {
    writer.rows.reject(null, { reason, raw: truncateRaw(text) });
    await writer.flushWhenFull(file.writtenAt);
  };
  if (rows === null) {
    const timeColumn = rules.renames.find(([name]) => name === 't')?.[1] ?? 't';
    const exact = rules.rows.unit === 'ms' ? undefined : timeColumn;
    for await (const lines of readJsonRows(file, rules, exact)) {
      const parsedRows: { row: Record<string, unknown>; text: string }[] = [];
      for (const { row, text, reason } of lines) {
        if (row === null) await rejectLine(reason, text);
        else parsedRows.push({ row, text });
      }
      const column = (name: string): unknown[] =>
        parsedRows.map(({ row }) => (Object.hasOwn(row, name) ? row[name] : null));
      const columns = { symbol: column('symbol'), t: column('t'), p: column('p') };
      await importRows({ ...columns, isLocalTime: false, hasTextPrices: false, formatRaw: (i) => parsedRows[i]!.text });
    }
    return;
  }
  const reader = await context.reader();
  const { type } = rows.columns.find(({ name }) => name === 't')!;
  const options = { isLocalTime: isLocalTime(type), hasTextPrices: true };
  for await (const columns of wrapReadErrors(reader.readTicks(rows.file, rows.columns, rules.rows.unit)))
    await importRows({ ...columns, ...options });
  await rejectBadLines(reader, (reason, text) => rejectLine(`the line cannot be read: ${reason}`, text));
}

interface JsonRow {
  readonly text: string;
  /** The columns under the names used by the import. Null if the line cannot be used. */
  readonly row: Record<string, unknown> | null;
  /** Why the line cannot be used. */
  readonly reason: string;
}

/** Yields the rows of an NDJSON file in batches. `exact`: see `parseJsonObject`. */
async function* readJsonRows(
  file: ImportFile,
  { renames }: CheckRules,
  exact?: string,
): AsyncGenerator<JsonRow[], void, undefined> {
  for await (const lines of wrapReadErrors(readLines(file, lineBytesMax)))
    yield lines.map(({ text, fault }) => {
      const object = fault === null ? parseJsonObject(text, exact) : null;
      const row = object === null ? null : renameColumns(object, renames);
      return { text, row, reason: fault ?? 'the line is not a JSON object' };
    });
}

/** Rejects the lines that DuckDB could not read. DuckDB reads everything after an unterminated quote as one line. */
async function rejectBadLines(
  reader: RowReader,
  reject: (reason: string, text: string) => void | Promise<void>,
): Promise<void> {
  let hasUnclosedQuote = false;
  for await (const { reason, text } of reader.readBadLines()) {
    hasUnclosedQuote ||= reason.includes('unterminated quote');
    await reject(reason, text);
  }
  if (hasUnclosedQuote) throw new UnreadableFileError('unterminated quote: not all rows after it could be read');
}

async function importMarketRows(context: ImportContext, file: ImportFile, { rows }: RowPlan): Promise<void> {
  const { writer, rules, futureMs, onRejected } = context;
  const {
    paths,
    rows: { zone, truncates },
  } = rules;
  const local = (rows?.columns ?? []).filter(({ type }) => isLocalTime(type)).map(({ name }) => name);
  const options = { paths, zone, truncates, localColumns: new Set(local), writtenAt: file.writtenAt, futureMs };
  const rejectRow = (reason: string, text: string): void => {
    writer.rowCounter.reject(reason, truncateRaw(text));
    onRejected('market record', reason, file.path);
  };
  const importRow = async (row: Record<string, unknown>): Promise<void> => {
    const seen = readMarketRow(row, options);
    if ('reason' in seen) return rejectRow(seen.reason, JSON.stringify(row));
    writer.rowCounter.accept();
    await writer.addMarkets(seen.facts, seen.firstSeen, seen.lastSeen);
  };
  if (rows === null) {
    for await (const lines of readJsonRows(file, rules))
      for (const { row, text, reason } of lines) {
        if (row === null) rejectRow(reason, text);
        else await importRow(row);
      }
    return;
  }
  const reader = await context.reader();
  for await (const records of wrapReadErrors(reader.readRecords(rows.file)))
    for (const record of records)
      await importRow(rows.file.format === 'csv' ? parseTypedColumns(record, paths) : record);
  await rejectBadLines(reader, rejectRow);
}

/** Creates a reader that is opened on first use. */
export function createLazyReader(scratch: string): { reader(): Promise<RowReader>; close(): Promise<void> } {
  let opened: Promise<RowReader> | undefined;
  return {
    reader() {
      opened ??= openRowReader(scratch);
      return opened;
    },
    async close() {
      await (await opened)?.close();
    },
  };
}
