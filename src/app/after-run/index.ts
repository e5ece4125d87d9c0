import type { Context } from '../context.ts';
import type { Summary } from '../summary.ts';

/** One thing that is done with the summary of every run. */
interface Afterwards {
  /** As a warning names it, e.g. `the report`. */
  readonly what: string;
  run(context: Context, summary: Summary): Promise<void>;
}

const steps: readonly Afterwards[] = [
  {
    what: 'the metrics file',
    async run(context, summary) {
      if (context.settings.metrics.textfile === null) return;
      await (await import('./textfile-metrics.ts')).textfileStep(context, summary);
    },
  },
  {
    what: 'the notification',
    async run(context, summary) {
      if (context.settings.notify.webhookUrl === null) return;
      await (await import('./notify.ts')).notifyStep(context, summary);
    },
  },
  // Last: it takes the longest, and who stopped the run waits for its end.
  {
    what: 'the report',
    async run(context, { job, run_id }) {
      // Without a run there was no archive that could be opened.
      if (job !== 'nightly' || run_id === null || !context.settings.report.nightly) return;
      if (context.signal.aborted) return;
      const { reportAfterRun } = await import('../report.ts');
      await reportAfterRun(context);
    },
  },
];

/**
 * What follows a run, whatever its end: the archive is closed and the summary is settled. None of it changes how the run
 * ended; what fails is a warning in the log.
 */
export async function afterRun(context: Context, summary: Summary): Promise<void> {
  for (const { what, run } of steps) {
    try {
      await run(context, summary);
    } catch (err) {
      context.log.warn({ err, run_id: summary.run_id }, `${what} failed; the run is not touched by it`);
    }
  }
}
