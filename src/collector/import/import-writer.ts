import { join } from 'node:path';
import type { MarketFacts } from '../../archive/format/market.ts';
import { precedenceRanks } from '../../archive/format/precedence.ts';
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
} from '../../archive/journal/journal.ts';
import { appendBooks, type BookRecord, computeBookLoad, readJournalLoad } from '../../archive/journal/journal-books.ts';
import {
  type ImportedCoverage,
  type ImportedSymbolTicks,
  openImportBuffer,
  splitTicksByDay,
} from '../../archive/publish/import-buffer.ts';
import { openSpillFile, type SpillFile } from '../../archive/publish/spill-file.ts';
import type { RejectedInput } from '../../base/ticks.ts';
import type { Window } from '../../base/window.ts';
import { validateTicks } from '../paging/observation.ts';
import type { MarketsPoll } from '../paging/poll-markets.ts';
import type { Run } from '../run/run.ts';
import type { JobWorkers } from '../run/worker-pool.ts';
import { journalMarketsPoll } from '../steps/poll-steps.ts';
import { publishJournal } from '../steps/publish-step.ts';
import { createTickBuffer, type RowSink, type TickBuffer } from './import-rows.ts';
import { createRejectBuffer, createRowCounter, type RowCounter } from './rejected-rows.ts';
import { type ImportedMarkets, openScratchList, type ScratchList, type StagedItem } from './scratch-list.ts';

/** What was read of a page, or gathered of rows. */
export type ImportedTicks = Pick<TickRecord, 'symbol' | 'observedAt' | 'ticks' | 'rejected'> & {
  readonly covered: readonly ImportedCoverage[];
};

/**
 * Takes what files hold, bounded in memory. Ticks of saved pages and of rows are put aside in a scratch file until they
 * are published: their files can be read again. Answers as they came, markets and what is set aside are journaled, and
 * published when the journal weighs more than `publish.journal_ticks_max`.
 */
export interface ImportWriter {
  /** Ticks taken so far, usable or not. */
  readonly ticks: number;
  readonly symbols: ReadonlySet<string>;
  /** Those of rows. */
  readonly rowSymbols: ReadonlySet<string>;
  /** Takes rows of one file; nothing is written before `settle` or `flushRows`. */
  readonly rows: RowSink;
  /** Counts the rows of the file that is read. */
  readonly rowCounter: RowCounter;
  /**
   * From now on what is taken is held back in a scratch file, and nothing of the archive is touched. Not for answers, books
   * and polls.
   */
  hold(): void;
  /** Takes what was held back, and holds no more. */
  release(): Promise<void>;
  /** Writes what was taken where it is enough. `observedAt`: epoch ms, of the file that the rows are of. */
  flushWhenFull(observedAt: number): Promise<void>;
  /** Writes all rows that were taken. */
  flushRows(observedAt: number): Promise<void>;
  addPage(page: ImportedTicks): Promise<void>;
  /** A page that somebody else has put aside. */
  addReadPage(read: ImportedSymbolTicks, rejected: readonly RejectedInput[]): Promise<void>;
  /** An answer of the service as the collector journals it; so with `book` and `poll`. */
  addResponse(record: Omit<TickRecord, 'runId'>): Promise<void>;
  addBook(record: Omit<BookRecord, 'runId'>): Promise<void>;
  addMarketsPoll(poll: MarketsPoll): Promise<void>;
  addMarkets(facts: readonly MarketFacts[], firstSeen: number, lastSeen: number): Promise<void>;
  /** Enters a window as covered for symbols, since a person declared it so. */
  addDeclaredCoverage(symbols: Iterable<string>, window: Window, fetchedAt: number): Promise<void>;
  /** Makes durable what is journaled. */
  flushJournal(): Promise<void>;
  /** Publishes all that was taken. */
  publish(): Promise<void>;
  close(): void;
}

export interface ImportWriterOptions {
  /** Whether imported prices win over polled ones. */
  readonly preferred: boolean;
  readonly futureMs: number;
  /** A folder for what is put aside. */
  readonly scratch: string;
  /** Ticks the journal may hold; infinite where what is taken has to be published together. */
  readonly journalTicksMax: number;
  readonly threads?: JobWorkers | undefined;
}

/** Rows gathered before they are sorted out by symbol. */
const heapTicksMax = 1 << 20;
/** Rows that may be taken between two calls of `settle`. */
const rowsAtOnceMax = 1 << 17;
/** Entries of an intake, of some hundred bytes each, that are held before it is published. */
const entriesMax = 1_000_000;
/** Records that share a transaction. */
const batchRecordsMax = 256;
const setAsideMax = 1000;
const marketsMax = 10_000;
/** What a market that is seen, or a row set aside, weighs against a tick in what publishing it takes. */
const ticksPerMarket = 20;
const ticksPerSetAside = 8;

const allTime: Window = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };

export function openImportWriter(run: Run, options: ImportWriterOptions): ImportWriter {
  const { archive, context, id: runId } = run;
  const { preferred, futureMs, scratch, journalTicksMax, threads } = options;
  const { state } = archive;
  const rank = preferred ? precedenceRanks.preferred : precedenceRanks.import;
  const { fileBytesMax } = context.settings.quarantine;
  const counted = createRowCounter();
  let held: ScratchList<StagedItem> | undefined;
  const rejects = createRejectBuffer(fileBytesMax);
  const symbols = new Set<string>();
  const rowSymbols = new Set<string>();
  let heap: TickBuffer | undefined;
  let records: TickRecord[] = [];
  let books: BookRecord[] = [];
  let intake = openImportBuffer(runId, rank, state.identity.parts);
  let spill: SpillFile | undefined;
  let ofRows: Omit<QuarantinedInput, 'at'>[] = [];
  let seen: ImportedMarkets[] = [];
  let ticks = 0;
  let load = readJournalLoad(state.db);
  let failed = false;

  async function weigh(more: number): Promise<void> {
    context.signal.throwIfAborted();
    load += more;
    // Who could not publish would only wait again.
    if (load <= journalTicksMax || failed) return;
    await publish();
  }

  async function publish(): Promise<void> {
    const taken = intake;
    intake = openImportBuffer(runId, rank, state.identity.parts);
    failed = true;
    await publishJournal(run, { intake: taken, threads });
    failed = false;
    load = readJournalLoad(state.db);
  }

  async function writeRecords(): Promise<void> {
    if (records.length === 0) return;
    const batch = records;
    records = [];
    appendTicks(state, batch);
    await weigh(batch.reduce((sum, record) => sum + computeTickLoad(record), 0));
  }

  async function writeBooks(): Promise<void> {
    if (books.length === 0) return;
    const batch = books;
    books = [];
    appendBooks(state, batch);
    await weigh(batch.reduce((sum, record) => sum + computeBookLoad(record), 0));
  }

  async function writeSetAside(): Promise<void> {
    const batch = rejects.drain();
    if (batch.items.length + batch.dropped === 0) return;
    if (held !== undefined) return held.append({ kind: 'quarantined', ...batch });
    await journalSetAside(batch.items, batch.dropped);
  }

  async function journalSetAside(items: readonly QuarantinedInput[], more: number): Promise<void> {
    appendQuarantined(state, runId, items, more);
    await weigh(ticksPerSetAside * items.length);
  }

  async function rejectRows(at: number, least: number): Promise<void> {
    if (ofRows.length < least) return;
    for (const item of ofRows) rejects.add({ at, ...item });
    ofRows = [];
    await writeSetAside();
  }

  async function take(read: ImportedSymbolTicks, rejected: readonly RejectedInput[]): Promise<void> {
    context.signal.throwIfAborted();
    const { symbol, observedAt } = read;
    symbols.add(symbol);
    for (const item of rejected) rejects.add({ symbol, at: observedAt, ...item });
    if (rejects.pendingCount >= setAsideMax) await writeSetAside();
    if (held !== undefined) held.append({ kind: 'read', read });
    else await accept(read);
  }

  async function accept(read: ImportedSymbolTicks): Promise<void> {
    intake.add(read);
    if (intake.entries >= entriesMax) await publish();
  }

  async function acceptMarkets(markets: ImportedMarkets): Promise<void> {
    seen.push(markets);
    if (seen.length >= marketsMax) await writeMarkets();
  }

  async function acceptHeld(item: StagedItem): Promise<void> {
    if (item.kind === 'read') await accept(item.read);
    else if (item.kind === 'markets') await acceptMarkets(item.markets);
    else await journalSetAside(item.items, item.dropped);
  }

  async function add({ symbol, observedAt, ticks, rejected, covered }: ImportedTicks): Promise<void> {
    const sorted = sortTicksByTime(ticks);
    spill ??= openSpillFile(join(scratch, 'ticks'));
    await take({ symbol, observedAt, ticks: spill.append(sorted), days: splitTicksByDay(sorted), covered }, rejected);
  }

  async function drain(observedAt: number): Promise<void> {
    for (const { symbol, t, p } of heap?.drain() ?? []) {
      rowSymbols.add(symbol);
      const judged = validateTicks({ t, p, rejected: [] }, allTime, futureMs);
      counted.accept(judged.ticks.t.length);
      for (const { reason, raw } of judged.rejected) counted.reject(reason, raw);
      await add({ symbol, observedAt, ticks: judged.ticks, rejected: judged.rejected, covered: [] });
    }
  }

  async function writeMarkets(): Promise<void> {
    if (seen.length === 0) return;
    const batch = seen;
    seen = [];
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
    await weigh(ticksPerMarket * batch.length);
  }

  return {
    get ticks() {
      return ticks;
    },
    symbols,
    rowSymbols,
    rowCounter: counted,
    hold() {
      held = openScratchList(join(scratch, 'held'));
    },
    async release() {
      const waiting = held;
      if (waiting === undefined) return;
      await writeSetAside();
      held = undefined;
      for (const item of waiting.items()) await acceptHeld(item);
      waiting.close();
    },
    rows: {
      accept(symbol, t, p) {
        heap ??= createTickBuffer(heapTicksMax);
        heap.add(symbol, t, p);
        ticks++;
      },
      reject(symbol, rejected) {
        ofRows.push({ symbol, ...rejected });
        counted.reject(rejected.reason, rejected.raw);
        ticks++;
      },
    },
    async flushWhenFull(observedAt) {
      context.signal.throwIfAborted();
      if (heap !== undefined && heap.length >= heapTicksMax - rowsAtOnceMax) await drain(observedAt);
      await rejectRows(observedAt, setAsideMax);
    },
    async flushRows(observedAt) {
      await drain(observedAt);
      await rejectRows(observedAt, 0);
      rejects.nextFile();
    },
    async addPage(page) {
      ticks += page.ticks.t.length + page.rejected.length;
      counted.accept(page.ticks.t.length);
      for (const { reason, raw } of page.rejected) counted.reject(reason, raw);
      await add(page);
      rejects.nextFile();
    },
    async addReadPage(read, rejected) {
      ticks += read.ticks.tickCount + rejected.length;
      await take(read, rejected);
      rejects.nextFile();
    },
    async addResponse(record) {
      ticks += record.ticks.t.length + record.rejected.length;
      symbols.add(record.symbol);
      records.push({ ...record, runId });
      if (records.length >= batchRecordsMax) await writeRecords();
    },
    async addBook(record) {
      symbols.add(record.symbol);
      books.push({ ...record, runId });
      if (books.length >= batchRecordsMax) await writeBooks();
    },
    async addMarketsPoll(poll) {
      journalMarketsPoll(state, runId, poll, run.context.settings.drops.marketsShareMax);
      await weigh(ticksPerMarket * poll.markets.length);
    },
    async addMarkets(facts, firstSeen, lastSeen) {
      const markets = { facts, firstSeen, lastSeen };
      if (held !== undefined) held.append({ kind: 'markets', markets });
      else await acceptMarkets(markets);
    },
    async addDeclaredCoverage(covered, window, fetchedAt) {
      const none = { ticks: { t: new Float64Array(0), p: new Float64Array(0) }, rejected: [] };
      for (const symbol of covered)
        await add({ symbol, observedAt: fetchedAt, ...none, covered: [{ window, evidence: 'declared' }] });
    },
    async flushJournal() {
      await writeSetAside();
      await writeRecords();
      await writeBooks();
      await writeMarkets();
    },
    publish,
    close() {
      spill?.close();
      held?.close();
    },
  };
}
