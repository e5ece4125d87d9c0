import { type Job, runJob } from '../src/collector/job.ts';
import { pollMarketLists } from '../src/collector/steps/poll-steps.ts';
import { publishJournal, verifyPublishedFiles } from '../src/collector/steps/publish-step.ts';

/** Polls the market lists once and publishes. */
export const job: Job = {
  name: 'markets',
  run: (context) =>
    runJob(context, 'markets', { usesUpstream: true }, async (run) => {
      await pollMarketLists(run);
      await publishJournal(run, { keepsQuiet: true });
      await verifyPublishedFiles(run);
    }),
};
