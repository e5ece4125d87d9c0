import { appendTicks, computeTickLoad, type TickRecord } from '../../archive/journal/journal.ts';
import { appendBooks, type BookRecord, computeBookLoad, readJournalLoad } from '../../archive/journal/journal-books.ts';
import type { State } from '../../archive/journal/state.ts';
import type { Clock } from '../../base/ports.ts';

export interface JournalWriter<R = TickRecord> {
  /** Appends a record, in order. Resolves when there is room for another. Rejects if an earlier one could not be written. */
  append(record: R): Promise<void>;
  /** Writes the appended records at once, without waiting for others. Resolves when all of them are durable. */
  drain(): Promise<void>;
}

/** How a kind of record is made durable, and the load of publishing one, in ticks. */
interface RecordKind<R> {
  readonly append: (state: State, records: readonly R[]) => void;
  readonly computeLoad: (record: R) => number;
}

/**
 * Limits of one batch, which is one transaction and thus one disk sync: number of records, and their load in ticks.
 * Small records arrive in large numbers while a batch is gathered.
 */
const batchRecordsMax = 1024;
const batchLoadMax = 320_000;

/**
 * How long a record may wait for others, in ms. After a crash, the records of this interval have to be fetched again.
 */
const gatherMs = 50;

/** Responses of the tick route. */
export const tickRecords: RecordKind<TickRecord> = { append: appendTicks, computeLoad: computeTickLoad };

/** Responses of the order-book route. */
export const bookRecords: RecordKind<BookRecord> = { append: appendBooks, computeLoad: computeBookLoad };

/**
 * Gathers the records of concurrent workers into transactions, because a disk sync costs as much as many requests. When
 * the journal exceeds `journalTicksMax` ticks, publishes it before writing more. This bounds memory and the journal.
 */
export function openJournalWriter<R>(
  kind: RecordKind<R>,
  state: State,
  clock: Clock,
  journalTicksMax: number,
  publish: () => Promise<void>,
): JournalWriter<R> {
  let waiting: R[] = [];
  let waitingLoad = 0;
  let journalLoad = readJournalLoad(state.db);
  let failure: { error: unknown } | undefined;
  let writing: Promise<void> | undefined;
  let gathering = new AbortController();

  async function write(): Promise<void> {
    try {
      while (waiting.length > 0) {
        const batch = waiting;
        const batchLoad = waitingLoad;
        waiting = [];
        waitingLoad = 0;
        kind.append(state, batch);
        journalLoad += batchLoad;
        if (journalLoad <= journalTicksMax) continue;
        await publish();
        journalLoad = readJournalLoad(state.db);
      }
    } catch (error) {
      failure = { error };
    } finally {
      writing = undefined;
    }
  }

  async function gatherAndWrite(): Promise<void> {
    gathering = new AbortController();
    // Rejects only if a drain ends it.
    await clock.sleep(gatherMs, gathering.signal).catch(() => {});
    await write();
  }

  const isFull = (): boolean => waiting.length >= batchRecordsMax || waitingLoad >= batchLoadMax;

  const check = (): void => {
    if (failure !== undefined) throw failure.error;
  };

  return {
    async append(record) {
      check();
      waiting.push(record);
      waitingLoad += kind.computeLoad(record);
      writing ??= gatherAndWrite();
      // The batch is full: all workers wait until it is written, and until any publish that it triggers has ended.
      while (isFull() && failure === undefined) await writing;
      check();
    },
    async drain() {
      gathering.abort();
      while (writing !== undefined) await writing;
      check();
    },
  };
}
