import { appendTicks, computeTickLoad, type TickRecord } from '../../archive/journal/journal.ts';
import { appendBooks, type BookRecord, computeBookLoad, readJournalLoad } from '../../archive/journal/journal-books.ts';
import type { State } from '../../archive/journal/state.ts';
import type { Clock } from '../../base/ports.ts';

export interface JournalWriter<R = TickRecord> {
  /** Takes a record, in order. Resolves when there is room for another; rejects where an earlier one was not written. */
  append(record: R): Promise<void>;
  /** Resolves once everything taken is durable. */
  drain(): Promise<void>;
}

/** How records of a kind become durable, and what publishing one takes, in ticks. */
interface RecordKind<R> {
  readonly append: (state: State, records: readonly R[]) => void;
  readonly computeLoad: (record: R) => number;
}

/**
 * Answers that may wait in memory, and share one transaction and so one sync of the disk: so many, and what they weigh
 * together in ticks. Of small ones many come while one batch is gathered.
 */
const batchRecordsMax = 1024;
const batchLoadMax = 320_000;

/** How long an answer may wait for others, in ms: what a kill can cost, to be asked for again. */
const gatherMs = 50;

type PublishJournal = () => Promise<void>;

/** A sink of answers of the tick route; see `openJournalWriter`. */
export const openTickJournalWriter = (
  state: State,
  clock: Clock,
  journalTicksMax: number,
  publish: PublishJournal,
): JournalWriter =>
  openJournalWriter({ append: appendTicks, computeLoad: computeTickLoad }, state, clock, journalTicksMax, publish);

/** A sink of answers of the order-book route; see `openJournalWriter`. */
export const openBookJournalWriter = (
  state: State,
  clock: Clock,
  journalTicksMax: number,
  publish: PublishJournal,
): JournalWriter<BookRecord> =>
  openJournalWriter({ append: appendBooks, computeLoad: computeBookLoad }, state, clock, journalTicksMax, publish);

/**
 * Gathers the answers of concurrent workers into transactions: a sync of the disk costs as much as many requests. When
 * the journal weighs more than `journalTicksMax` ticks it publishes first, which keeps memory and journal bounded
 * however much is fetched.
 */
function openJournalWriter<R>(
  kind: RecordKind<R>,
  state: State,
  clock: Clock,
  journalTicksMax: number,
  publish: PublishJournal,
): JournalWriter<R> {
  let waiting: R[] = [];
  let waitingLoad = 0;
  let journaled = readJournalLoad(state.db);
  let broken: { error: unknown } | undefined;
  let writing: Promise<void> | undefined;

  async function write(): Promise<void> {
    try {
      while (waiting.length > 0) {
        const batch = waiting;
        const load = waitingLoad;
        waiting = [];
        waitingLoad = 0;
        kind.append(state, batch);
        journaled += load;
        if (journaled <= journalTicksMax) continue;
        await publish();
        journaled = readJournalLoad(state.db);
      }
    } catch (error) {
      broken = { error };
    } finally {
      writing = undefined;
    }
  }

  async function gatherAndWrite(): Promise<void> {
    await clock.sleep(gatherMs);
    await write();
  }

  const isFull = (): boolean => waiting.length >= batchRecordsMax || waitingLoad >= batchLoadMax;

  const check = (): void => {
    if (broken !== undefined) throw broken.error;
  };

  return {
    async append(record) {
      check();
      waiting.push(record);
      waitingLoad += kind.computeLoad(record);
      writing ??= gatherAndWrite();
      // Full: nobody asks on before this is written, and a publish that it brings about is over.
      while (isFull() && broken === undefined) await writing;
      check();
    },
    async drain() {
      while (writing !== undefined) await writing;
      check();
    },
  };
}
