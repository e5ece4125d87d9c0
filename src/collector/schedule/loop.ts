import type { Clock, Log, Random } from '../../base/ports.ts';
import { formatIsoUtc } from '../../base/time.ts';
import {
  createScheduleEntry,
  decideRuns,
  type ScheduleEntry,
  type ScheduleRules,
  type Timetable,
} from '../../base/timetable.ts';

export interface ScheduledJob {
  readonly name: string;
  readonly timetable: Timetable;
  /** When the job was last started, by the schedule or manually; null if it never ran. */
  readonly lastStart: number | null;
  /** Runs the job once. Never rejects; ends early when the signal is aborted. */
  run(): Promise<void>;
}

interface ScheduleLoopContext {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Called with the state of the jobs after each decision. */
  onEntries?(entries: readonly ScheduleEntry[]): void;
}

/** Runs jobs on their schedules until the signal is aborted. Resolves when running jobs have ended. */
export async function runScheduleLoop(
  jobs: readonly ScheduledJob[],
  rules: ScheduleRules,
  { clock, random, log, signal, onEntries }: ScheduleLoopContext,
): Promise<void> {
  const byName = new Map(jobs.map((job) => [job.name, job]));
  const running = new Map<string, Promise<void>>();
  let entries: readonly ScheduleEntry[] = jobs.map(({ name, timetable, lastStart }) =>
    createScheduleEntry(name, timetable, lastStart, clock.nowMs()),
  );
  for (const { name, timetable, handledThrough } of entries) {
    const next = timetable.findNext(Math.max(handledThrough, clock.nowMs()));
    log.info({ job: name, next: next === null ? null : formatIsoUtc(next) }, 'scheduled');
  }
  while (!signal.aborted) {
    const nowMs = clock.nowMs();
    const decision = decideRuns(entries, new Set(running.keys()), nowMs, rules, random);
    entries = decision.entries;
    onEntries?.(entries);
    for (const { name, moment, why } of decision.skipped) {
      const text =
        why === 'running'
          ? 'skipped: the previous run has not ended'
          : 'skipped: its scheduled time passed too long ago';
      log.warn({ job: name, moment: formatIsoUtc(moment) }, text);
    }
    for (const { name, moment } of decision.start) {
      log.info({ job: name, moment: formatIsoUtc(moment), late_ms: nowMs - moment }, 'starting');
      const run = byName.get(name)!.run();
      running.set(
        name,
        run.finally(() => running.delete(name)),
      );
    }
    await pause(clock, decision.wakeAt - nowMs, signal);
  }
  if (running.size > 0) log.info({ jobs: [...running.keys()] }, 'stopping: waiting for running jobs');
  await Promise.all(running.values());
  log.info({}, 'the schedule has ended');
}

async function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  try {
    await clock.sleep(ms, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
