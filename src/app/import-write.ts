import type { MarketFacts } from '../core/market.ts';
import { ranks } from '../core/merge.ts';
import type { Rejected } from '../core/tick.ts';
import type { Window } from '../core/window.ts';
import { type RowSink, startHeap, type TickHeap } from '../ingest/import-rows.ts';
import { judge } from '../ingest/judge.ts';
import type { MarketsPoll } from '../ingest/markets.ts';
import { appendSetAside, observeImported } from '../state/imported-symbols.ts';
import { appendMarkets, appendTicks, loadOf, type TickRecord } from '../state/journal.ts';
import { appendBooks, type BookRecord, bookLoadOf } from '../state/journal-books.ts';
import { journalLoad } from '../state/journal-load.ts';
import type { Run } from './run.ts';
import { keepPoll, publishStep } from './steps.ts';

/** What was read of a page, or gathered of rows. */
export type ImportedTicks = Pick<TickRecord, 'symbol' | 'observedAt' | 'ticks' | 'rejected'> & {
  readonly covered: readonly Window[];
};

/**
 * Takes what files hold into the journal, bounded in memory and journal: what is gathered is written when there is
 * enough of it, and published when the journal weighs more than `publish.journal_ticks_max`.
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
  /** An answer of the service as the collector journals it; so with `book` and `poll`. */
  answer(record: Omit<TickRecord, 'runId'>): Promise<void>;
  book(record: Omit<BookRecord, 'runId'>): Promise<void>;
  poll(poll: MarketsPoll): Promise<void>;
  markets(facts: readonly MarketFacts[], firstSeen: number, lastSeen: number): Promise<void>;
  /** Enters a window as covered for symbols. */
  cover(symbols: Iterable<string>, window: Window, fetchedAt: number): Promise<void>;
  /** Makes everything durable. */
  finish(): Promise<void>;
}

/** Rows gathered before they are sorted out by symbol. */
const heapTicksMax = 1 << 20;
/** Rows that may be taken between two calls of `settle`. */
const rowsAtOnceMax = 1 << 17;
/** Records that share a transaction. */
const batchMax = 256;
const setAsideMax = 1000;
const marketsMax = 10_000;
/** What a market that is seen, or a row set aside, weighs against a tick in what publishing it takes. */
const ticksPerMarket = 20;
const ticksPerSetAside = 8;

const all: Window = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };

/** @param journalTicksMax ticks the journal may hold; infinite where what is taken has to be published together */
export function openImportWriter(
  run: Run,
  preferred: boolean,
  futureMs: number,
  journalTicksMax = run.context.settings.publish.journalTicksMax,
): ImportWriter {
  const { archive, context, id: runId } = run;
  const { state } = archive;
  const rank = preferred ? ranks.preferred : ranks.import;
  const symbols = new Set<string>();
  const rowSymbols = new Set<string>();
  let heap: TickHeap | undefined;
  let records: TickRecord[] = [];
  let books: BookRecord[] = [];
  let setAside: (Rejected & { symbol: string | null })[] = [];
  let seen: { facts: readonly MarketFacts[]; firstSeen: number; lastSeen: number }[] = [];
  let ticks = 0;
  let load = journalLoad(state.db);

  async function weigh(more: number): Promise<void> {
    context.signal.throwIfAborted();
    load += more;
    if (load <= journalTicksMax) return;
    await publishStep(run);
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

  async function writeSetAside(observedAt: number): Promise<void> {
    if (setAside.length === 0) return;
    const items = setAside;
    setAside = [];
    appendSetAside(state, runId, observedAt, items);
    await weigh(ticksPerSetAside * items.length);
  }

  async function add({ covered, ...page }: ImportedTicks): Promise<void> {
    symbols.add(page.symbol);
    const asked = covered.at(0) ?? { from: page.observedAt, to: page.observedAt };
    const answers = covered.map(({ from, to }) => ({ from, to, fetchedAt: page.observedAt }));
    records.push({ ...page, runId, origin: 'import', rank, asked, covered: answers });
    if (records.length >= batchMax) await writeRecords();
  }

  async function drain(observedAt: number): Promise<void> {
    for (const { symbol, t, p } of heap?.drain() ?? []) {
      rowSymbols.add(symbol);
      const judged = judge({ t, p, rejected: [] }, all, futureMs);
      await add({ symbol, observedAt, ticks: judged.ticks, rejected: judged.rejected, covered: [] });
    }
    await writeRecords();
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
        setAside.push({ symbol, ...rejected });
        ticks++;
      },
    },
    async settle(observedAt) {
      context.signal.throwIfAborted();
      if (heap !== undefined && heap.length >= Math.min(heapTicksMax - rowsAtOnceMax, journalTicksMax))
        await drain(observedAt);
      if (setAside.length >= setAsideMax) await writeSetAside(observedAt);
    },
    async finishRows(observedAt) {
      await drain(observedAt);
      await writeSetAside(observedAt);
    },
    async page(page) {
      ticks += page.ticks.t.length + page.rejected.length;
      await add(page);
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
      await writeRecords();
    },
    async finish() {
      await writeRecords();
      await writeBooks();
      await writeMarkets();
    },
  };
}
