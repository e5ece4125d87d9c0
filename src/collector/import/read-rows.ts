import { parseMarket } from '../../archive/format/parse-market.ts';
import { isLocalTime, openRowReader, type RowReader } from '../../archive/query/read-rows.ts';
import { UnreadableResponseError } from '../../client/json-response.ts';
import type { Run } from '../run/run.ts';
import { type ImportFile, readChunks, readLines, readWholeFile, UnreadableFileError } from './files.ts';
import { parseTypedColumns, readMarketRow } from './import-market.ts';
import { readSavedPage } from './import-page.ts';
import type { RawReplay } from './import-raw.ts';
import { type RawTickRows, readRows, truncateRaw } from './import-rows.ts';
import type { ImportWriter } from './import-writer.ts';
import {
  type CheckRules,
  checkRows,
  decompressParquet,
  formatErrorLine,
  lineBytesMax,
  parseJsonObject,
  type RowPlan,
  renameColumns,
} from './preflight.ts';

/** What reading one file after the other shares. */
export interface ImportContext {
  readonly run: Run;
  readonly rules: CheckRules;
  readonly writer: ImportWriter;
  /** A folder for what does not fit in memory. */
  readonly scratch: string;
  /** The latest time that is believed, epoch ms. */
  readonly futureMs: number;
  /** Opened at the first call. */
  reader(): Promise<RowReader>;
  readonly replay: RawReplay;
  /** Told of whole files, lines and records that were set aside and are no ticks. */
  onSetAside(what: 'page' | 'answer' | 'market record', reason: string, path: string): void;
  onProgress(): void;
}

/** Takes in one file, to its end or until it cannot be read any further: what came before is taken in. */
export async function importFile(reading: ImportContext, file: ImportFile, plan: RowPlan | undefined): Promise<void> {
  if (file.format === 'pages') return await importSavedPage(reading, file);
  if (file.format === 'raw') return await reading.replay.take(file);
  const rows = plan ?? (await checkCompressedParquet(reading, file));
  if (file.format === 'csv') await checkCsvLines(reading, file);
  try {
    if (rows.dataset === 'markets') await importMarketRows(reading, file, rows);
    else await importTickRows(reading, file, rows);
  } finally {
    if (!reading.run.context.signal.aborted) await reading.writer.flushRows(file.writtenAt);
  }
}

/** Unpacks a compressed Parquet file and looks at it. */
export async function checkCompressedParquet(reading: ImportContext, file: ImportFile): Promise<RowPlan> {
  const { signal } = reading.run.context;
  const unpacked = await decompressParquet(file, reading.scratch, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    throw new UnreadableFileError(`it cannot be unpacked: ${formatErrorLine(error)}`);
  });
  const plan = await checkRows(file, await reading.reader(), reading.rules, unpacked);
  if ('fault' in plan) throw new UnreadableFileError(plan.fault);
  return plan;
}

/** Errors of what is read are the file's; those of what is done with it are not. */
async function* wrapReadErrors<T>(items: AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
  try {
    yield* items;
  } catch (error) {
    throw new UnreadableFileError(`it cannot be read to its end: ${formatErrorLine(error)}`, { cause: error });
  }
}

/** DuckDB's own bound: a longer line that ends in another of its buffers it drops without a word. */
const csvLineBytesMax = 2_000_000;

/**
 * Looks for what DuckDB passes over in silence: a packed CSV that was cut off, which it takes for a shorter one, and the
 * half of its last price for a price; and endless lines.
 */
async function checkCsvLines({ run }: ImportContext, file: ImportFile): Promise<void> {
  let length = 0;
  for await (const piece of wrapReadErrors(readChunks(file))) {
    run.context.signal.throwIfAborted();
    const ends = [piece.indexOf(10), piece.indexOf(13)].filter((at) => at >= 0);
    length += ends.length === 0 ? piece.length : Math.min(...ends);
    if (length > csvLineBytesMax) throw new UnreadableFileError(`it has a line longer than ${csvLineBytesMax} bytes`);
    if (ends.length > 0) length = piece.length - 1 - Math.max(piece.lastIndexOf(10), piece.lastIndexOf(13));
  }
}

async function importSavedPage(
  { run, rules, writer, futureMs, onSetAside }: ImportContext,
  file: ImportFile,
): Promise<void> {
  const { upstream } = run.context.settings;
  let page: ReturnType<typeof readSavedPage>;
  try {
    const bytes = await readWholeFile(file, upstream.responseBytesMax);
    page = readSavedPage(bytes, rules.dataset, { writtenAt: file.writtenAt, futureMs });
  } catch (error) {
    if (error instanceof UnreadableResponseError) throw new UnreadableFileError(`it holds ${error.message}`);
    throw new UnreadableFileError(`it cannot be read: ${formatErrorLine(error)}`, { cause: error });
  }
  run.pages++;
  if (page.kind === 'ticks') {
    const { symbol, observedAt, judged, covered } = page;
    return await writer.addPage({ symbol, observedAt, ticks: judged.ticks, rejected: judged.rejected, covered });
  }
  if (page.kind === 'quarantined') {
    writer.rows.reject(null, page.rejected);
    onSetAside('page', page.rejected.reason, file.path);
    return await writer.flushRows(file.writtenAt);
  }
  for (const record of page.records) {
    const facts = parseMarket(record, page.view === null ? [] : [page.view], rules.paths);
    if ('reason' in facts) onSetAside('market record', facts.reason, file.path);
    else await writer.addMarkets(facts, page.observedAt, page.observedAt);
  }
}

async function importTickRows(reading: ImportContext, file: ImportFile, { rows }: RowPlan): Promise<void> {
  const { writer, rules } = reading;
  const take = async (raw: RawTickRows): Promise<void> => {
    readRows(raw, rules.rows, writer.rows);
    await writer.flushWhenFull(file.writtenAt);
    reading.onProgress();
  };
  if (rows === null) {
    const ownT = rules.renames.find(([name]) => name === 't')?.[1] ?? 't';
    const exact = rules.rows.unit === 'ms' ? undefined : ownT;
    for await (const lines of wrapReadErrors(readLines(file, lineBytesMax))) {
      const found: { row: Record<string, unknown>; text: string }[] = [];
      for (const { text, fault } of lines) {
        const own = fault === null ? parseJsonObject(text, exact) : null;
        const row = own === null ? null : renameColumns(own, rules.renames);
        if (row === null)
          writer.rows.reject(null, { reason: fault ?? 'the line is no JSON object', raw: truncateRaw(text) });
        else found.push({ row, text });
      }
      const column = (name: string): unknown[] => found.map(({ row }) => (Object.hasOwn(row, name) ? row[name] : null));
      const columns = { symbol: column('symbol'), t: column('t'), p: column('p') };
      await take({ ...columns, isLocalTime: false, hasTextPrices: false, formatRaw: (i) => found[i]!.text });
    }
    return;
  }
  const reader = await reading.reader();
  const { type } = rows.columns.find(({ name }) => name === 't')!;
  const how = { isLocalTime: isLocalTime(type), hasTextPrices: true };
  for await (const columns of wrapReadErrors(reader.readTicks(rows.file, rows.columns, rules.rows.unit)))
    await take({ ...columns, ...how });
  let unclosed = false;
  for await (const { reason, text } of reader.readBadLines()) {
    unclosed ||= isUnclosedQuote(reason);
    writer.rows.reject(null, { reason: `the line cannot be read: ${reason}`, raw: truncateRaw(text) });
    await writer.flushWhenFull(file.writtenAt);
  }
  if (unclosed) throw new UnreadableFileError(unclosedQuoteFault);
}

/** What follows such a quote is one line to DuckDB, be it a million. */
const isUnclosedQuote = (reason: string): boolean => reason.includes('unterminated quote');
const unclosedQuoteFault = 'a quote in it is never closed, and not all that follows it could be read';

async function importMarketRows(reading: ImportContext, file: ImportFile, { rows }: RowPlan): Promise<void> {
  const { writer, rules, futureMs, onSetAside } = reading;
  const {
    paths,
    rows: { zone, truncates },
  } = rules;
  const local = (rows?.columns ?? []).filter(({ type }) => isLocalTime(type)).map(({ name }) => name);
  const how = { paths, zone, truncates, localColumns: new Set(local), writtenAt: file.writtenAt, futureMs };
  const take = async (row: Record<string, unknown>): Promise<void> => {
    const seen = readMarketRow(row, how);
    if ('reason' in seen) setAside(seen.reason, row);
    else {
      writer.rowCounter.accept();
      await writer.addMarkets(seen.facts, seen.firstSeen, seen.lastSeen);
    }
  };
  const setAside = (reason: string, raw: unknown): void => {
    writer.rowCounter.reject(reason, typeof raw === 'string' ? truncateRaw(raw) : truncateRaw(JSON.stringify(raw)));
    onSetAside('market record', reason, file.path);
  };
  if (rows === null) {
    for await (const lines of wrapReadErrors(readLines(file, lineBytesMax))) {
      for (const { text, fault } of lines) {
        const row = fault === null ? parseJsonObject(text) : null;
        if (row === null) setAside(fault ?? 'the line is no JSON object', text);
        else await take(renameColumns(row, rules.renames));
      }
    }
    return;
  }
  const reader = await reading.reader();
  for await (const records of wrapReadErrors(reader.readRecords(rows.file)))
    for (const record of records) await take(rows.file.format === 'csv' ? parseTypedColumns(record, paths) : record);
  let unclosed = false;
  for await (const { reason, text } of reader.readBadLines()) {
    unclosed ||= isUnclosedQuote(reason);
    setAside(reason, text);
  }
  if (unclosed) throw new UnreadableFileError(unclosedQuoteFault);
}

/** A reader that is opened when it is first asked for. */
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
