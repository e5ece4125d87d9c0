import type { Summary } from '../../archive/journal/run-summary.ts';
import type { Context } from '../../context/context.ts';
import type { Settings } from '../../settings/settings.ts';

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
 * Notifies, pings and writes the report after a run, with any outcome. The archive is closed and the summary is final. An error
 * is logged as a warning and does not change the outcome of the run.
 */
export async function afterRun(context: Context, summary: Summary): Promise<void> {
  const { settings, log, signal } = context;
  const { job, run_id } = summary;
  const attempt = async (label: string, step: () => Promise<void>): Promise<void> => {
    try {
      await step();
    } catch (err) {
      log.warn({ err, run_id }, `${label} failed; the outcome of the run is unchanged`);
    }
  };
  if (settings.notify.webhookUrl !== null)
    await attempt('the notification', async () => (await import('./notify.ts')).notifyRunEnd(context, summary));
  if (isPinged(settings, job))
    await attempt('the ping', async () => (await import('./notify.ts')).pingRunEnd(context, summary));
  // Last, because it takes the longest. If there is no run ID, the archive could not be opened.
  if (job === 'nightly' && run_id !== null && settings.report.nightly && !signal.aborted)
    await attempt('the report', async () =>
      (await import('../../report/write-report.ts')).writeReportAfterRun(context),
    );
}
