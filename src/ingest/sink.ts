import { appendTicks, journalLoad, loadOf, type TickRecord } from '../state/journal.ts';
import type { State } from '../state/state.ts';

export interface Sink {
  /** Resolves once the record is durable, and the journal has room again. */
  append(record: TickRecord): Promise<void>;
}

/** Answers that may share one transaction, and so one sync of the disk. */
const batchMax = 64;

/**
 * Gathers the answers of concurrent workers into transactions. When the journal weighs more than `journalTicksMax` ticks
 * it publishes first, which keeps memory and journal bounded however much is fetched.
 */
export function openSink(state: State, journalTicksMax: number, publish: () => Promise<void>): Sink {
  const batch: { record: TickRecord; done: () => void; failed: (error: unknown) => void }[] = [];
  let flushing = false;
  let journaled = journalLoad(state.db);
  async function flush(): Promise<void> {
    // The answers that arrived in the same turn of the event loop come along.
    await new Promise((resolve) => setImmediate(resolve));
    while (batch.length > 0) {
      const taken = batch.splice(0, batchMax);
      try {
        appendTicks(
          state,
          taken.map((entry) => entry.record),
        );
        journaled += taken.reduce((sum, entry) => sum + loadOf(entry.record), 0);
        if (journaled > journalTicksMax) {
          await publish();
          journaled = journalLoad(state.db);
        }
        for (const entry of taken) entry.done();
      } catch (error) {
        for (const entry of [...taken, ...batch.splice(0)]) entry.failed(error);
      }
    }
    flushing = false;
  }
  return {
    append: (record) =>
      new Promise((done, failed) => {
        batch.push({ record, done, failed });
        if (flushing) return;
        flushing = true;
        void flush();
      }),
  };
}
