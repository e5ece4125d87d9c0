import type { Database } from '../../archive/journal/database.ts';
import { readLastEndedRuns } from '../../archive/journal/runs.ts';
import { clockAheadMsMax } from '../../base/ports.ts';
import type { LastRun } from '../../metrics/samples.ts';

/** The last run of a job, and when the job last exited with code 0 (epoch ms). */
export interface LastRunRecord {
  readonly run: LastRun;
  readonly succeededAt: number | null;
}

/** Reads the last run of each job from the state. */
export const listLastRunRecords = (db: Database, nowMs: number): LastRunRecord[] =>
  readLastEndedRuns(db, nowMs + clockAheadMsMax).flatMap(({ summary, exitCode, succeededAt }) => {
    const run = parseLastRun(summary);
    // The exit code is that of the job, which may have collected other sources too.
    return run === null ? [] : [{ run: { ...run, exit_code: exitCode ?? run.exit_code }, succeededAt }];
  });

/** Parses a stored summary. Returns null if there is none, or it is damaged. */
function parseLastRun(summary: string | null): LastRun | null {
  try {
    const run = JSON.parse(summary ?? 'null') as Partial<LastRun> | null;
    const isComplete = run?.ticks !== undefined && run.symbols !== undefined && run.published !== undefined;
    return isComplete ? (run as LastRun) : null;
  } catch {
    return null;
  }
}

/** Adds a run that has just ended. The state lacks it if the state could not be opened or written. */
export function mergeLastRun(known: readonly LastRunRecord[], run: LastRun): LastRunRecord[] {
  const before = known.find((one) => one.run.job === run.job);
  if (before !== undefined && before.run.finished_at > run.finished_at) return [...known];
  const succeededAt = run.exit_code === 0 ? run.finished_at : (before?.succeededAt ?? null);
  return [...known.filter((one) => one !== before), { run, succeededAt }].sort((a, b) =>
    a.run.job < b.run.job ? -1 : 1,
  );
}
