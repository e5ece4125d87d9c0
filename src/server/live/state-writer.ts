import { type OpenDatabase, openDatabase } from '../../archive/journal/database.ts';
import { type State, toStateFilePath } from '../../archive/journal/state.ts';
import type { Archive } from '../../archive/open-archive.ts';
import { exitCodes, OddslakeError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';

/** Writes of the service to the state of its archive. */
export interface StateWriter {
  readonly state: State;
  /**
   * Runs `work` in one transaction. Waits without blocking the process while another one writes.
   * @throws OddslakeError (busy) if that takes too long
   */
  write<T>(work: () => T): Promise<T>;
  close(): void;
}

/** How long SQLite waits for another process's write, in ms; it blocks the service. After that the wait is a sleep. */
const busyMsMax = 20;
const busyPauseMs = 50;
const busyAttemptsMax = 400;

/** Opens a connection of its own: the service's readers notice writes of other connections only. */
export function openStateWriter(
  {
    clock,
    openDatabase: open = openDatabase,
  }: { readonly clock: Clock; readonly openDatabase?: OpenDatabase | undefined },
  archive: Archive,
): StateWriter {
  const db = open(toStateFilePath(archive.layout.privateFolder), busyMsMax);
  return {
    state: Object.create(archive.state, { db: { value: db } }) as State,
    async write(work) {
      for (let attempt = 1; ; attempt++) {
        try {
          return db.transaction(work);
        } catch (error) {
          const isBusy = error instanceof OddslakeError && error.exitCode === exitCodes.busy;
          if (!isBusy || attempt === busyAttemptsMax) throw error;
        }
        await clock.sleep(busyPauseMs);
      }
    },
    close: () => db.close(),
  };
}
