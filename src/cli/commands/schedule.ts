import type { Context } from '../../app/context.ts';
import type { Jobs } from '../../app/job.ts';
import type { ScheduleWatch } from '../../app/schedule/health-checks.ts';
import type { Board } from '../../app/schedule/job-status.ts';
import type { Summary } from '../../app/summary.ts';
import { UsageError } from '../../core/errors.ts';
import type { Log } from '../../core/log.ts';
import type { Settings } from '../../settings/settings.ts';
import { type CommonFlags, withCommonFlags, withContext } from '../command-context.ts';
import type { Shell } from '../command-types.ts';
import { print } from '../print-result.ts';
import { notStarted } from '../run-job.ts';

/** The jobs that can be scheduled: every cron expression among the settings. */
type Scheduled = Exclude<keyof Settings['schedule'], Others>;
type Others = 'jitterSeconds' | 'catchUpHours' | 'host' | 'port' | 'lateHoursMax';

/** How each of them is started when its moment comes. */
const starters: Record<Scheduled, (jobs: Jobs, context: Context) => Promise<Summary>> = {
  nightly: async (jobs, context) => (await jobs.nightly()).run(context, { day: null }),
  markets: async (jobs, context) => (await jobs.markets()).run(context, undefined),
  ticks: async (jobs, context) => (await jobs.ticks()).run(context, { symbols: [] }),
  orderbook: async (jobs, context) => (await jobs.orderbook()).run(context, { symbols: [] }),
  publish: async (jobs, context) => (await jobs.publish()).run(context, undefined),
};

const names = Object.keys(starters) as Scheduled[];

/** `schedule`: the jobs at their times, until a signal. */
export function addSchedule(shell: Shell): void {
  const command = shell.program
    .command('schedule')
    .description('run the jobs on the schedules of the config (schedule.nightly and others, UTC) until stopped');
  withCommonFlags(command, ['--no-progress']).action((flags: CommonFlags) =>
    // Several jobs at a time would draw their bars over one another.
    withContext({ ...flags, progress: false }, shell.version, false, (context) => keep(shell, flags, context)),
  );
}

async function keep(shell: Shell, flags: CommonFlags, context: Context): Promise<void> {
  const { schedule } = context.settings;
  const wanted = names.flatMap((name) => (schedule[name] === null ? [] : [{ name, cron: schedule[name] }]));
  if (wanted.length === 0) {
    throw new UsageError(
      `Nothing is scheduled: give a cron expression to one of ${names.map((name) => `schedule.${name}`).join(', ')}.`,
    );
  }
  const [{ keepSchedule }, { parseCron }, { openBoard }] = await Promise.all([
    import('../../app/schedule/loop.ts'),
    import('../../settings/cron.ts'),
    import('../../app/schedule/job-status.ts'),
  ]);
  const lastStarts = await lastStartsOf(context, wanted);
  const rhythms = wanted.map(({ name, cron }) => ({ name, rhythm: parseCron(cron) }));
  const board = openBoard(rhythms, schedule.lateHoursMax * hourMs, context.clock.nowMs());
  const watch = await watchOf(context, board);
  const jobs = rhythms.map(({ name, rhythm }) => ({
    name,
    rhythm,
    lastStart: lastStarts.get(name) ?? null,
    async run() {
      board.started(name, context.clock.nowMs());
      const summary = await runOnce(shell, name, context);
      board.ended(summary);
      watch?.ended(summary);
      print(flags, summary, context.settings.archive.output);
    },
  }));
  const rules = { jitterMs: schedule.jitterSeconds * 1000, catchUpMs: schedule.catchUpHours * hourMs };
  context.signal.addEventListener('abort', board.stopping, { once: true });
  try {
    await keepSchedule(jobs, rules, { ...context, turned: board.turned });
  } finally {
    watch?.close();
  }
}

const hourMs = 3_600_000;

/** The health and metrics port, where the settings ask for one. */
async function watchOf(context: Context, board: Board): Promise<ScheduleWatch | null> {
  const { port } = context.settings.schedule;
  if (port === null) return null;
  const { watchSchedule } = await import('../../app/schedule/health-checks.ts');
  return watchSchedule(context, port, board);
}

/** When each job last started. Where a job would end at once for want of an archive or a key, so does this. */
async function lastStartsOf(
  context: Context,
  wanted: readonly { readonly name: Scheduled }[],
): Promise<Map<string, number | null>> {
  const [{ openConfiguredArchive }, { requireUpstream }, { lastStartOf }] = await Promise.all([
    import('../../app/open-configured.ts'),
    import('../../settings/settings.ts'),
    import('../../state/runs.ts'),
  ]);
  const collects = wanted.some(({ name }) => name !== 'publish');
  if (collects) requireUpstream(context.settings);
  const archive = openConfiguredArchive(context, collects);
  try {
    return new Map(wanted.map(({ name }) => [name, lastStartOf(archive.state.db, name)]));
  } finally {
    archive.close();
  }
}

/** One run, under a signal of its own, so that what it leaves on that goes with it. */
async function runOnce(shell: Shell, name: Scheduled, context: Context): Promise<Summary> {
  const startedAt = context.clock.nowMs();
  const log = tagged(context.log, { job: name });
  const signal = AbortSignal.any([context.signal]);
  let summary: Summary;
  try {
    summary = await starters[name](shell.jobs, { ...context, log, signal });
  } catch (error) {
    summary = notStarted(name, shell.version, startedAt, error, context.clock.nowMs());
    const { afterRun } = await import('../../app/after-run/index.ts');
    await afterRun({ ...context, log, signal }, summary);
  }
  const { run_id, outcome, exit_code, error } = summary;
  const facts = { run_id, outcome, exit_code, ...(error === null ? {} : { error }) };
  if (exit_code === 0) log.info(facts, 'ended');
  else log.warn(facts, 'ended; the schedule goes on');
  return summary;
}

/** A log whose every line has these facts too. */
const tagged = (log: Log, tags: object): Log => ({
  debug: (facts, message) => log.debug({ ...tags, ...facts }, message),
  info: (facts, message) => log.info({ ...tags, ...facts }, message),
  warn: (facts, message) => log.warn({ ...tags, ...facts }, message),
  error: (facts, message) => log.error({ ...tags, ...facts }, message),
});
