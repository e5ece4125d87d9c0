import type { ImportedCoverage, ImportedSymbolTicks } from '../../archive/publish/import-buffer.ts';
import type { MarketFacts } from '../../core/market.ts';
import type { RejectedInput } from '../../core/tick.ts';
import type { Window } from '../../core/window.ts';
import type { RowSink } from '../../ingest/import-rows.ts';
import type { MarketsPoll } from '../../ingest/poll-markets.ts';
import type { TickRecord } from '../../state/journal.ts';
import type { BookRecord } from '../../state/journal-books.ts';
import type { JobWorkers } from '../worker-pool.ts';
import type { RowCounter } from './counted-rows.ts';

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
  /** Takes rows of one file; nothing is written before `settle` or `finishRows`. */
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
