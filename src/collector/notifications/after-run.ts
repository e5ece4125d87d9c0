import type { Context } from '../../context/context.ts';
import type { Summary } from '../run/summary.ts';

/** One thing that is done with the summary of every run. */
interface AfterRunStep {
  /** As a warning names it, e.g. `the report`. */
  readonly label: string;
  run(context: Context, summary: Summary): Promise<void>;
}

const steps: readonly AfterRunStep[] = [
  {
    label: 'the metrics file',
    async run(context, summary) {
      if (context.settings.metrics.textfile === null) return;
      await (await import('./textfile-metrics.ts')).writeTextfileMetrics(context, summary);
    },
  },
  {
    label: 'the notification',
    async run(context, summary) {
      if (context.settings.notify.webhookUrl === null) return;
      await (await import('./notify.ts')).notifyRunEnd(context, summary);
    },
  },
  // Last: it takes the longest, and who stopped the run waits for its end.
  {
    label: 'the report',
    async run(context, { job, run_id }) {
      // Without a run there was no archive that could be opened.
      if (job !== 'nightly' || run_id === null || !context.settings.report.nightly) return;
      if (context.signal.aborted) return;
      const { writeReportAfterRun } = await import('../../report/write-report.ts');
      await writeReportAfterRun(context);
    },
  },
];

/**
 * What follows a run, whatever its end: the archive is closed and the summary is settled. None of it changes how the run
 * ended; what fails is a warning in the log.
 */
export async function afterRun(context: Context, summary: Summary): Promise<void> {
  for (const { label, run } of steps) {
    try {
      await run(context, summary);
    } catch (err) {
      context.log.warn({ err, run_id: summary.run_id }, `${label} failed; the run is not touched by it`);
    }
  }
}
