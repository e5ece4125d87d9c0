import { join } from 'node:path';
import { daysIn, openIntake, type Read } from '../../archive/publish/import-buffer.ts';
import { openSpill, type Spill } from '../../archive/publish/spill-file.ts';
import type { MarketFacts } from '../../core/market.ts';
import { ranks } from '../../core/merge.ts';
import type { Rejected } from '../../core/tick.ts';
import type { Window } from '../../core/window.ts';
import { startHeap, type TickHeap } from '../../ingest/import-rows.ts';
import { judge } from '../../ingest/validate-ticks.ts';
import { appendSetAside, observeImported, type SetAside } from '../../state/imported-symbols.ts';
import { appendMarkets, appendTicks, inOrder, loadOf, type TickRecord } from '../../state/journal.ts';
import { appendBooks, type BookRecord, bookLoadOf } from '../../state/journal-books.ts';
import { journalLoad } from '../../state/journal-size.ts';
import type { Run } from '../run.ts';
import { keepPoll } from '../steps/poll-steps.ts';
import { publishStep } from '../steps/publish-step.ts';
import { startCounting } from './counted-rows.ts';
import { type HeldItem, type HeldItems, holdItems, type ImportedMarkets } from './held.ts';
import type { ImportedTicks, ImportWriter, WriterOptions } from './import-writer.ts';
import { keepWithin } from './kept-rejects.ts';

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

export function openImportWriter(run: Run, options: WriterOptions): ImportWriter {
  const { archive, context, id: runId } = run;
  const { preferred, futureMs, scratch, journalTicksMax, threads } = options;
  const { state } = archive;
  const rank = preferred ? ranks.preferred : ranks.import;
  const { fileBytesMax } = context.settings.quarantine;
  const counted = startCounting();
  let held: HeldItems<HeldItem> | undefined;
  const rejects = keepWithin(fileBytesMax);
  const symbols = new Set<string>();
  const rowSymbols = new Set<string>();
  let heap: TickHeap | undefined;
  let records: TickRecord[] = [];
  let books: BookRecord[] = [];
  let intake = openIntake(runId, rank, state.identity.parts);
  let spill: Spill | undefined;
  let ofRows: Omit<SetAside, 'at'>[] = [];
  let seen: ImportedMarkets[] = [];
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
    const batch = rejects.take();
    if (batch.items.length + batch.dropped === 0) return;
    if (held !== undefined) return held.put({ kind: 'set aside', ...batch });
    await journalSetAside(batch.items, batch.dropped);
  }

  async function journalSetAside(items: readonly SetAside[], more: number): Promise<void> {
    appendSetAside(state, runId, items, more);
    await weigh(ticksPerSetAside * items.length);
  }

  async function rejectRows(at: number, least: number): Promise<void> {
    if (ofRows.length < least) return;
    for (const item of ofRows) rejects.keep({ at, ...item });
    ofRows = [];
    await writeSetAside();
  }

  async function take(read: Read, rejected: readonly Rejected[]): Promise<void> {
    context.signal.throwIfAborted();
    const { symbol, observedAt } = read;
    symbols.add(symbol);
    for (const item of rejected) rejects.keep({ symbol, at: observedAt, ...item });
    if (rejects.waiting >= setAsideMax) await writeSetAside();
    if (held !== undefined) held.put({ kind: 'read', read });
    else await accept(read);
  }

  async function accept(read: Read): Promise<void> {
    intake.add(read);
    if (intake.entries >= entriesMax) await publish();
  }

  async function acceptMarkets(markets: ImportedMarkets): Promise<void> {
    seen.push(markets);
    if (seen.length >= marketsMax) await writeMarkets();
  }

  async function acceptHeld(item: HeldItem): Promise<void> {
    if (item.kind === 'read') await accept(item.read);
    else if (item.kind === 'markets') await acceptMarkets(item.markets);
    else await journalSetAside(item.items, item.dropped);
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
      counted.take(judged.ticks.t.length);
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
    counted,
    hold() {
      held = holdItems(join(scratch, 'held'));
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
      take(symbol, t, p) {
        heap ??= startHeap(heapTicksMax);
        heap.add(symbol, t, p);
        ticks++;
      },
      reject(symbol, rejected) {
        ofRows.push({ symbol, ...rejected });
        counted.reject(rejected.reason, rejected.raw);
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
      rejects.nextFile();
    },
    async page(page) {
      ticks += page.ticks.t.length + page.rejected.length;
      counted.take(page.ticks.t.length);
      for (const { reason, raw } of page.rejected) counted.reject(reason, raw);
      await add(page);
      rejects.nextFile();
    },
    async read(read, rejected) {
      ticks += read.ticks.ticks + rejected.length;
      await take(read, rejected);
      rejects.nextFile();
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
      keepPoll(state, runId, poll, run.context.settings.falls.marketsShareMax);
      await weigh(ticksPerMarket * poll.markets.length);
    },
    async markets(facts, firstSeen, lastSeen) {
      const markets = { facts, firstSeen, lastSeen };
      if (held !== undefined) held.put({ kind: 'markets', markets });
      else await acceptMarkets(markets);
    },
    async cover(covered, window, fetchedAt) {
      const none = { ticks: { t: new Float64Array(0), p: new Float64Array(0) }, rejected: [] };
      for (const symbol of covered)
        await add({ symbol, observedAt: fetchedAt, ...none, covered: [{ window, evidence: 'declared' }] });
    },
    async finish() {
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
