import { join } from 'node:path';
import { type Database, openDatabase } from '../../src/archive/journal/database.ts';
import { toStateFilePath } from '../../src/archive/journal/state.ts';

/** Opens the state of the archive `output`, and closes it after `work`. */
export function withState<T>(output: string, work: (db: Database) => T): T {
  const db = openDatabase(toStateFilePath(join(output, '.oddslake')), 5000);
  try {
    return work(db);
  } finally {
    db.close();
  }
}

/** Records a run of each of these jobs, all at the start of the earliest one. */
export const addRuns = (output: string, jobs: readonly string[]) =>
  withState(output, (db) => {
    for (const job of jobs)
      db.run(
        `insert into runs (run_id, job, pid, started_at, finished_at)
         select ?, ?, 1, min(started_at), min(started_at) from runs`,
        ...[job, job],
      );
  });
