import type { Job } from '../src/app/job.ts';
import { lostStep } from '../src/app/lost-step.ts';
import { publishStep, verifyStep } from '../src/app/publish-step.ts';
import { runJob } from '../src/app/run.ts';

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
