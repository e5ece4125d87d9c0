import { join } from 'node:path';
import type { MarketFacts } from '../../archive/format/market.ts';
import type { OrderBookSnapshot } from '../../archive/format/order-book.ts';
import { precedenceRanks } from '../../archive/format/precedence.ts';
import type { QualifyName } from '../../archive/format/qualify-market.ts';
import type { SeriesDataset } from '../../archive/format/series-datasets.ts';
import { type PublishedWithdrawal, removeOlderClaims } from '../../archive/format/withdrawals.ts';
import {
  appendQuarantined,
  type QuarantinedInput,
  recordImportedMarkets,
} from '../../archive/journal/imported-symbols.ts';
import {
  appendMarkets,
  appendTicks,
  computeTickLoad,
  readJournaledWithdrawals,
  sortTicksByTime,
  type TickRecord,
  ticksPerRejected,
} from '../../archive/journal/journal.ts';
import { appendBooks, type BookRecord, computeBookLoad, readJournalLoad } from '../../archive/journal/journal-books.ts';
import { ensureSymbol } from '../../archive/journal/symbol-store.ts';
import { openImportBuffer } from '../../archive/publish/import-buffer.ts';
import { openSpillFile, type SpillFile } from '../../archive/publish/spill-file.ts';
import type { RejectedInput } from '../../base/ticks.ts';
import { timeMin } from '../../base/time.ts';
import type { Window } from '../../base/window.ts';
import { getSettleMs } from '../../context/open-configured.ts';
import { validateTicks } from '../paging/observation.ts';
import type { MarketsPoll } from '../paging/poll-markets.ts';
import { cutClaim } from '../paging/prove-coverage.ts';
import type { Run } from '../run/run.ts';
import type { MergeThreads } from '../steps/merge-workers.ts';
import { journalMarketsPoll } from '../steps/poll-steps.ts';
import { publishJournal } from '../steps/publish-step.ts';
import type { RowSink } from './import-rows.ts';
import { createRejectBuffer, createRowCounter } from './rejected-rows.ts';
import { createRowBuffer, type RowBuffer, rowsAtOnceMax } from './row-buffer.ts';
import {
  groupMarketsByTime,
  type ImportedBook,
  type ImportedMarkets,
  type ImportedTicks,
  listSide,
  openBatch,
  openScratchList,
  type ScratchList,
  type StagedItem,
  toSide,
} from './scratch-list.ts';
import { openSeriesWriter, type SeriesWriter } from './series-writer.ts';

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
const rejectedMax = 1000;
const marketsMax = 10_000;
/** Load of publishing a market, in ticks. */
const ticksPerMarket = 20;

const keepName: QualifyName = (name) => name;

const allTime: Window = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };

/**
 * Writes imported data with bounded memory. Ticks of saved pages and rows go to a scratch file until they are
 * published, because their input can be read again. Raw responses, markets and rejected rows go to the journal, which
 * is published when it exceeds `publish.journal_ticks_max`.
 */
export class ImportWriter {
  readonly #run: Run;
  readonly #options: ImportWriterOptions;
  readonly #qualify: QualifyName;
  readonly #state;
  readonly #rank;
  /** Counts the rows of the current file. */
  readonly rowCounter = createRowCounter();
  #held: ScratchList<StagedItem> | undefined;
  readonly #rejectBuffer = createRejectBuffer();
  readonly symbols = new Set<string>();
  /** The symbols that occur in rows. */
  readonly rowSymbols = new Set<string>();
  readonly #bookSymbols = new Set<string>();
  #tickBuffer: RowBuffer | undefined;
  #buffer;
  #spillFile: SpillFile | undefined;
  #rejectedRows: Omit<QuarantinedInput, 'at'>[] = [];
  #pendingMarkets: ImportedMarkets[] = [];
  #ticks = 0;
  #load;
  #failed = false;
  /** Accepts the rows of one file. Nothing is written before `flushWhenFull` or `flushRows`. */
  readonly rows: RowSink = {
    accept: (symbol, t, p) => {
      if (this.rowCounter.isShowing && t >= timeMin && t <= this.#options.futureMs)
        this.rowCounter.show({ symbol, t, p });
      this.rowCounter.addPrice(p);
      this.#tickBuffer ??= createRowBuffer(bufferTicksMax, 1);
      const row = this.#tickBuffer.add(symbol, t);
      this.#tickBuffer.values[0]![row] = p;
      this.#ticks++;
    },
    reject: (symbol, rejected) => {
      this.#rejectedRows.push({ symbol, ...rejected });
      this.rowCounter.reject(rejected.reason, rejected.raw);
      this.#ticks++;
    },
  };
  /** The series of rows, with their own counts. */
  readonly series: Readonly<Record<SeriesDataset, SeriesWriter>>;
  readonly #seriesWriters: readonly SeriesWriter[];
  readonly #records;
  readonly #books;
  /** The withdrawals of the archive, by symbol; those of all symbols under null. */
  readonly #withdrawn: ReadonlyMap<string | null, readonly PublishedWithdrawal[]>;

  constructor(run: Run, options: ImportWriterOptions) {
    this.#run = run;
    this.#options = options;
    this.#qualify = options.qualify ?? keepName;
    const { state } = run.archive;
    this.#state = state;
    const { withdrawn = [] } = run.archive.readManifest().datasets.coverage;
    this.#withdrawn = Map.groupBy([...withdrawn, ...readJournaledWithdrawals(state.db)], ({ symbol }) => symbol);
    this.#rank = options.preferred ? precedenceRanks.preferred : precedenceRanks.import;
    this.#buffer = openImportBuffer(run.id, this.#rank);
    this.#load = readJournalLoad(state.db);
    this.series = { quotes: this.#openSeries('quotes'), trades: this.#openSeries('trades') };
    this.#seriesWriters = Object.values(this.series);
    const addLoad = (load: number): Promise<void> => this.#addLoad(load);
    this.#records = openBatch<TickRecord>((batch) => appendTicks(state, batch), computeTickLoad, addLoad);
    this.#books = openBatch<BookRecord>((batch) => appendBooks(state, batch), computeBookLoad, addLoad);
  }

  #openSeries(dataset: SeriesDataset): SeriesWriter {
    return openSeriesWriter(this.#run, {
      dataset,
      qualify: this.#qualify,
      scratch: this.#options.scratch,
      addLoad: (load) => this.#addLoad(load),
      accept: async (rows) => {
        this.#run.context.signal.throwIfAborted();
        this.#buffer.series.add(dataset, rows);
        await this.#publishWhenFull();
      },
    });
  }

  async #publishWhenFull(): Promise<void> {
    if (this.#buffer.ticks.entries + this.#buffer.series.entries >= entriesMax) await this.publish();
  }

  async #addLoad(added: number): Promise<void> {
    this.#run.context.signal.throwIfAborted();
    this.#load += added;
    // After a failed publish, do not try again.
    if (this.#load <= this.#options.journalTicksMax || this.#failed) return;
    await this.publish();
  }

  /** Publishes everything added so far. */
  async publish(): Promise<void> {
    const published = this.#buffer;
    this.#buffer = openImportBuffer(this.#run.id, this.#rank);
    this.#failed = true;
    await publishJournal(this.#run, { intake: published, threads: this.#options.threads });
    this.#failed = false;
    this.#load = readJournalLoad(this.#state.db);
  }

  async #writeRejected(): Promise<void> {
    const batch = this.#rejectBuffer.drain();
    if (batch.items.length + batch.dropped === 0) return;
    if (this.#held !== undefined) return this.#held.append({ kind: 'rejected', ...batch });
    await this.#journalRejected(batch.items, batch.dropped);
  }

  async #journalRejected(items: readonly QuarantinedInput[], added: number): Promise<void> {
    appendQuarantined(this.#state, this.#run.id, 'ticks', items, added);
    await this.#addLoad(ticksPerRejected * items.length);
  }

  async #rejectRows(at: number, countMin: number): Promise<void> {
    if (this.#rejectedRows.length < countMin) return;
    for (const { symbol, ...rejectedItem } of this.#rejectedRows)
      this.#rejectBuffer.add({ at, symbol: symbol === null ? null : this.#qualify(symbol), ...rejectedItem });
    this.#rejectedRows = [];
    await this.#writeRejected();
  }

  async #take(ticks: ImportedTicks, rejected: readonly RejectedInput[]): Promise<void> {
    this.#run.context.signal.throwIfAborted();
    const { symbol, observedAt } = ticks;
    this.symbols.add(symbol);
    for (const rejectedItem of rejected) this.#rejectBuffer.add({ symbol, at: observedAt, ...rejectedItem });
    if (this.#rejectBuffer.pendingCount >= rejectedMax) await this.#writeRejected();
    if (this.#held !== undefined) this.#held.append({ kind: 'ticks', ticks });
    else await this.#accept(ticks);
  }

  async #accept(ticks: ImportedTicks): Promise<void> {
    this.#buffer.ticks.add('ticks', ticks);
    const settleMs = getSettleMs(this.#run.context);
    for (const window of ticks.covered.flatMap((claim) => cutClaim(claim, settleMs)))
      this.#buffer.ticks.addCoverage('ticks', ticks.symbol, window);
    await this.#publishWhenFull();
  }

  async #acceptMarkets(markets: ImportedMarkets): Promise<void> {
    this.#pendingMarkets.push(markets);
    if (this.#pendingMarkets.length >= marketsMax) await this.#writeMarkets();
  }

  /** An imported snapshot is as old as its time: a poll of the same moment was made later, and has precedence. */
  async #acceptBook({ symbol, seenAt, t, bids, asks }: ImportedBook): Promise<void> {
    if (!this.#bookSymbols.has(symbol)) {
      ensureSymbol(this.#state.db, symbol, seenAt);
      this.#bookSymbols.add(symbol);
      this.#run.bookCounts.planned++;
      this.#run.bookCounts.done++;
    }
    this.#run.bookCounts.snapshots++;
    if (bids[0].length + asks[0].length === 0) this.#run.bookCounts.empty++;
    const snapshots = [{ t, bids: toSide(bids), asks: toSide(asks) }];
    await this.#books.add({ runId: this.#run.id, symbol, observedAt: t, snapshots, rejected: [], understood: false });
  }

  async #acceptHeld(item: StagedItem): Promise<void> {
    if (item.kind === 'ticks') await this.#accept(item.ticks);
    else if (item.kind === 'markets') await this.#acceptMarkets(item.markets);
    else if (item.kind === 'book') await this.#acceptBook(item.book);
    else await this.#journalRejected(item.items, item.dropped);
  }

  async #drain(observedAt: number, isEnd: boolean): Promise<void> {
    for (const { symbol: name, t, values } of this.#tickBuffer?.drain(isEnd) ?? []) {
      const symbol = this.#qualify(name);
      this.rowSymbols.add(symbol);
      const { ticks, rejected } = validateTicks({ t, p: values[0]!, rejected: [] }, allTime, this.#options.futureMs);
      this.rowCounter.accept(ticks.t.length);
      for (const { reason, raw } of rejected) this.rowCounter.reject(reason, raw);
      const sorted = sortTicksByTime(ticks);
      this.#spillFile ??= openSpillFile(join(this.#options.scratch, 'ticks'));
      const spilled = this.#spillFile.append({ t: sorted.t, values: [sorted.p], texts: [] });
      await this.#take({ symbol, observedAt, spilled, covered: [] }, rejected);
    }
  }

  async #writeMarkets(): Promise<void> {
    if (this.#pendingMarkets.length === 0) return;
    const batch = this.#pendingMarkets;
    this.#pendingMarkets = [];
    const polls = groupMarketsByTime(batch);
    this.#state.db.transaction(() => {
      for (const [observedAt, markets] of polls)
        appendMarkets(this.#state, { runId: this.#run.id, observedAt, markets }, []);
      for (const { facts, firstSeen, lastSeen } of batch)
        recordImportedMarkets(this.#state.db, facts, firstSeen, lastSeen);
    });
    await this.#addLoad(ticksPerMarket * batch.length);
  }

  /** Ticks read so far, including rejected ones. */
  get ticks(): number {
    return this.#ticks;
  }

  /**
   * From now on, writes all input to a scratch file and does not change the archive. Does not apply to responses, order
   * books and polls.
   */
  hold(): void {
    this.#held = openScratchList(join(this.#options.scratch, 'held'));
  }

  /** Writes what was held back, and stops holding. */
  async release(): Promise<void> {
    const heldList = this.#held;
    if (heldList === undefined) return;
    await this.#writeRejected();
    this.#held = undefined;
    for await (const item of heldList.items()) await this.#acceptHeld(item);
    heldList.close();
    for (const one of this.#seriesWriters) await one.release();
  }

  /** Writes the buffered rows if there are enough. `observedAt`: modification time of their file, epoch ms. */
  async flushWhenFull(observedAt: number): Promise<void> {
    this.#run.context.signal.throwIfAborted();
    if (this.#tickBuffer !== undefined && this.#tickBuffer.length >= bufferTicksMax - rowsAtOnceMax)
      await this.#drain(observedAt, false);
    await this.#rejectRows(observedAt, rejectedMax);
    for (const one of this.#seriesWriters) one.flushWhenFull(observedAt);
  }

  async flushRows(observedAt: number): Promise<void> {
    await this.#drain(observedAt, true);
    await this.#rejectRows(observedAt, 0);
    this.#rejectBuffer.nextFile();
    for (const one of this.#seriesWriters) one.endFile(observedAt);
  }

  /** Adds a page whose ticks are in a scratch file. */
  async addPage(ticks: ImportedTicks, rejected: readonly RejectedInput[]): Promise<void> {
    const accepted = ticks.spilled.days.reduce((sum, { rowCount }) => sum + rowCount, 0);
    this.#ticks += accepted + rejected.length;
    this.rowCounter.accept(accepted);
    for (const { reason, raw } of rejected) this.rowCounter.reject(reason, raw);
    const symbol = this.#qualify(ticks.symbol);
    const covered = removeOlderClaims(ticks.covered, symbol, this.#withdrawn);
    await this.#take({ ...ticks, symbol, covered }, rejected);
    this.#rejectBuffer.nextFile();
  }

  /**
   * Journals a response as the collector does. `addBook` and `addMarketsPoll` do the same with order books and polls.
   */
  async addResponse(record: Omit<TickRecord, 'runId'>): Promise<void> {
    this.#ticks += record.ticks.t.length + record.rejected.length;
    this.symbols.add(record.symbol);
    const covered = removeOlderClaims(record.covered, record.symbol, this.#withdrawn);
    await this.#records.add({ ...record, covered, runId: this.#run.id });
  }

  async addBook(record: Omit<BookRecord, 'runId'>): Promise<void> {
    this.symbols.add(record.symbol);
    await this.#books.add({ ...record, runId: this.#run.id });
  }

  async addMarketsPoll(poll: MarketsPoll, source: string | null): Promise<void> {
    journalMarketsPoll(this.#state, { id: this.#run.id, source }, poll);
    await this.#addLoad(ticksPerMarket * poll.markets.length);
  }

  async addMarkets(facts: readonly MarketFacts[], firstSeen: number, lastSeen: number): Promise<void> {
    const markets = { facts, firstSeen, lastSeen };
    if (this.#held !== undefined) this.#held.append({ kind: 'markets', markets });
    else await this.#acceptMarkets(markets);
  }

  /** Adds an order book from a row. `seenAt`: modification time of the file, epoch ms. */
  async addSnapshot(name: string, snapshot: OrderBookSnapshot, seenAt: number): Promise<void> {
    const symbol = this.#qualify(name);
    this.symbols.add(symbol);
    const { t, bids, asks } = snapshot;
    const book = { symbol, seenAt, t, bids: listSide(bids), asks: listSide(asks) };
    if (this.rowCounter.isShowing) {
      this.rowCounter.show({
        symbol,
        t,
        best_bid: bids.prices[0] ?? null,
        best_ask: asks.prices[0] ?? null,
        bids: bids.prices.length,
        asks: asks.prices.length,
      });
    }
    if (this.#held !== undefined) this.#held.append({ kind: 'book', book });
    else await this.#acceptBook(book);
  }

  /** Adds coverage that the user declared, for the publish of the rows. */
  async addDeclaredCoverage(
    dataset: 'ticks' | SeriesDataset,
    symbols: Iterable<string>,
    { from, to }: Window,
    fetchedAt: number,
  ): Promise<void> {
    const window = { from, to, fetchedAt, origin: 'import', evidence: 'declared' } as const;
    for (const symbol of symbols) {
      if (dataset === 'ticks') this.#buffer.ticks.addCoverage(dataset, symbol, window);
      else this.#buffer.series.addCoverage(dataset, symbol, window);
      await this.#publishWhenFull();
    }
  }

  /** Makes buffered records durable in the journal. */
  async flushJournal(): Promise<void> {
    await this.#writeRejected();
    await this.#records.write();
    await this.#books.write();
    await this.#writeMarkets();
  }

  close(): void {
    this.#spillFile?.close();
    this.#held?.close();
    for (const one of this.#seriesWriters) one.close();
  }
}
