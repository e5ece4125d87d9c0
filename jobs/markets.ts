import type { Job } from '../src/app/job.ts';
import { runJob } from '../src/app/run.ts';
import { marketsStep, shortListsStep } from '../src/app/steps/poll-steps.ts';
import { publishStep, verifyStep } from '../src/app/steps/publish-step.ts';

/** One poll of the market lists, published. */
export const job: Job = {
  name: 'markets',
  run: (context) =>
    runJob(context, 'markets', { upstream: true }, async (run) => {
      await marketsStep(run);
      shortListsStep(run);
      await publishStep(run);
      await verifyStep(run);
    }),
};
