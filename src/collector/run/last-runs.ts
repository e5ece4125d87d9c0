import type { Database } from '../../archive/journal/database.ts';
import type { Summary } from '../../archive/journal/run-summary.ts';
import { readLastEndedRuns } from '../../archive/journal/runs.ts';
import type { Facts } from '../../archive/read/judge.ts';
import type { ExitCode } from '../../base/errors.ts';
import { clockAheadMsMax } from '../../base/ports.ts';
import type { Sample } from '../../metrics/metric-definitions.ts';
import { toArchiveSamples, toBuildInfoSample, toRunSamples, toSuccessSamples } from '../../metrics/samples.ts';

/** The last run of a job, and when the job last exited with code 0 (epoch ms). */
export interface LastRunRecord {
  readonly run: Summary;
  readonly succeededAt: number | null;
}

/** Reads the last run of each job from the state. */
export const listLastRunRecords = (db: Database, nowMs: number): LastRunRecord[] =>
  readLastEndedRuns(db, nowMs + clockAheadMsMax).flatMap(({ summary, exitCode, succeededAt }) => {
    if (summary === null) return [];
    const run = JSON.parse(summary) as Summary;
    // The exit code is that of the job, which may have collected other sources too.
    return [{ run: { ...run, exit_code: (exitCode ?? run.exit_code) as ExitCode }, succeededAt }];
  });

/** Adds a run that has just ended. The state lacks it if the state could not be opened or written. */
export function mergeLastRun(known: readonly LastRunRecord[], run: Summary): LastRunRecord[] {
  const before = known.find((one) => one.run.job === run.job);
  if (before !== undefined && before.run.finished_at > run.finished_at) return [...known];
  const succeededAt = run.exit_code === 0 ? run.finished_at : (before?.succeededAt ?? null);
  return [...known.filter((one) => one !== before), { run, succeededAt }].sort((a, b) =>
    a.run.job < b.run.job ? -1 : 1,
  );
}

/** What the port of a schedule and `status --prometheus` say of an archive and its last runs. */
export const listMonitorSamples = (version: string, runs: readonly LastRunRecord[], facts: Facts): Sample[] => [
  toBuildInfoSample(version),
  ...runs.flatMap(({ run, succeededAt }) => [...toRunSamples(run), ...toSuccessSamples(run.job, succeededAt)]),
  ...toArchiveSamples(facts),
];
