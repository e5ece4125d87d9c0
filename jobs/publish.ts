import type { Job } from '../src/app/job.ts';
import { runJob } from '../src/app/run.ts';
import { reportDataLoss } from '../src/app/steps/gaps-step.ts';
import { publishJournal, verifyPublishedFiles } from '../src/app/steps/publish-step.ts';

/** Merges what is journaled into the day partitions. */
export const job: Job = {
  name: 'publish',
  run: (context) =>
    runJob(context, 'publish', { usesUpstream: false }, async (run) => {
      await publishJournal(run);
      await verifyPublishedFiles(run);
      reportDataLoss(run);
    }),
};
