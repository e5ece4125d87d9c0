import type { Clock, Log, Random } from '../../base/ports.ts';
import {
  createScheduleEntry,
  decideRuns,
  type ScheduleEntry,
  type ScheduleRules,
  type Timetable,
} from '../../base/schedule.ts';
import { formatIsoUtc } from '../../base/time.ts';

export interface ScheduledJob {
  readonly name: string;
  readonly rhythm: Timetable;
  /** When it last started, by whoever; null where it never did. */
  readonly lastStart: number | null;
  /** Runs it once. Never rejects; ends early when the signal comes. */
  run(): Promise<void>;
}

export interface ScheduleLoopContext {
  readonly clock: Clock;
  readonly random: Random;
  readonly log: Log;
  readonly signal: AbortSignal;
  /** Told where the jobs stand, after each look at the clock. */
  onEntries?(entries: readonly ScheduleEntry[]): void;
}

/** Runs jobs on their schedules until the signal comes, and resolves when those under way are over. */
export async function runScheduleLoop(
  jobs: readonly ScheduledJob[],
  rules: ScheduleRules,
  { clock, random, log, signal, onEntries }: ScheduleLoopContext,
): Promise<void> {
  const byName = new Map(jobs.map((job) => [job.name, job]));
  const running = new Map<string, Promise<void>>();
  let entries: readonly ScheduleEntry[] = jobs.map(({ name, rhythm, lastStart }) =>
    createScheduleEntry(name, rhythm, lastStart, clock.nowMs()),
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
      const text = why === 'running' ? 'left out: it is still running' : 'left out: it was missed for too long';
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
  if (running.size > 0) log.info({ jobs: [...running.keys()] }, 'stopping: waiting for what is under way');
  await Promise.all(running.values());
  log.info({}, 'the schedule has ended');
}

/** Sleeps until then or until the signal comes. */
async function pause(clock: Clock, ms: number, signal: AbortSignal): Promise<void> {
  try {
    await clock.sleep(ms, signal);
  } catch (error) {
    if (!signal.aborted) throw error;
  }
}
