import { type Job, runJob } from '../src/collector/job.ts';
import { reportDataLoss } from '../src/collector/steps/gaps-step.ts';
import { publishJournal, verifyPublishedFiles } from '../src/collector/steps/publish-step.ts';

/** Merges the journal into the day partitions. */
export const job: Job = {
  name: 'publish',
  run: (context) =>
    runJob(context, 'publish', { usesUpstream: false }, async (run) => {
      await publishJournal(run);
      await verifyPublishedFiles(run);
      reportDataLoss(run);
    }),
};
