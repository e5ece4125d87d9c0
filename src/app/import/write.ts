import { join } from 'node:path';
import { daysIn, openIntake, type Read } from '../../archive/publish/intake.ts';
import { openSpill, type Spill } from '../../archive/publish/spill.ts';
import type { MarketFacts } from '../../core/market.ts';
import { ranks } from '../../core/merge.ts';
import type { Rejected } from '../../core/tick.ts';
import type { Window } from '../../core/window.ts';
import { type RowSink, startHeap, type TickHeap } from '../../ingest/import-rows.ts';
import { judge } from '../../ingest/judge.ts';
import type { MarketsPoll } from '../../ingest/markets.ts';
import { appendSetAside, observeImported, type SetAside } from '../../state/imported-symbols.ts';
import { appendMarkets, appendTicks, inOrder, loadOf, type TickRecord } from '../../state/journal.ts';
import { appendBooks, type BookRecord, bookLoadOf } from '../../state/journal-books.ts';
import { journalLoad } from '../../state/journal-load.ts';
import type { Run } from '../run.ts';
import { keepPoll } from '../steps/poll-steps.ts';
import { publishStep } from '../steps/publish-step.ts';
import type { Threads } from '../threads.ts';

/** What was read of a page, or gathered of rows. */
export type ImportedTicks = Pick<TickRecord, 'symbol' | 'observedAt' | 'ticks' | 'rejected'> & {
  readonly covered: readonly Window[];
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
  /** Takes rows of one file; nothing is written before `settle` or `finishRows`. */
  readonly rows: RowSink;
  /** Writes what was taken where it is enough. `observedAt`: epoch ms, of the file that the rows are of. */
  settle(observedAt: number): Promise<void>;
  /** Writes all rows that were taken. */
  finishRows(observedAt: number): Promise<void>;
  page(page: ImportedTicks): Promise<void>;
  /** A page that somebody else has put aside. */
  read(read: Read, rejected: readonly Rejected[]): Promise<void>;
  /** An answer of the service as the collector journals it; so with `book` and `poll`. */
  answer(record: Omit<TickRecord, 'runId'>): Promise<void>;
  book(record: Omit<BookRecord, 'runId'>): Promise<void>;
  poll(poll: MarketsPoll): Promise<void>;
  markets(facts: readonly MarketFacts[], firstSeen: number, lastSeen: number): Promise<void>;
  /** Enters a window as covered for symbols. */
  cover(symbols: Iterable<string>, window: Window, fetchedAt: number): Promise<void>;
  /** Makes durable what is journaled. */
  finish(): Promise<void>;
  /** Publishes all that was taken. */
  publish(): Promise<void>;
  close(): void;
}

/** Rows gathered before they are sorted out by symbol. */
const heapTicksMax = 1 << 20;
/** Rows that may be taken between two calls of `settle`. */
const rowsAtOnceMax = 1 << 17;
/** Entries of an intake, of some hundred bytes each, that are held before it is published. */
const entriesMax = 1_000_000;
/** Records that share a transaction. */
const batchMax = 256;
const setAsideMax = 1000;
const marketsMax = 10_000;
/** What a market that is seen, or a row set aside, weighs against a tick in what publishing it takes. */
const ticksPerMarket = 20;
const ticksPerSetAside = 8;

const all: Window = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };

export interface WriterOptions {
  /** Whether imported prices win over polled ones. */
  readonly preferred: boolean;
  readonly futureMs: number;
  /** A folder for what is put aside. */
  readonly scratch: string;
  /** Ticks the journal may hold; infinite where what is taken has to be published together. */
  readonly journalTicksMax: number;
  readonly threads?: Threads | undefined;
}

export function openImportWriter(run: Run, options: WriterOptions): ImportWriter {
  const { archive, context, id: runId } = run;
  const { preferred, futureMs, scratch, journalTicksMax, threads } = options;
  const { state } = archive;
  const rank = preferred ? ranks.preferred : ranks.import;
  const symbols = new Set<string>();
  const rowSymbols = new Set<string>();
  let heap: TickHeap | undefined;
  let records: TickRecord[] = [];
  let books: BookRecord[] = [];
  let intake = openIntake(runId, rank, state.identity.parts);
  let spill: Spill | undefined;
  let setAside: SetAside[] = [];
  let ofRows: Omit<SetAside, 'at'>[] = [];
  let seen: { facts: readonly MarketFacts[]; firstSeen: number; lastSeen: number }[] = [];
  let ticks = 0;
  let load = journalLoad(state.db);
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
    intake = openIntake(runId, rank, state.identity.parts);
    failed = true;
    await publishStep(run, { intake: taken, threads });
    failed = false;
    load = journalLoad(state.db);
  }

  async function writeRecords(): Promise<void> {
    if (records.length === 0) return;
    const batch = records;
    records = [];
    appendTicks(state, batch);
    await weigh(batch.reduce((sum, record) => sum + loadOf(record), 0));
  }

  async function writeBooks(): Promise<void> {
    if (books.length === 0) return;
    const batch = books;
    books = [];
    appendBooks(state, batch);
    await weigh(batch.reduce((sum, record) => sum + bookLoadOf(record), 0));
  }

  async function writeSetAside(): Promise<void> {
    if (setAside.length === 0) return;
    const items = setAside;
    setAside = [];
    appendSetAside(state, runId, items);
    await weigh(ticksPerSetAside * items.length);
  }

  async function rejectRows(at: number, least: number): Promise<void> {
    if (ofRows.length < least) return;
    for (const item of ofRows) setAside.push({ at, ...item });
    ofRows = [];
    await writeSetAside();
  }

  async function take(read: Read, rejected: readonly Rejected[]): Promise<void> {
    context.signal.throwIfAborted();
    const { symbol, observedAt } = read;
    symbols.add(symbol);
    intake.add(read);
    for (const item of rejected) setAside.push({ symbol, at: observedAt, ...item });
    if (setAside.length >= setAsideMax) await writeSetAside();
    if (intake.entries >= entriesMax) await publish();
  }

  async function add({ symbol, observedAt, ticks, rejected, covered }: ImportedTicks): Promise<void> {
    const sorted = inOrder(ticks);
    spill ??= openSpill(join(scratch, 'ticks'));
    await take({ symbol, observedAt, ticks: spill.put(sorted), days: daysIn(sorted), covered }, rejected);
  }

  async function drain(observedAt: number): Promise<void> {
    for (const { symbol, t, p } of heap?.drain() ?? []) {
      rowSymbols.add(symbol);
      const judged = judge({ t, p, rejected: [] }, all, futureMs);
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
      for (const { facts, firstSeen, lastSeen } of batch) observeImported(state.db, facts, firstSeen, lastSeen);
    });
    await weigh(ticksPerMarket * batch.length);
  }

  return {
    get ticks() {
      return ticks;
    },
    symbols,
    rowSymbols,
    rows: {
      take(symbol, t, p) {
        heap ??= startHeap(heapTicksMax);
        heap.add(symbol, t, p);
        ticks++;
      },
      reject(symbol, rejected) {
        ofRows.push({ symbol, ...rejected });
        ticks++;
      },
    },
    async settle(observedAt) {
      context.signal.throwIfAborted();
      if (heap !== undefined && heap.length >= heapTicksMax - rowsAtOnceMax) await drain(observedAt);
      await rejectRows(observedAt, setAsideMax);
    },
    async finishRows(observedAt) {
      await drain(observedAt);
      await rejectRows(observedAt, 0);
    },
    async page(page) {
      ticks += page.ticks.t.length + page.rejected.length;
      await add(page);
    },
    async read(read, rejected) {
      ticks += read.ticks.ticks + rejected.length;
      await take(read, rejected);
    },
    async answer(record) {
      ticks += record.ticks.t.length + record.rejected.length;
      symbols.add(record.symbol);
      records.push({ ...record, runId });
      if (records.length >= batchMax) await writeRecords();
    },
    async book(record) {
      symbols.add(record.symbol);
      books.push({ ...record, runId });
      if (books.length >= batchMax) await writeBooks();
    },
    async poll(poll) {
      keepPoll(state, runId, poll);
      await weigh(ticksPerMarket * poll.markets.length);
    },
    async markets(facts, firstSeen, lastSeen) {
      seen.push({ facts, firstSeen, lastSeen });
      if (seen.length >= marketsMax) await writeMarkets();
    },
    async cover(covered, window, fetchedAt) {
      const none = { ticks: { t: new Float64Array(0), p: new Float64Array(0) }, rejected: [] };
      for (const symbol of covered) await add({ symbol, observedAt: fetchedAt, ...none, covered: [window] });
    },
    async finish() {
      await writeSetAside();
      await writeRecords();
      await writeBooks();
      await writeMarkets();
    },
    publish,
    close: () => spill?.close(),
  };
}
