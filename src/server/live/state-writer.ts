import type { Archive } from '../../archive/archive.ts';
import { type OpenDatabase, openDatabase } from '../../archive/journal/database.ts';
import { type State, toStateFilePath } from '../../archive/journal/state.ts';
import { exitCodes, OddslakeError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';

/** How long SQLite waits for another process's write, in ms; it blocks the service. After that the wait is a sleep. */
const busyMsMax = 20;
const busyPauseMs = 50;
const busyAttemptsMax = 400;

/** Writes of the service to the state of its archive. */
export type StateWriter = ReturnType<typeof openStateWriter>;

/** Opens a connection of its own: the service's readers notice writes of other connections only. */
export function openStateWriter(
  {
    clock,
    openDatabase: open = openDatabase,
  }: { readonly clock: Clock; readonly openDatabase?: OpenDatabase | undefined },
  archive: Archive,
) {
  const db = open(toStateFilePath(archive.layout.privateFolder), busyMsMax);
  let last: Promise<unknown> = Promise.resolve();
  /** Attempts that found the state locked, and the error of the last attempt if it was one of them. */
  let busyCount = 0;
  let busyError: unknown = null;

  async function attempt<T>(work: () => T, busyCountMax: number): Promise<T> {
    for (;;) {
      // The attempts of the writes before this one count, too: all waited for the same lock.
      if (busyError !== null && busyCount >= busyCountMax) throw busyError;
      try {
        const result = db.transaction(work);
        busyError = null;
        return result;
      } catch (error) {
        const isBusy = error instanceof OddslakeError && error.exitCode === exitCodes.busy;
        busyError = isBusy ? error : null;
        if (!isBusy) throw error;
        busyCount++;
      }
      await clock.sleep(busyPauseMs);
    }
  }

  return {
    state: Object.create(archive.state, { db: { value: db } }) as State,
    /**
     * Runs `work` in one transaction, after the earlier ones. Waits without blocking the process while another one writes.
     * @throws OddslakeError (busy) if that takes too long
     */
    write<T>(work: () => T): Promise<T> {
      // One attempt at a time: each blocks the process, and many requests may wait.
      const busyCountMax = busyCount + busyAttemptsMax;
      const result = last.then(() => attempt(work, busyCountMax));
      last = result.catch(() => {});
      return result;
    },
    close: () => db.close(),
  };
}
