import { aheadMsMax } from '../../core/clock.ts';
import { type Entry, lateMoment, nextStart, type Rhythm } from '../../core/schedule.ts';
import { isoUtc } from '../../core/time.ts';
import type { LastRun } from '../../metrics/last-run.ts';
import type { Sample } from '../../metrics/metric-definitions.ts';
import { type KnownRun, withRun } from '../last-runs.ts';

/** What a schedule tells of its jobs while it is kept. */
export interface Board {
  readonly names: readonly string[];
  /** Where the jobs stand with their schedules, after each look at the clock. */
  turned(entries: readonly Entry[]): void;
  started(job: string, atMs: number): void;
  /** The state may not have it: a run that could not open the archive is kept nowhere else. */
  ended(run: LastRun): void;
  /** From now on it starts nothing more. */
  stopping(): void;
  /** @param known the last runs of all jobs, as the state has them */
  look(known: readonly KnownRun[], nowMs: number): Look;
}

export interface Look {
  /** The last run of each job, those that are not scheduled included. */
  readonly runs: readonly KnownRun[];
  /** What is wrong, by the job that it is wrong with; none where all is well. */
  readonly wrong: readonly { readonly name: string; readonly reason: string }[];
  readonly samples: readonly Sample[];
}

export interface BoardJob {
  readonly name: string;
  readonly rhythm: Rhythm;
}

/** A board of these jobs; `lateMs`: how long after its moment a run may end and still count as in time. */
export function openBoard(jobs: readonly BoardJob[], lateMs: number, begunAt: number): Board {
  const running = new Map<string, number>();
  let entries: readonly Entry[] = [];
  let here: readonly KnownRun[] = [];
  let isStopping = false;
  return {
    names: jobs.map(({ name }) => name),
    turned(now) {
      entries = now;
    },
    started: (job, atMs) => void running.set(job, atMs),
    ended(run) {
      running.delete(run.job);
      // Whatever the clock said before: it is the last one.
      here = withRun(
        here.filter((one) => one.run.job !== run.job || one.run.finished_at <= run.finished_at),
        run,
      );
    },
    stopping() {
      isStopping = true;
    },
    look(known, nowMs) {
      const sure = here.filter(({ run }) => run.finished_at <= nowMs + aheadMsMax);
      const runs = sure.reduce<readonly KnownRun[]>((all, { run }) => withRun(all, run), known);
      const looks = jobs.map(({ name, rhythm }) => {
        const last = runs.find(({ run }) => run.job === name)?.run;
        const entry = entries.find((one) => one.name === name);
        return {
          name,
          since: running.get(name) ?? null,
          next: isStopping || entry === undefined ? null : nextStart(entry, nowMs),
          late: lateMoment(rhythm, last?.started_at ?? begunAt, nowMs, lateMs),
        };
      });
      const wrong = looks.flatMap(({ name, late, since }) =>
        late === null ? [] : [{ name, reason: why(late, since) }],
      );
      return {
        runs,
        wrong: isStopping ? [...wrong, { name: 'schedule', reason: 'is stopping' }] : wrong,
        samples: looks.flatMap((look) => samplesOf(look, nowMs)),
      };
    },
  };
}

const why = (late: number, since: number | null): string =>
  since === null
    ? `has not run since it was due at ${isoUtc(late)}`
    : `was due at ${isoUtc(late)}, and its run of ${isoUtc(since)} has not ended`;

interface JobLook {
  readonly name: string;
  readonly since: number | null;
  readonly next: number | null;
  readonly late: number | null;
}

function samplesOf({ name: job, since, next, late }: JobLook, nowMs: number): Sample[] {
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
