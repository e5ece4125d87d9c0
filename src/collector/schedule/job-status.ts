import type { Summary } from '../../archive/journal/run-summary.ts';
import { clockAheadMsMax } from '../../base/ports.ts';
import { formatIsoUtc } from '../../base/time.ts';
import { computeNextStart, findLateMoment, type ScheduleEntry, type Timetable } from '../../base/timetable.ts';
import type { Sample } from '../../metrics/metric-definitions.ts';
import { type LastRunRecord, mergeLastRun } from '../run/last-runs.ts';

/** The name of the pushes of a schedule in summaries, metrics and logs, where they count as a job. */
export const pushTaskName = 'push';

export interface ScheduleStatus {
  /** The last run of each job, including unscheduled jobs. */
  readonly runs: readonly LastRunRecord[];
  /** Faults by job; empty if there are none. */
  readonly faults: readonly { readonly name: string; readonly reason: string }[];
  readonly samples: readonly Sample[];
}

interface BoardJob {
  readonly name: string;
  readonly timetable: Timetable;
}

/** Status of the jobs of a running schedule. */
export type JobStatusBoard = ReturnType<typeof openJobStatusBoard>;

/** Opens a status board. `lateMs`: how long after its scheduled time a run may end without counting as late. */
export function openJobStatusBoard(jobs: readonly BoardJob[], lateMs: number, startedAt: number) {
  const running = new Map<string, number>();
  let entries: readonly ScheduleEntry[] = [];
  let ownRuns: readonly LastRunRecord[] = [];
  let isStopping = false;
  return {
    names: jobs.map(({ name }) => name),
    /** Sets the state of the jobs after each decision. */
    updateEntries(now: readonly ScheduleEntry[]) {
      entries = now;
    },
    recordStart: (job: string, atMs: number) => void running.set(job, atMs),
    /** Records a finished run. A run that could not open the archive is recorded nowhere else. */
    recordEnd(run: Summary) {
      running.delete(run.job);
      // This run is the last one, even if the clock was set back since an earlier run.
      ownRuns = mergeLastRun(
        ownRuns.filter((one) => one.run.job !== run.job || one.run.finished_at <= run.finished_at),
        run,
      );
    },
    /** Records that the schedule starts no more jobs. */
    recordStopping() {
      isStopping = true;
    },
    /** @param known the last runs of all jobs in the state */
    readStatus(known: readonly LastRunRecord[], nowMs: number): ScheduleStatus {
      const plausible = ownRuns.filter(({ run }) => run.finished_at <= nowMs + clockAheadMsMax);
      const runs = plausible.reduce<readonly LastRunRecord[]>((all, { run }) => mergeLastRun(all, run), known);
      const statuses = jobs.map(({ name, timetable }) => {
        const last = runs.find(({ run }) => run.job === name)?.run;
        const entry = entries.find((one) => one.name === name);
        return {
          name,
          since: running.get(name) ?? null,
          next: isStopping || entry === undefined ? null : computeNextStart(entry, nowMs),
          late: findLateMoment(timetable, last?.started_at ?? startedAt, nowMs, lateMs),
        };
      });
      const lateJobs = statuses.flatMap(({ name, late, since }) =>
        late === null ? [] : [{ name, reason: formatLateReason(late, since) }],
      );
      return {
        runs,
        faults: isStopping ? [...lateJobs, { name: 'schedule', reason: 'is stopping' }] : lateJobs,
        samples: statuses.flatMap((status) => toJobSamples(status, nowMs)),
      };
    },
  };
}

const formatLateReason = (late: number, since: number | null): string =>
  since === null
    ? `has not run since it was due at ${formatIsoUtc(late)}`
    : `was due at ${formatIsoUtc(late)}, and the run started at ${formatIsoUtc(since)} has not ended`;

interface JobStatus {
  readonly name: string;
  readonly since: number | null;
  readonly next: number | null;
  readonly late: number | null;
}

function toJobSamples({ name: job, since, next, late }: JobStatus, nowMs: number): Sample[] {
  const one = (name: string, value: number): Sample => ({
    name: `oddslake_schedule_job_${name}`,
    labels: { name: job },
    value,
  });
  return [
    one('running', Number(since !== null)),
    one('running_seconds', since === null ? 0 : Math.max(0, nowMs - since) / 1000),
    one('late', Number(late !== null)),
    ...(next === null ? [] : [one('next_start_timestamp_seconds', next / 1000)]),
  ];
}
