import type { Command } from 'commander';
import type { Summary } from '../../archive/journal/run-summary.ts';
import { UsageError } from '../../base/errors.ts';
import { addLogFields, type Log } from '../../base/ports.ts';
import { hourMs } from '../../base/window.ts';
import { putPoolsInBackground } from '../../base/worker-threads.ts';
import type { JobLoaders } from '../../collector/job.ts';
import type { ScheduleMonitor } from '../../collector/schedule/health-checks.ts';
import type { JobStatusBoard } from '../../collector/schedule/job-status.ts';
import type { PushTask } from '../../collector/schedule/push-task.ts';
import type { Context } from '../../context/context.ts';
import type { Settings } from '../../settings/settings.ts';
import { type CliContext, type CommonFlags, withCommonFlags, withContext } from '../command-context.ts';
import { requireOwner } from '../require-owner.ts';
import { summarizeNotStarted } from '../run-job.ts';
import { createSourceOption } from '../shared-options.ts';

/** The jobs that can be scheduled: every cron expression among the settings. */
type ScheduledJobName = Exclude<keyof Settings['schedule'], OtherScheduleSetting>;
type OtherScheduleSetting = 'jitterSeconds' | 'catchUpHours' | 'host' | 'port' | 'lateHoursMax';

/** Starts each job. */
const jobStarters: Record<ScheduledJobName, (jobs: JobLoaders, context: Context) => Promise<Summary>> = {
  nightly: async (jobs, context) => (await jobs.nightly()).run(context, { day: null }),
  markets: async (jobs, context) => (await jobs.markets()).run(context, undefined),
  ticks: async (jobs, context) => (await jobs.ticks()).run(context, { symbols: [] }),
  orderbook: async (jobs, context) => (await jobs.orderbook()).run(context, { symbols: [] }),
  publish: async (jobs, context) => (await jobs.publish()).run(context, undefined),
};

const scheduledJobNames = Object.keys(jobStarters) as ScheduledJobName[];

/** `schedule`: runs the jobs at their scheduled times until a signal. */
export function addSchedule(command: Command, shell: CliContext): void {
  command.addOption(createSourceOption());
  withCommonFlags(command, ['--no-progress']).action((flags: CommonFlags) =>
    // Progress bars of concurrent jobs would overwrite each other.
    withContext({ ...flags, progress: false }, shell.version, false, (context) => runSchedule(shell, flags, context)),
  );
}

/** Runs the jobs of the settings until a signal. */
async function runSchedule(shell: CliContext, flags: CommonFlags, context: Context): Promise<void> {
  const { schedule } = context.settings;
  const scheduled = scheduledJobNames.flatMap((name) =>
    schedule[name] === null ? [] : [{ name, cron: schedule[name] }],
  );
  if (scheduled.length === 0) {
    throw new UsageError(
      `Nothing is scheduled: set a cron expression for one of ${scheduledJobNames.map((name) => `schedule.${name}`).join(', ')}.`,
    );
  }
  const [{ runScheduleLoop }, { parseCron }, { openJobStatusBoard }, { printSummary }] = await Promise.all([
    import('../../collector/schedule/loop.ts'),
    import('../../settings/cron.ts'),
    import('../../collector/schedule/job-status.ts'),
    import('../print-summary.ts'),
  ]);
  requireOwner(context.settings);
  putPoolsInBackground();
  const lastStarts = await readLastStarts(context, scheduled);
  const schedules = scheduled.map(({ name, cron }) => ({ name, timetable: parseCron(cron) }));
  const board = openJobStatusBoard(schedules, schedule.lateHoursMax * hourMs, context.clock.nowMs());
  const monitor = await startWatch(context, board);
  const record = (summary: Summary): void => {
    board.recordEnd(summary);
    monitor?.recordRun(summary);
  };
  const print = (summary: Summary): void => printSummary(flags, summary, context.settings.archive.output);
  const pushes = await openPushes(context, record, print);
  const jobs = schedules.map(({ name, timetable }) => ({
    name,
    timetable,
    lastStart: lastStarts.get(name) ?? null,
    async run() {
      board.recordStart(name, context.clock.nowMs());
      const summary = await runScheduledJob(shell, name, { ...context, requestPush: pushes?.request });
      record(summary);
      print(summary);
    },
  }));
  const rules = { jitterMs: schedule.jitterSeconds * 1000, catchUpMs: schedule.catchUpHours * hourMs };
  context.signal.addEventListener('abort', board.recordStopping, { once: true });
  // The last schedule may have ended during a push, or before it.
  pushes?.request();
  try {
    await runScheduleLoop(jobs, rules, { ...context, onEntries: board.updateEntries });
    await pushes?.waitUntilIdle();
  } finally {
    monitor?.close();
  }
}

/** Opens the pushes to the bucket in the settings, if there is one. */
async function openPushes(
  context: Context,
  record: (summary: Summary) => void,
  print: (summary: Summary) => void,
): Promise<PushTask | null> {
  if (context.settings.bucket.url === null) return null;
  const [{ pushTaskName }, { isIdlePush, openPushTask, pushFromSchedule }, { afterRun }] = await Promise.all([
    import('../../collector/schedule/job-status.ts'),
    import('../../collector/schedule/push-task.ts'),
    import('../../collector/notifications/after-run.ts'),
  ]);
  const log = addLogFields(context.log, { job: pushTaskName });
  const pushContext = { ...context, log };
  return openPushTask(
    pushContext,
    () => pushFromSchedule(pushContext),
    async (summary) => {
      record(summary);
      if (isIdlePush(summary)) return;
      await afterRun(pushContext, summary);
      logEnd(log, summary);
      print(summary);
    },
  );
}

/** Opens the health and metrics port, if one is configured. */
async function startWatch(context: Context, board: JobStatusBoard): Promise<ScheduleMonitor | null> {
  const { port } = context.settings.schedule;
  if (port === null) return null;
  const { openScheduleMonitor } = await import('../../collector/schedule/health-checks.ts');
  return openScheduleMonitor(context, port, board);
}

/** Start time of the last run of each job. Throws the same errors as a job that has no archive or no key. */
async function readLastStarts(
  context: Context,
  scheduled: readonly { readonly name: ScheduledJobName }[],
): Promise<Map<string, number | null>> {
  const [{ openConfiguredArchive }, { planSourceRuns }, { readLastStart }] = await Promise.all([
    import('../../context/open-configured.ts'),
    import('../../collector/run/source-runs.ts'),
    import('../../archive/journal/runs.ts'),
  ]);
  const collects = scheduled.some(({ name }) => name !== 'publish');
  // Throws if a source has no address or no key.
  const sources = planSourceRuns(context, [], collects).map(({ source }) => source);
  using archive = openConfiguredArchive(context, collects);
  // Another process may have run the job for other sources.
  const findLastStart = (job: ScheduledJobName): number | null => {
    const starts = (job === 'publish' ? [null] : sources).map((source) => readLastStart(archive.state.db, job, source));
    return starts.reduce((first, at) => (first === null || at === null ? null : Math.min(first, at)));
  };
  return new Map(scheduled.map(({ name }) => [name, findLastStart(name)]));
}

/** Runs a job with its own signal, so that listeners added to it are released with it. */
async function runScheduledJob(shell: CliContext, name: ScheduledJobName, context: Context): Promise<Summary> {
  const startedAt = context.clock.nowMs();
  const log = addLogFields(context.log, { job: name });
  const signal = AbortSignal.any([context.signal]);
  let summary: Summary;
  try {
    summary = await jobStarters[name](shell.jobs, { ...context, log, signal });
  } catch (error) {
    summary = summarizeNotStarted(name, shell.version, startedAt, error, context.clock.nowMs());
    const { afterRun } = await import('../../collector/notifications/after-run.ts');
    await afterRun({ ...context, log, signal }, summary);
  }
  logEnd(log, summary);
  return summary;
}

function logEnd(log: Log, { run_id, outcome, exit_code, error }: Summary): void {
  const facts = { run_id, outcome, exit_code, ...(error === null ? {} : { error }) };
  if (exit_code === 0) log.info(facts, 'ended');
  else log.warn(facts, 'ended; the schedule continues');
}
