import { clockAheadMsMax } from '../../base/ports.ts';
import { computeNextStart, findLateMoment, type ScheduleEntry, type Timetable } from '../../base/schedule.ts';
import { formatIsoUtc } from '../../base/time.ts';
import type { LastRun } from '../../metrics/last-run.ts';
import type { Sample } from '../../metrics/metric-definitions.ts';
import { type LastRunRecord, mergeLastRun } from '../run/last-runs.ts';

/** What a schedule tells of its jobs while it is kept. */
export interface JobStatusBoard {
  readonly names: readonly string[];
  /** Where the jobs stand with their schedules, after each look at the clock. */
  updateEntries(entries: readonly ScheduleEntry[]): void;
  recordStart(job: string, atMs: number): void;
  /** The state may not have it: a run that could not open the archive is kept nowhere else. */
  recordEnd(run: LastRun): void;
  /** From now on it starts nothing more. */
  recordStopping(): void;
  /** @param known the last runs of all jobs, as the state has them */
  readStatus(known: readonly LastRunRecord[], nowMs: number): ScheduleStatus;
}

export interface ScheduleStatus {
  /** The last run of each job, those that are not scheduled included. */
  readonly runs: readonly LastRunRecord[];
  /** What is wrong, by the job that it is wrong with; none where all is well. */
  readonly faults: readonly { readonly name: string; readonly reason: string }[];
  readonly samples: readonly Sample[];
}

export interface BoardJob {
  readonly name: string;
  readonly rhythm: Timetable;
}

/** A board of these jobs; `lateMs`: how long after its moment a run may end and still count as in time. */
export function openJobStatusBoard(jobs: readonly BoardJob[], lateMs: number, begunAt: number): JobStatusBoard {
  const running = new Map<string, number>();
  let entries: readonly ScheduleEntry[] = [];
  let here: readonly LastRunRecord[] = [];
  let isStopping = false;
  return {
    names: jobs.map(({ name }) => name),
    updateEntries(now) {
      entries = now;
    },
    recordStart: (job, atMs) => void running.set(job, atMs),
    recordEnd(run) {
      running.delete(run.job);
      // Whatever the clock said before: it is the last one.
      here = mergeLastRun(
        here.filter((one) => one.run.job !== run.job || one.run.finished_at <= run.finished_at),
        run,
      );
    },
    recordStopping() {
      isStopping = true;
    },
    readStatus(known, nowMs) {
      const sure = here.filter(({ run }) => run.finished_at <= nowMs + clockAheadMsMax);
      const runs = sure.reduce<readonly LastRunRecord[]>((all, { run }) => mergeLastRun(all, run), known);
      const looks = jobs.map(({ name, rhythm }) => {
        const last = runs.find(({ run }) => run.job === name)?.run;
        const entry = entries.find((one) => one.name === name);
        return {
          name,
          since: running.get(name) ?? null,
          next: isStopping || entry === undefined ? null : computeNextStart(entry, nowMs),
          late: findLateMoment(rhythm, last?.started_at ?? begunAt, nowMs, lateMs),
        };
      });
      const wrong = looks.flatMap(({ name, late, since }) =>
        late === null ? [] : [{ name, reason: formatLateReason(late, since) }],
      );
      return {
        runs,
        faults: isStopping ? [...wrong, { name: 'schedule', reason: 'is stopping' }] : wrong,
        samples: looks.flatMap((look) => toJobSamples(look, nowMs)),
      };
    },
  };
}

const formatLateReason = (late: number, since: number | null): string =>
  since === null
    ? `has not run since it was due at ${formatIsoUtc(late)}`
    : `was due at ${formatIsoUtc(late)}, and its run of ${formatIsoUtc(since)} has not ended`;

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
