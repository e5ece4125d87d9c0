import { join } from 'node:path';
import { parseMarket } from '../../archive/format/parse-market.ts';
import { type QualifyName, qualifyMarket } from '../../archive/format/qualify-market.ts';
import { isTimeName, timeNames } from '../../archive/format/series-datasets.ts';
import { isLocalTime, openRowReader, type RowColumn, type RowReader } from '../../archive/query/read-rows.ts';
import { UsageError } from '../../base/errors.ts';
import type { Run } from '../run/run.ts';
import {
  decompressFile,
  formatErrorLine,
  type ImportFile,
  readChunks,
  readLines,
  UnreadableFileError,
} from './files.ts';
import { type BookRow, joinLevels, readBookRow } from './import-books.ts';
import { parseTypedColumns, readMarketRow } from './import-market.ts';
import { readQuoteRows } from './import-quotes.ts';
import type { RawReplay } from './import-raw.ts';
import { type RawRows, readRows, truncateRaw } from './import-rows.ts';
import { readTradeRows, tradeTextNames } from './import-trades.ts';
import type { ImportWriter } from './import-writer.ts';
import type { PageRead } from './page-workers.ts';
import {
  type CheckRules,
  checkRows,
  lineBytesMax,
  listOwnColumns,
  parseJsonObject,
  type RowPlan,
} from './preflight.ts';
import { formatCell, hasLevelRows, listReadColumns, matchesFilters, readField, renameColumns } from './row-columns.ts';
import { createTradeIds } from './trade-ids.ts';

/** State shared by the files of an import. */
export interface ImportContext {
  readonly run: Run;
  readonly rules: CheckRules;
  readonly writer: ImportWriter;
  /**
   * Qualifies the names in market records, in an archive of several sources; the writer qualifies the symbols of all
   * other rows.
   */
  readonly qualify: QualifyName | undefined;
  /** Folder for scratch files. */
  readonly scratch: string;
  /** Latest time accepted, epoch ms. */
  readonly futureMs: number;
  /** Opens the reader on the first call. */
  reader(): Promise<RowReader>;
  readonly replay: RawReplay;
  /** Called for each rejected file, response or record that is not a tick. */
  onRejected(what: RejectedRecord, reason: string, path: string): void;
  /** `share`: how much of the current file has been read, 0 to 1. */
  onProgress(share?: number): void;
}

/** What was rejected, if it is not a tick. */
export type RejectedRecord = 'page' | 'response' | 'market record' | 'order book';

/** Imports one file of rows, to its end or up to a fault. Anything before the fault is imported. */
export async function importFile(context: ImportContext, file: ImportFile, rows: RowPlan): Promise<void> {
  const rowCount = await countRows(context, file, rows);
  try {
    if (rows.datasets.includes('markets')) await importMarketRows(context, file, rows, rowCount);
    else if (rows.datasets.includes('orderbooks')) await importBookRows(context, file, rows, rowCount);
    else await importSeriesRows(context, file, rows, rowCount);
  } finally {
    if (!context.run.context.signal.aborted) await context.writer.flushRows(file.writtenAt);
  }
}

/** The number of rows of a table, about; null for JSON lines. Checks the lines of a CSV file. */
async function countRows(context: ImportContext, file: ImportFile, { rows }: RowPlan): Promise<number | null> {
  if (rows === null) return null;
  if (file.format === 'csv') return await checkCsvLines(context, file);
  return await (await context.reader()).countParquetRows(rows.file).catch(() => null);
}

/** Decompresses a Parquet file, because Parquet is read from its end, and checks it. */
export async function checkCompressedParquet(context: ImportContext, file: ImportFile): Promise<RowPlan> {
  const { signal } = context.run.context;
  const unpacked = join(context.scratch, 'unpacked.parquet');
  await decompressFile(file, unpacked, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    throw new UnreadableFileError(`cannot be decompressed: ${formatErrorLine(error)}`);
  });
  const plan = await checkRows(file, context.reader, context.rules, unpacked);
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
 * last price, and lines that never end. Returns about how many lines the file has, from the length of the first ones.
 */
async function checkCsvLines({ run }: ImportContext, file: ImportFile): Promise<number> {
  let length = 0;
  let bytes = 0;
  let lineBytes = 0;
  for await (const chunk of wrapReadErrors(readChunks(file))) {
    run.context.signal.throwIfAborted();
    if (bytes === 0)
      lineBytes =
        chunk.length /
        Math.max(
          1,
          chunk.reduce((n, byte) => n + Number(byte === 10), 0),
        );
    bytes += chunk.length;
    const ends = [chunk.indexOf(10), chunk.indexOf(13)].filter((at) => at >= 0);
    length += ends.length === 0 ? chunk.length : Math.min(...ends);
    if (length > csvLineBytesMax) throw new UnreadableFileError(`contains a line longer than ${csvLineBytesMax} bytes`);
    if (ends.length > 0) length = chunk.length - 1 - Math.max(chunk.lastIndexOf(10), chunk.lastIndexOf(13));
  }
  return bytes / Math.max(1, lineBytes);
}

/** Imports a saved page. @throws UnreadableFileError if it could not be read */
export async function importSavedPage(
  { run, rules, writer, qualify, onRejected }: ImportContext,
  file: ImportFile,
  page: PageRead,
): Promise<void> {
  if (page.kind === 'unreadable') throw new UnreadableFileError(page.reason);
  run.pages++;
  if (page.kind === 'ticks') return await writer.addPage(page.ticks, page.rejected);
  if (page.kind === 'rejected') {
    writer.rows.reject(null, page.rejected);
    onRejected('page', page.rejected.reason, file.path);
    return await writer.flushRows(file.writtenAt);
  }
  for (const record of page.records) {
    const named = qualify === undefined ? record : qualifyMarket(record, qualify, rules.paths.symbolPaths);
    const facts = parseMarket(named, page.view === null ? [] : [page.view], rules.paths);
    if ('reason' in facts) onRejected('market record', facts.reason, file.path);
    else await writer.addMarkets(facts, page.observedAt, page.observedAt);
  }
}

/** Reports how much of a file has been read: by its rows, or by its bytes for JSON lines, whose number is unknown. */
function trackShare(context: ImportContext, file: ImportFile, rowCount: number | null) {
  let done = 0;
  const report = (n: number, total: number): void => context.onProgress(Math.min(1, n / Math.max(1, total)));
  return {
    onRows(rows: number): void {
      done += rows;
      if (rowCount !== null) report(done, rowCount);
    },
    /** `bytes`: read so far, compressed if the file is. */
    onBytes: (bytes: number): void => report(bytes, file.bytes),
  };
}

/** Imports ticks, quotes, both from the same rows, or trades. */
async function importSeriesRows(
  context: ImportContext,
  file: ImportFile,
  plan: RowPlan,
  rowCount: number | null,
): Promise<void> {
  const { writer, rules, futureMs } = context;
  const { rows, datasets } = plan;
  const { onRows, onBytes } = trackShare(context, file, rowCount);
  const hasTicks = datasets.includes('ticks');
  const sinks = { quotes: writer.series.quotes.rows, ticks: hasTicks ? writer.rows : null };
  const tradeIds = createTradeIds();
  const importRows = async (raw: RawRows, values: Readonly<Record<string, readonly unknown[]>>): Promise<void> => {
    if (datasets.includes('quotes')) readQuoteRows({ ...raw, ...values }, rules.rows, futureMs, sinks);
    else if (datasets.includes('trades'))
      readTradeRows({ ...raw, ...values }, rules.rows, futureMs, writer.series.trades.rows, tradeIds);
    else readRows({ ...raw, p: values.p! }, rules.rows, writer.rows);
    await writer.flushWhenFull(file.writtenAt);
    onRows(raw.symbol.length);
  };
  const rejectLine = async (reason: string, text: string): Promise<void> => {
    const sink = datasets.includes('trades') ? writer.series.trades.rows : (sinks.ticks ?? sinks.quotes);
    sink.reject(null, { reason, raw: truncateRaw(text) });
    await writer.flushWhenFull(file.writtenAt);
  };
  if (rows === null) {
    const names = listReadColumns(datasets);
    const own = names.map((name) => plan.renames.find(([read]) => read === name)?.[1] ?? name);
    for await (const lines of readJsonLines(file, plan, rules, onBytes)) {
      const parsedRows: JsonLine[] = [];
      for (const line of lines) {
        if (line.row === null) await rejectLine(line.reason, line.text);
        else parsedRows.push(line);
      }
      const columns = names.map((name, c) => [name, parsedRows.map(({ row }) => readField(row!, own[c]!))] as const);
      const { symbol, t, ...values } = Object.fromEntries(columns);
      await importRows({ symbol: symbol!, t: t!, isLocalTime: false, formatRaw: (i) => parsedRows[i]!.text }, values);
    }
    return;
  }
  const reader = await context.reader();
  const isLocal = isLocalTime(typeOf(rows.columns, 't'));
  const names = listOwnColumns(datasets, rows.columns);
  // A decimal number as text has the digits that a double has not.
  const isText = (name: string): boolean =>
    isTimeName(name) ||
    (datasets.includes('trades') &&
      (tradeTextNames.includes(name) || typeOf(rows.columns, name).startsWith('DECIMAL')));
  const wanted = { numbers: names.filter((name) => !isText(name)), texts: names.filter(isText) };
  for await (const read of wrapReadErrors(reader.readSeries(rows.file, rows.columns, rules.rows.unit, wanted))) {
    const { symbol, t, tText, values } = read;
    await importRows({ symbol, t, tText, isLocalTime: isLocal }, values);
  }
  await rejectBadLines(reader, (reason, text) => rejectLine(`the line cannot be read: ${reason}`, text));
}

const typeOf = (columns: readonly RowColumn[], name: string): string =>
  columns.find((column) => column.name === name)!.type;

/** Imports order books, one snapshot a row. They cover nothing, because nobody asked for those moments. */
async function importBookRows(
  context: ImportContext,
  file: ImportFile,
  plan: RowPlan,
  rowCount: number | null,
): Promise<void> {
  const { writer, rules, futureMs, onRejected } = context;
  const { rows } = plan;
  const { onRows, onBytes } = trackShare(context, file, rowCount);
  const rejectRow = (reason: string, text: string): void => {
    writer.rowCounter.reject(reason, truncateRaw(text));
    onRejected('order book', reason, file.path);
  };
  const importRow = async (row: BookRow, text?: string): Promise<void> => {
    const read = readBookRow(row, rules.rows, futureMs);
    if ('reason' in read) return rejectRow(read.reason, text ?? JSON.stringify({ ...row, fault: undefined }));
    writer.rowCounter.accept();
    await writer.addSnapshot(read.symbol, read.snapshot, file.writtenAt);
  };
  if (rows === null) {
    const paths = bookColumns.map((name) => plan.renames.find(([read]) => read === name)?.[1] ?? name);
    for await (const lines of readJsonLines(file, plan, rules, onBytes)) {
      for (const { row, text, reason } of lines) {
        if (row === null) rejectRow(reason, text);
        else {
          const [symbol, t, bids, asks] = paths.map((path) => formatCell(readField(row, path)));
          if (symbol !== null && typeof readField(row, paths[0]!) !== 'string') rejectRow('symbol is not text', text);
          else await importRow({ symbol: symbol!, t: t!, bids: bids!, asks: asks! }, text);
        }
      }
    }
    return;
  }
  const reader = await context.reader();
  const hasLevels = hasLevelRows(rows.columns.map(({ name }) => name));
  const read = <K extends string>(names: readonly K[], sortedBy: readonly string[] = []) =>
    readTextRows(reader, rows, names, sortedBy, onRows);
  if (hasLevels) {
    const levels = joinLevels(rules.rows, file.path);
    const importBook = async (book: BookRow | null): Promise<void> => {
      if (book !== null) await importRow(book);
    };
    for await (const row of read(levelColumns, ['symbol', 't'])) await importBook(levels.add(row));
    await importBook(levels.end());
    for await (const { reason, text } of reader.readBadLines())
      throw new UsageError(
        `${file.path}: a line cannot be read (${reason}: ${truncateRaw(text).slice(0, lineCharsShown)}): its order book would be incomplete.`,
      );
  } else for await (const row of read(bookColumns)) await importRow(row);
  await rejectBadLines(reader, (reason, text) => rejectRow(`the line cannot be read: ${reason}`, text));
}

const lineCharsShown = 120;
const bookColumns = ['symbol', 't', 'bids', 'asks'] as const;
const levelColumns = ['symbol', 't', 'side', 'level', 'price', 'quantity'] as const;

/** Yields rows of a table with these columns as text; null for a column that the table does not have. */
async function* readTextRows<K extends string>(
  reader: RowReader,
  { file, columns }: NonNullable<RowPlan['rows']>,
  names: readonly K[],
  sortedBy: readonly string[],
  onRows: (rows: number) => void,
): AsyncGenerator<Record<K, string | null>, void, undefined> {
  const present = columns.filter(({ name }) => names.some((one) => one === name));
  for await (const texts of wrapReadErrors(reader.readTexts(file, present, { sortedBy }))) {
    for (let i = 0; i < texts[0]!.length; i++)
      yield Object.fromEntries(
        names.map((name) => [name, texts[present.findIndex((column) => column.name === name)]?.[i] ?? null]),
      ) as Record<K, string | null>;
    onRows(texts[0]!.length);
  }
}

interface JsonLine {
  readonly text: string;
  /** The object in the line, under the file's own names. Null if the line cannot be used. */
  readonly row: Record<string, unknown> | null;
  /** Why the line cannot be used. */
  readonly reason: string;
}

/** Yields the lines of an NDJSON file that match the filters, in batches. Times and symbols keep the digits that a double has not. */
async function* readJsonLines(
  file: ImportFile,
  { datasets, filters, renames }: RowPlan,
  { rows: { unit } }: CheckRules,
  onBytes: (bytes: number) => void,
): AsyncGenerator<JsonLine[], void, undefined> {
  const own = (name: string): string => renames.find(([read]) => read === name)?.[1] ?? name;
  const symbolColumn = own('symbol');
  const hasRows = !datasets.includes('markets');
  const columns = [
    ...(unit === 'ms' || !hasRows ? [] : [own('t')]),
    ...(datasets.includes('trades') ? ['trade_id', 'price', 'size'].map(own) : []),
    ...(hasRows ? timeNames.map(own) : []),
    ...filters.filter(({ value }) => /^\d{16,}$/.test(value)).map(({ column }) => column),
  ].map(toLastKey);
  const exact = columns.length === 0 ? undefined : columns;
  const parse = (text: string): Record<string, unknown> | null => {
    const row = parseJsonObject(text, exact);
    // The IDs of some venues are numbers of 77 digits.
    if (row === null || !hasRows || typeof readField(row, symbolColumn) !== 'number') return row;
    const exactRow = parseJsonObject(text, [...columns, toLastKey(symbolColumn)])!;
    return /^\d+$/.test(String(readField(exactRow, symbolColumn))) ? exactRow : row;
  };
  for await (const lines of wrapReadErrors(readLines(file, lineBytesMax, onBytes)))
    yield lines
      .map(({ text, fault }) => {
        const row = fault === null ? parse(text) : null;
        return { text, row, reason: fault ?? 'the line is not a JSON object' };
      })
      .filter(({ row }) => row === null || filters.length === 0 || matchesFilters(row, filters));
}

const toLastKey = (path: string): string => path.slice(path.lastIndexOf('/') + 1);

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

async function importMarketRows(
  context: ImportContext,
  file: ImportFile,
  plan: RowPlan,
  rowCount: number | null,
): Promise<void> {
  const { rows } = plan;
  const { onRows, onBytes } = trackShare(context, file, rowCount);
  const { writer, rules, qualify, futureMs, onRejected } = context;
  const {
    paths,
    rows: { zone, truncates },
  } = rules;
  const local = (rows?.columns ?? []).filter(({ type }) => isLocalTime(type)).map(({ name }) => name);
  const localColumns = new Set(local);
  const options = { paths, qualify, zone, truncates, localColumns, writtenAt: file.writtenAt, futureMs };
  const rejectRow = (reason: string, text: string): void => {
    writer.rowCounter.reject(reason, truncateRaw(text));
    onRejected('market record', reason, file.path);
  };
  const importRow = async (row: Readonly<Record<string, unknown>>): Promise<void> => {
    const seen = readMarketRow(row, options);
    if ('reason' in seen) return rejectRow(seen.reason, JSON.stringify(row));
    writer.rowCounter.accept();
    const [first] = seen.facts;
    if (writer.rowCounter.isShowing && first !== undefined) {
      const { canonicalId, symbol, question } = first;
      const times = { first_seen: seen.firstSeen, last_seen: seen.lastSeen };
      writer.rowCounter.show({ canonical_id: canonicalId, symbol, question, ...times });
    }
    await writer.addMarkets(seen.facts, seen.firstSeen, seen.lastSeen);
  };
  if (rows === null) {
    for await (const lines of readJsonLines(file, plan, rules, onBytes)) {
      for (const { row, text, reason } of lines) {
        if (row === null) rejectRow(reason, text);
        else await importRow(renameColumns(row, plan.renames));
      }
    }
    return;
  }
  const reader = await context.reader();
  for await (const records of wrapReadErrors(reader.readRecords(rows.file))) {
    for (const record of records)
      await importRow(rows.file.format === 'csv' ? parseTypedColumns(record, paths) : record);
    onRows(records.length);
  }
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
