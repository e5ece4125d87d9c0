import type { Job } from '../src/app/job.ts';
import { runJob } from '../src/app/run.ts';
import { publishStep, verifyStep } from '../src/app/steps/publish-step.ts';
import { lostStep } from '../src/app/steps/report-data-loss.ts';

/** Merges what is journaled into the day partitions. */
export const job: Job = {
  name: 'publish',
  run: (context) =>
    runJob(context, 'publish', { upstream: false }, async (run) => {
      await publishStep(run);
      await verifyStep(run);
      lostStep(run);
    }),
};
