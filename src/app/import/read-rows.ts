import { readMarket } from '../../core/parse-market.ts';
import { readMarketRow, typedOf } from '../../ingest/import-market.ts';
import { readSavedPage } from '../../ingest/import-page.ts';
import { cutRaw, type RawRows, readRows } from '../../ingest/import-rows.ts';
import { isLocalTime, openRowReader, type RowReader } from '../../query/read-rows.ts';
import { UnreadableAnswer } from '../../upstream/json-response.ts';
import type { Run } from '../run.ts';
import type { ImportFile } from './files.ts';
import type { Replay } from './import-raw.ts';
import type { ImportWriter } from './import-writer.ts';
import { linesOf, piecesOf, wholeOf } from './open-input.ts';
import {
  type CheckRules,
  checkRows,
  lineBytesMax,
  objectIn,
  type RowPlan,
  renamed,
  told,
  unpackParquet,
} from './preflight.ts';
import { UnreadableFile } from './unreadable-file.ts';

/** What reading one file after the other shares. */
export interface Reading {
  readonly run: Run;
  readonly rules: CheckRules;
  readonly writer: ImportWriter;
  /** A folder for what does not fit in memory. */
  readonly scratch: string;
  /** The latest time that is believed, epoch ms. */
  readonly futureMs: number;
  /** Opened at the first call. */
  reader(): Promise<RowReader>;
  readonly replay: Replay;
  /** Told of whole files, lines and records that were set aside and are no ticks. */
  onSetAside(what: 'page' | 'answer' | 'market record', reason: string, path: string): void;
  onProgress(): void;
}

/** Takes in one file, to its end or until it cannot be read any further: what came before is taken in. */
export async function readFileIn(reading: Reading, file: ImportFile, plan: RowPlan | undefined): Promise<void> {
  if (file.format === 'pages') return await readPage(reading, file);
  if (file.format === 'raw') return await reading.replay.take(file);
  const rows = plan ?? (await planOfPacked(reading, file));
  if (file.format === 'csv') await readInVain(reading, file);
  try {
    if (rows.dataset === 'markets') await readMarkets(reading, file, rows);
    else await readTicks(reading, file, rows);
  } finally {
    if (!reading.run.context.signal.aborted) await reading.writer.finishRows(file.writtenAt);
  }
}

/** Unpacks a compressed Parquet file and looks at it. */
export async function planOfPacked(reading: Reading, file: ImportFile): Promise<RowPlan> {
  const { signal } = reading.run.context;
  const unpacked = await unpackParquet(file, reading.scratch, signal).catch((error: unknown) => {
    signal.throwIfAborted();
    throw new UnreadableFile(`it cannot be unpacked: ${told(error)}`);
  });
  const plan = await checkRows(file, await reading.reader(), reading.rules, unpacked);
  if ('fault' in plan) throw new UnreadableFile(plan.fault);
  return plan;
}

/** Errors of what is read are the file's; those of what is done with it are not. */
async function* fromFile<T>(items: AsyncIterable<T>): AsyncGenerator<T, void, undefined> {
  try {
    yield* items;
  } catch (error) {
    throw new UnreadableFile(`it cannot be read to its end: ${told(error)}`, { cause: error });
  }
}

/** DuckDB's own bound: a longer line that ends in another of its buffers it drops without a word. */
const csvLineBytesMax = 2_000_000;

/**
 * Looks for what DuckDB passes over in silence: a packed CSV that was cut off, which it takes for a shorter one, and the
 * half of its last price for a price; and endless lines.
 */
async function readInVain({ run }: Reading, file: ImportFile): Promise<void> {
  let length = 0;
  for await (const piece of fromFile(piecesOf(file))) {
    run.context.signal.throwIfAborted();
    const ends = [piece.indexOf(10), piece.indexOf(13)].filter((at) => at >= 0);
    length += ends.length === 0 ? piece.length : Math.min(...ends);
    if (length > csvLineBytesMax) throw new UnreadableFile(`it has a line longer than ${csvLineBytesMax} bytes`);
    if (ends.length > 0) length = piece.length - 1 - Math.max(piece.lastIndexOf(10), piece.lastIndexOf(13));
  }
}

async function readPage({ run, rules, writer, futureMs, onSetAside }: Reading, file: ImportFile): Promise<void> {
  const { upstream } = run.context.settings;
  let page: ReturnType<typeof readSavedPage>;
  try {
    const bytes = await wholeOf(file, upstream.responseBytesMax);
    page = readSavedPage(bytes, rules.dataset, { writtenAt: file.writtenAt, futureMs });
  } catch (error) {
    if (error instanceof UnreadableAnswer) throw new UnreadableFile(`it holds ${error.message}`);
    throw new UnreadableFile(`it cannot be read: ${told(error)}`, { cause: error });
  }
  run.pages++;
  if (page.kind === 'ticks') {
    const { symbol, observedAt, judged, covered } = page;
    return await writer.page({ symbol, observedAt, ticks: judged.ticks, rejected: judged.rejected, covered });
  }
  if (page.kind === 'set aside') {
    writer.rows.reject(null, page.rejected);
    onSetAside('page', page.rejected.reason, file.path);
    return await writer.finishRows(file.writtenAt);
  }
  for (const record of page.records) {
    const facts = readMarket(record, page.view === null ? [] : [page.view], rules.paths);
    if ('reason' in facts) onSetAside('market record', facts.reason, file.path);
    else await writer.markets(facts, page.observedAt, page.observedAt);
  }
}

async function readTicks(reading: Reading, file: ImportFile, { rows }: RowPlan): Promise<void> {
  const { writer, rules } = reading;
  const take = async (raw: RawRows): Promise<void> => {
    readRows(raw, rules.rows, writer.rows);
    await writer.settle(file.writtenAt);
    reading.onProgress();
  };
  if (rows === null) {
    const ownT = rules.renames.find(([name]) => name === 't')?.[1] ?? 't';
    const exact = rules.rows.unit === 'ms' ? undefined : ownT;
    for await (const lines of fromFile(linesOf(file, lineBytesMax))) {
      const found: { row: Record<string, unknown>; text: string }[] = [];
      for (const { text, flaw } of lines) {
        const own = flaw === null ? objectIn(text, exact) : null;
        const row = own === null ? null : renamed(own, rules.renames);
        if (row === null) writer.rows.reject(null, { reason: flaw ?? 'the line is no JSON object', raw: cutRaw(text) });
        else found.push({ row, text });
      }
      const column = (name: string): unknown[] => found.map(({ row }) => (Object.hasOwn(row, name) ? row[name] : null));
      const columns = { symbol: column('symbol'), t: column('t'), p: column('p') };
      await take({ ...columns, local: false, textPrices: false, rawOf: (i) => found[i]!.text });
    }
    return;
  }
  const reader = await reading.reader();
  const { type } = rows.columns.find(({ name }) => name === 't')!;
  const how = { local: isLocalTime(type), textPrices: true };
  for await (const columns of fromFile(reader.ticks(rows.file, rows.columns, rules.rows.unit)))
    await take({ ...columns, ...how });
  let unclosed = false;
  for await (const { reason, text } of reader.badLines()) {
    unclosed ||= isUnclosed(reason);
    writer.rows.reject(null, { reason: `the line cannot be read: ${reason}`, raw: cutRaw(text) });
    await writer.settle(file.writtenAt);
  }
  if (unclosed) throw new UnreadableFile(unclosedQuote);
}

/** What follows such a quote is one line to DuckDB, be it a million. */
const isUnclosed = (reason: string): boolean => reason.includes('unterminated quote');
const unclosedQuote = 'a quote in it is never closed, and not all that follows it could be read';

async function readMarkets(reading: Reading, file: ImportFile, { rows }: RowPlan): Promise<void> {
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
      writer.counted.take();
      await writer.markets(seen.facts, seen.firstSeen, seen.lastSeen);
    }
  };
  const setAside = (reason: string, raw: unknown): void => {
    writer.counted.reject(reason, typeof raw === 'string' ? cutRaw(raw) : cutRaw(JSON.stringify(raw)));
    onSetAside('market record', reason, file.path);
  };
  if (rows === null) {
    for await (const lines of fromFile(linesOf(file, lineBytesMax))) {
      for (const { text, flaw } of lines) {
        const row = flaw === null ? objectIn(text) : null;
        if (row === null) setAside(flaw ?? 'the line is no JSON object', text);
        else await take(renamed(row, rules.renames));
      }
    }
    return;
  }
  const reader = await reading.reader();
  for await (const records of fromFile(reader.records(rows.file)))
    for (const record of records) await take(rows.file.format === 'csv' ? typedOf(record, paths) : record);
  let unclosed = false;
  for await (const { reason, text } of reader.badLines()) {
    unclosed ||= isUnclosed(reason);
    setAside(reason, text);
  }
  if (unclosed) throw new UnreadableFile(unclosedQuote);
}

/** A reader that is opened when it is first asked for. */
export function lazyReader(scratch: string): { reader(): Promise<RowReader>; close(): Promise<void> } {
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
