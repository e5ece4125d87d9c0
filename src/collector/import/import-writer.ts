import { join } from 'node:path';
import type { MarketFacts } from '../../archive/format/market.ts';
import type { BookSide, OrderBookSnapshot } from '../../archive/format/order-book.ts';
import { precedenceRanks } from '../../archive/format/precedence.ts';
import type { QualifyName } from '../../archive/format/qualify-market.ts';
import type { SeriesDataset } from '../../archive/format/series-datasets.ts';
import {
  appendQuarantined,
  type QuarantinedInput,
  recordImportedMarkets,
} from '../../archive/journal/imported-symbols.ts';
import {
  appendMarkets,
  appendTicks,
  computeTickLoad,
  sortTicksByTime,
  type TickRecord,
  ticksPerRejected,
} from '../../archive/journal/journal.ts';
import { appendBooks, type BookRecord, computeBookLoad, readJournalLoad } from '../../archive/journal/journal-books.ts';
import { ensureSymbol } from '../../archive/journal/symbol-store.ts';
import {
  type ImportedCoverage,
  type ImportedSymbolTicks,
  openImportBuffer,
  splitTicksByDay,
} from '../../archive/publish/import-buffer.ts';
import { openSpillFile, type SpillFile } from '../../archive/publish/spill-file.ts';
import type { RejectedInput } from '../../base/ticks.ts';
import { timeMin } from '../../base/time.ts';
import type { Window } from '../../base/window.ts';
import { validateTicks } from '../paging/observation.ts';
import type { MarketsPoll } from '../paging/poll-markets.ts';
import type { Run } from '../run/run.ts';
import type { MergeThreads } from '../steps/merge-workers.ts';
import { journalMarketsPoll } from '../steps/poll-steps.ts';
import { publishJournal } from '../steps/publish-step.ts';
import type { RowSink } from './import-rows.ts';
import { createRejectBuffer, createRowCounter, type RowCounter } from './rejected-rows.ts';
import { createTickBuffer, rowsAtOnceMax, type TickBuffer } from './row-buffer.ts';
import { openScratchList, type ScratchList } from './scratch-list.ts';
import { openSeriesWriter, type SeriesWriter } from './series-writer.ts';

/** The ticks of one symbol's rows. */
type ImportedTicks = Pick<TickRecord, 'symbol' | 'observedAt' | 'ticks' | 'rejected'> & {
  readonly covered: readonly ImportedCoverage[];
};

/**
 * Writes imported data with bounded memory. Ticks of saved pages and rows go to a scratch file until they are
 * published, because their input can be read again. Raw responses, markets and rejected rows go to the journal, which
 * is published when it exceeds `publish.journal_ticks_max`.
 */
export interface ImportWriter {
  /** Ticks read so far, including rejected ones. */
  readonly ticks: number;
  readonly symbols: ReadonlySet<string>;
  /** The symbols that occur in rows. */
  readonly rowSymbols: ReadonlySet<string>;
  /** Accepts the rows of one file. Nothing is written before `flushWhenFull` or `flushRows`. */
  readonly rows: RowSink;
  /** Counts the rows of the current file. */
  readonly rowCounter: RowCounter;
  /** The series of rows, with their own counts. */
  readonly series: Readonly<Record<SeriesDataset, SeriesWriter>>;
  /**
   * From now on, writes all input to a scratch file and does not change the archive. Does not apply to responses, order
   * books and polls.
   */
  hold(): void;
  /** Writes what was held back, and stops holding. */
  release(): Promise<void>;
  /** Writes the buffered rows if there are enough. `observedAt`: modification time of their file, epoch ms. */
  flushWhenFull(observedAt: number): Promise<void>;
  /** Writes all buffered rows. */
  flushRows(observedAt: number): Promise<void>;
  /** Adds a page whose ticks are in a scratch file. */
  addPage(read: ImportedSymbolTicks, rejected: readonly RejectedInput[]): Promise<void>;
  /**
   * Journals a response as the collector does. `addBook` and `addMarketsPoll` do the same with order books and polls.
   */
  addResponse(record: Omit<TickRecord, 'runId'>): Promise<void>;
  addBook(record: Omit<BookRecord, 'runId'>): Promise<void>;
  addMarketsPoll(poll: MarketsPoll, source: string | null): Promise<void>;
  addMarkets(facts: readonly MarketFacts[], firstSeen: number, lastSeen: number): Promise<void>;
  /** Adds an order book from a row. `seenAt`: modification time of the file, epoch ms. */
  addSnapshot(symbol: string, snapshot: OrderBookSnapshot, seenAt: number): Promise<void>;
  /** Adds coverage that the user declared. */
  addDeclaredCoverage(symbols: Iterable<string>, window: Window, fetchedAt: number): Promise<void>;
  /** Makes buffered records durable in the journal. */
  flushJournal(): Promise<void>;
  /** Publishes everything added so far. */
  publish(): Promise<void>;
  close(): void;
}

interface ImportWriterOptions {
  /** Whether imported prices take precedence over polled ones. */
  readonly preferred: boolean;
  readonly futureMs: number;
  /** Qualifies the symbols of rows and pages, in an archive of several sources. Default: they stay as they are. */
  readonly qualify?: QualifyName | undefined;
  /** Folder for scratch files. */
  readonly scratch: string;
  /** Maximum number of ticks in the journal. Infinite if all input has to be published together. */
  readonly journalTicksMax: number;
  readonly threads?: MergeThreads | undefined;
}

/** Number of rows that are buffered before they are grouped by symbol. */
const bufferTicksMax = 1 << 20;
/** Number of entries in an import buffer that triggers a publish. Each takes a few hundred bytes. */
const entriesMax = 1_000_000;
/** Records per transaction. */
const batchRecordsMax = 256;
const rejectedMax = 1000;
const marketsMax = 10_000;
/** Load of publishing a market, in ticks. */
const ticksPerMarket = 20;

const keepName: QualifyName = (name) => name;

const allTime: Window = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };

export function openImportWriter(run: Run, options: ImportWriterOptions): ImportWriter {
  const { archive, context, id: runId } = run;
  const { preferred, futureMs, qualify = keepName, scratch, journalTicksMax, threads } = options;
  const { state } = archive;
  const rank = preferred ? precedenceRanks.preferred : precedenceRanks.import;
  const rowCounter = createRowCounter();
  let held: ScratchList<StagedItem> | undefined;
  const rejectBuffer = createRejectBuffer();
  const symbols = new Set<string>();
  const rowSymbols = new Set<string>();
  const bookSymbols = new Set<string>();
  let tickBuffer: TickBuffer | undefined;
  let buffer = openImportBuffer(runId, rank, state.identity.parts);
  let spillFile: SpillFile | undefined;
  let rejectedRows: Omit<QuarantinedInput, 'at'>[] = [];
  let pendingMarkets: ImportedMarkets[] = [];
  let ticks = 0;
  let load = readJournalLoad(state.db);
  let failed = false;

  async function addLoad(added: number): Promise<void> {
    context.signal.throwIfAborted();
    load += added;
    // After a failed publish, do not try again.
    if (load <= journalTicksMax || failed) return;
    await publish();
  }

  async function publish(): Promise<void> {
    const published = buffer;
    buffer = openImportBuffer(runId, rank, state.identity.parts);
    failed = true;
    await publishJournal(run, { intake: published, threads });
    failed = false;
    load = readJournalLoad(state.db);
  }

  /** Buffers records, and journals them in batches. */
  function openBatch<T>(append: (batch: readonly T[]) => void, computeLoad: (record: T) => number) {
    let pending: T[] = [];
    const write = async (): Promise<void> => {
      if (pending.length === 0) return;
      const batch = pending;
      pending = [];
      append(batch);
      await addLoad(batch.reduce((sum, record) => sum + computeLoad(record), 0));
    };
    const add = async (record: T): Promise<void> => {
      pending.push(record);
      if (pending.length >= batchRecordsMax) await write();
    };
    return { add, write };
  }

  const openSeries = (dataset: SeriesDataset): SeriesWriter =>
    openSeriesWriter(run, {
      dataset,
      qualify,
      scratch,
      addLoad,
      async accept(day, rows) {
        context.signal.throwIfAborted();
        buffer.series.add(dataset, day, rows);
        if (buffer.entries >= entriesMax) await publish();
      },
      async acceptCoverage(symbol, window) {
        buffer.series.addCoverage(dataset, symbol, window);
        if (buffer.entries >= entriesMax) await publish();
      },
    });
  const series = { quotes: openSeries('quotes'), trades: openSeries('trades') };
  const seriesWriters = Object.values(series);
  const records = openBatch<TickRecord>((batch) => appendTicks(state, batch), computeTickLoad);
  const books = openBatch<BookRecord>((batch) => appendBooks(state, batch), computeBookLoad);

  async function writeRejected(): Promise<void> {
    const batch = rejectBuffer.drain();
    if (batch.items.length + batch.dropped === 0) return;
    if (held !== undefined) return held.append({ kind: 'rejected', ...batch });
    await journalRejected(batch.items, batch.dropped);
  }

  async function journalRejected(items: readonly QuarantinedInput[], added: number): Promise<void> {
    appendQuarantined(state, runId, 'ticks', items, added);
    await addLoad(ticksPerRejected * items.length);
  }

  async function rejectRows(at: number, countMin: number): Promise<void> {
    if (rejectedRows.length < countMin) return;
    for (const { symbol, ...rejectedItem } of rejectedRows)
      rejectBuffer.add({ at, symbol: symbol === null ? null : qualify(symbol), ...rejectedItem });
    rejectedRows = [];
    await writeRejected();
  }

  async function take(read: ImportedSymbolTicks, rejected: readonly RejectedInput[]): Promise<void> {
    context.signal.throwIfAborted();
    const { symbol, observedAt } = read;
    symbols.add(symbol);
    for (const rejectedItem of rejected) rejectBuffer.add({ symbol, at: observedAt, ...rejectedItem });
    if (rejectBuffer.pendingCount >= rejectedMax) await writeRejected();
    if (held !== undefined) held.append({ kind: 'read', read });
    else await accept(read);
  }

  async function accept(read: ImportedSymbolTicks): Promise<void> {
    buffer.add(read);
    if (buffer.entries >= entriesMax) await publish();
  }

  async function acceptMarkets(markets: ImportedMarkets): Promise<void> {
    pendingMarkets.push(markets);
    if (pendingMarkets.length >= marketsMax) await writeMarkets();
  }

  /** An imported snapshot is as old as its time: a poll of the same moment was made later, and has precedence. */
  async function acceptBook({ symbol, seenAt, t, bids, asks }: ImportedBook): Promise<void> {
    if (!bookSymbols.has(symbol)) {
      ensureSymbol(state.db, symbol, seenAt);
      bookSymbols.add(symbol);
      run.bookCounts.planned++;
      run.bookCounts.done++;
    }
    run.bookCounts.snapshots++;
    if (bids[0].length + asks[0].length === 0) run.bookCounts.empty++;
    const snapshots = [{ t, bids: toSide(bids), asks: toSide(asks) }];
    await books.add({ runId, symbol, observedAt: t, snapshots, rejected: [], understood: false });
  }

  async function acceptHeld(item: StagedItem): Promise<void> {
    if (item.kind === 'read') await accept(item.read);
    else if (item.kind === 'markets') await acceptMarkets(item.markets);
    else if (item.kind === 'book') await acceptBook(item.book);
    else await journalRejected(item.items, item.dropped);
  }

  async function add({ symbol, observedAt, ticks, rejected, covered }: ImportedTicks): Promise<void> {
    const sorted = sortTicksByTime(ticks);
    spillFile ??= openSpillFile(join(scratch, 'ticks'));
    await take(
      { symbol, observedAt, ticks: spillFile.append(sorted), days: splitTicksByDay(sorted), covered },
      rejected,
    );
  }

  async function drain(observedAt: number, isEnd: boolean): Promise<void> {
    for (const { symbol: name, t, p } of tickBuffer?.drain(isEnd) ?? []) {
      const symbol = qualify(name);
      rowSymbols.add(symbol);
      const validated = validateTicks({ t, p, rejected: [] }, allTime, futureMs);
      rowCounter.accept(validated.ticks.t.length);
      for (const { reason, raw } of validated.rejected) rowCounter.reject(reason, raw);
      await add({ symbol, observedAt, ticks: validated.ticks, rejected: validated.rejected, covered: [] });
    }
  }

  async function writeMarkets(): Promise<void> {
    if (pendingMarkets.length === 0) return;
    const batch = pendingMarkets;
    pendingMarkets = [];
    const polls = new Map<number, MarketFacts[]>();
    for (const { facts, firstSeen, lastSeen } of batch) {
      for (const at of new Set([firstSeen, lastSeen])) {
        const list = polls.get(at);
        if (list === undefined) polls.set(at, [...facts]);
        else list.push(...facts);
      }
    }
    state.db.transaction(() => {
      for (const [observedAt, markets] of polls) appendMarkets(state, { runId, observedAt, markets }, []);
      for (const { facts, firstSeen, lastSeen } of batch) recordImportedMarkets(state.db, facts, firstSeen, lastSeen);
    });
    await addLoad(ticksPerMarket * batch.length);
  }

  return {
    get ticks() {
      return ticks;
    },
    symbols,
    rowSymbols,
    rowCounter,
    series,
    hold() {
      held = openScratchList(join(scratch, 'held'));
    },
    async release() {
      const heldList = held;
      if (heldList === undefined) return;
      await writeRejected();
      held = undefined;
      for await (const item of heldList.items()) await acceptHeld(item);
      heldList.close();
      for (const one of seriesWriters) await one.release();
    },
    rows: {
      accept(symbol, t, p) {
        if (rowCounter.isShowing && t >= timeMin && t <= futureMs) rowCounter.show({ symbol, t, p });
        rowCounter.addPrice(p);
        tickBuffer ??= createTickBuffer(bufferTicksMax);
        tickBuffer.add(symbol, t, p);
        ticks++;
      },
      reject(symbol, rejected) {
        rejectedRows.push({ symbol, ...rejected });
        rowCounter.reject(rejected.reason, rejected.raw);
        ticks++;
      },
    },
    async flushWhenFull(observedAt) {
      context.signal.throwIfAborted();
      if (tickBuffer !== undefined && tickBuffer.length >= bufferTicksMax - rowsAtOnceMax)
        await drain(observedAt, false);
      await rejectRows(observedAt, rejectedMax);
      for (const one of seriesWriters) one.flushWhenFull(observedAt);
    },
    async flushRows(observedAt) {
      await drain(observedAt, true);
      await rejectRows(observedAt, 0);
      rejectBuffer.nextFile();
      for (const one of seriesWriters) one.endFile(observedAt);
    },
    async addPage(read, rejected) {
      ticks += read.ticks.tickCount + rejected.length;
      rowCounter.accept(read.ticks.tickCount);
      for (const { reason, raw } of rejected) rowCounter.reject(reason, raw);
      await take({ ...read, symbol: qualify(read.symbol) }, rejected);
      rejectBuffer.nextFile();
    },
    async addResponse(record) {
      ticks += record.ticks.t.length + record.rejected.length;
      symbols.add(record.symbol);
      await records.add({ ...record, runId });
    },
    async addBook(record) {
      symbols.add(record.symbol);
      await books.add({ ...record, runId });
    },
    async addMarketsPoll(poll, source) {
      journalMarketsPoll(state, { id: runId, source }, poll, run.context.settings.drops.marketsShareMax);
      await addLoad(ticksPerMarket * poll.markets.length);
    },
    async addMarkets(facts, firstSeen, lastSeen) {
      const markets = { facts, firstSeen, lastSeen };
      if (held !== undefined) held.append({ kind: 'markets', markets });
      else await acceptMarkets(markets);
    },
    async addSnapshot(name, snapshot, seenAt) {
      const symbol = qualify(name);
      symbols.add(symbol);
      const { t, bids, asks } = snapshot;
      const book = { symbol, seenAt, t, bids: listSide(bids), asks: listSide(asks) };
      if (rowCounter.isShowing) {
        const bestOf = ({ prices }: BookSide): number | null => prices[0] ?? null;
        const levels = { bids: bids.prices.length, asks: asks.prices.length };
        rowCounter.show({ symbol, t, best_bid: bestOf(bids), best_ask: bestOf(asks), ...levels });
      }
      if (held !== undefined) held.append({ kind: 'book', book });
      else await acceptBook(book);
    },
    async addDeclaredCoverage(covered, window, fetchedAt) {
      const none = { ticks: { t: new Float64Array(0), p: new Float64Array(0) }, rejected: [] };
      for (const symbol of covered)
        await add({ symbol, observedAt: fetchedAt, ...none, covered: [{ window, evidence: 'declared' }] });
    },
    async flushJournal() {
      await writeRejected();
      await records.write();
      await books.write();
      await writeMarkets();
    },
    publish,
    close() {
      spillFile?.close();
      held?.close();
      for (const one of seriesWriters) one.close();
    },
  };
}

/** Data that an import has read but not yet written to the archive. */
type StagedItem =
  | { readonly kind: 'read'; readonly read: ImportedSymbolTicks }
  | { readonly kind: 'rejected'; readonly items: readonly QuarantinedInput[]; readonly dropped: number }
  | { readonly kind: 'markets'; readonly markets: ImportedMarkets }
  | { readonly kind: 'book'; readonly book: ImportedBook };

/** A snapshot as plain JSON; each side has its prices and its quantities, best first. */
interface ImportedBook {
  readonly symbol: string;
  readonly seenAt: number;
  readonly t: number;
  readonly bids: ImportedSide;
  readonly asks: ImportedSide;
}

type ImportedSide = readonly [prices: readonly number[], quantities: readonly number[]];

const listSide = ({ prices, quantities }: BookSide): ImportedSide => [[...prices], [...quantities]];

const toSide = ([prices, quantities]: ImportedSide): BookSide => ({
  prices: Float64Array.from(prices),
  quantities: Float64Array.from(quantities),
});

export interface ImportedMarkets {
  readonly facts: readonly MarketFacts[];
  readonly firstSeen: number;
  readonly lastSeen: number;
}
