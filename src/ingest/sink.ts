import type { Clock } from '../core/clock.ts';
import { appendTicks, journalLoad, loadOf, type TickRecord } from '../state/journal.ts';
import type { State } from '../state/state.ts';

export interface Sink {
  /** Takes a record, in order. Resolves when there is room for another; rejects where an earlier one was not written. */
  append(record: TickRecord): Promise<void>;
  /** Resolves once everything taken is durable. */
  drain(): Promise<void>;
}

/** Answers that may wait in memory, and share one transaction and so one sync of the disk. */
const batchMax = 64;

/** How long an answer may wait for others, in ms: what a kill can cost, to be asked for again. */
const gatherMs = 50;

/**
 * Gathers the answers of concurrent workers into transactions: a sync of the disk costs as much as many requests. When
 * the journal weighs more than `journalTicksMax` ticks it publishes first, which keeps memory and journal bounded
 * however much is fetched.
 */
export function openSink(state: State, clock: Clock, journalTicksMax: number, publish: () => Promise<void>): Sink {
  let waiting: TickRecord[] = [];
  let journaled = journalLoad(state.db);
  let broken: { error: unknown } | undefined;
  let writing: Promise<void> | undefined;

  async function write(): Promise<void> {
    try {
      while (waiting.length > 0) {
        const batch = waiting;
        waiting = [];
        appendTicks(state, batch);
        journaled += batch.reduce((sum, record) => sum + loadOf(record), 0);
        if (journaled <= journalTicksMax) continue;
        await publish();
        journaled = journalLoad(state.db);
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

  const check = (): void => {
    if (broken !== undefined) throw broken.error;
  };

  return {
    async append(record) {
      check();
      waiting.push(record);
      writing ??= gatherAndWrite();
      // Full: nobody asks on before this is written, and a publish that it brings about is over.
      while (waiting.length >= batchMax && broken === undefined) await writing;
      check();
    },
    async drain() {
      while (writing !== undefined) await writing;
      check();
      if (waiting.length > 0) await write();
      check();
    },
  };
}
