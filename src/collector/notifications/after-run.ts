import type { Summary } from '../../archive/journal/run-summary.ts';
import type { Context } from '../../context/context.ts';
import type { Settings } from '../../settings/settings.ts';

/** A step after every run. */
interface AfterRunStep {
  /** Name for warnings, e.g. `the report`. */
  readonly label: string;
  /** Whether the step is left out after a dry run. Default: no. */
  readonly skipsDryRuns?: boolean;
  run(context: Context, summary: Summary): Promise<void>;
}

const steps: readonly AfterRunStep[] = [
  {
    label: 'the notification',
    async run(context, summary) {
      if (context.settings.notify.webhookUrl === null) return;
      await (await import('./notify.ts')).notifyRunEnd(context, summary);
    },
  },
  {
    label: 'the ping',
    skipsDryRuns: true,
    async run(context, summary) {
      if (!isPinged(context.settings, summary.job)) return;
      await (await import('./notify.ts')).pingRunEnd(context, summary);
    },
  },
  // Last, because it takes the longest.
  {
    label: 'the report',
    async run(context, { job, run_id }) {
      // If there is no run ID, the archive could not be opened.
      if (job !== 'nightly' || run_id === null || !context.settings.report.nightly) return;
      if (context.signal.aborted) return;
      const { writeReportAfterRun } = await import('../../report/write-report.ts');
      await writeReportAfterRun(context);
    },
  },
];

/** Whether a job pings a dead man's switch. */
const isPinged = ({ notify }: Settings, job: string): boolean =>
  notify.pingJobs.some((name) => name === job) &&
  [notify.pingUrl, notify.pingStartUrl, notify.pingFailUrl].some((url) => url !== null);

/**
 * Pings the start of a job. A failure is logged as a warning. The job does not wait for the promise, but `afterRun` must: the
 * ping of the end has to arrive last.
 */
export async function beforeRun(context: Context, job: string): Promise<void> {
  if (!isPinged(context.settings, job)) return;
  try {
    await (await import('./notify.ts')).pingRunStart(context);
  } catch (err) {
    context.log.warn({ err, job }, 'the ping of the start failed; the job continues');
  }
}

/**
 * Runs the steps after a run, with any outcome. The archive is closed and the summary is final. An error of a step is logged
 * as a warning and does not change the outcome of the run.
 */
export async function afterRun(context: Context, summary: Summary, isDryRun = false): Promise<void> {
  for (const { label, run, skipsDryRuns = false } of steps) {
    if (isDryRun && skipsDryRuns) continue;
    try {
      await run(context, summary);
    } catch (err) {
      context.log.warn({ err, run_id: summary.run_id }, `${label} failed; the outcome of the run is unchanged`);
    }
  }
}
