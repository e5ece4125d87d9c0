import { createLayout } from '../../archive/format/layout.ts';
import type { Database } from '../../archive/journal/database.ts';
import { parseRunSummary, readLastEndedRuns } from '../../archive/journal/runs.ts';
import { openState, toStateFilePath } from '../../archive/journal/state.ts';
import { clockAheadMsMax } from '../../base/ports.ts';
import type { Context } from '../../context/context.ts';
import type { LastRun } from '../../metrics/last-run.ts';

/** A job's last run, and when the job last ended with 0 (epoch ms). */
export interface LastRunRecord {
  readonly run: LastRun;
  readonly succeededAt: number | null;
}

/** What the state knows of the last run of each job. */
export const listLastRunRecords = (db: Database, nowMs: number): LastRunRecord[] =>
  readLastEndedRuns(db, nowMs + clockAheadMsMax).flatMap(({ summary, succeededAt }) => {
    const run = parseLastRun(summary);
    return run === null ? [] : [{ run, succeededAt }];
  });

/** A summary as it was kept; one of an older oddslake may lack what a later one has, and then nothing is told of it. */
function parseLastRun(summary: string | null): LastRun | null {
  try {
    const run = parseRunSummary(summary ?? 'null') as Partial<LastRun> | null;
    const whole = run?.ticks !== undefined && run.symbols !== undefined && run.published !== undefined;
    return whole ? (run as LastRun) : null;
  } catch {
    return null;
  }
}

/** The same from the archive's state, which is closed at the moment; none where there is none. */
export function readLastRunRecords({ settings, disk, clock, openDatabase }: Context): LastRunRecord[] {
  const { privateFolder: folder } = createLayout(settings.archive.output);
  // Nothing is made by those that only look.
  if (disk.size(toStateFilePath(folder)) === null) return [];
  const state = openState(folder, { upstream: '', parts: settings.archive.parts }, openDatabase);
  try {
    return listLastRunRecords(state.db, clock.nowMs());
  } finally {
    state.close();
  }
}

/** What is known, and a run that has just ended: the state may not have it, as it could not be opened or written. */
export function mergeLastRun(known: readonly LastRunRecord[], run: LastRun): LastRunRecord[] {
  const before = known.find((one) => one.run.job === run.job);
  if (before !== undefined && before.run.finished_at > run.finished_at) return [...known];
  const succeededAt = run.exit_code === 0 ? run.finished_at : (before?.succeededAt ?? null);
  return [...known.filter((one) => one !== before), { run, succeededAt }].sort((a, b) =>
    a.run.job < b.run.job ? -1 : 1,
  );
}
