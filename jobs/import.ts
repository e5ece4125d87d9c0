import { type ImportFlags, importStep, prepareImport } from '../src/app/import/import-step.ts';
import type { Job } from '../src/app/job.ts';
import { runJob } from '../src/app/run.ts';
import { verifyStep } from '../src/app/steps/publish-step.ts';
import { lostStep } from '../src/app/steps/report-data-loss.ts';

/** Takes recordings from files through the same checks, dedupe and publish as what is polled. */
export const job: Job<ImportFlags> = {
  name: 'import',
  async run(context, flags) {
    const input = await prepareImport(context, flags);
    return runJob(context, 'import', { upstream: false, collects: true }, async (run) => {
      await importStep(run, input);
      if (flags.showCheck !== null) return;
      await verifyStep(run);
      lostStep(run);
    });
  },
};
