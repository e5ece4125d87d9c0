import type { Job, NightlyFlags } from '../src/app/job.ts';
import { runJob } from '../src/app/run.ts';
import { endOfPoll, marketsStep, publishStep, ticksStep, verifyStep } from '../src/app/steps.ts';

/** The main job: markets, ticks of every live symbol from its cursor on, publish, verify what changed. */
export const job: Job<NightlyFlags> = {
  name: 'nightly',
  schedule: '17 3 * * *',
  async run(context, { day }) {
    const end = endOfPoll(context, day);
    return runJob(context, 'nightly', { upstream: true }, async (run) => {
      await marketsStep(run);
      await ticksStep(run, end, []);
      await publishStep(run);
      await verifyStep(run);
    });
  },
};
