import type { Job, NightlyFlags } from '../src/app/job.ts';
import { runJob } from '../src/app/run.ts';
import { gapsStep } from '../src/app/steps/gaps-step.ts';
import { nightStep } from '../src/app/steps/nightly-stats-step.ts';
import { configuredBooksStep } from '../src/app/steps/order-books-step.ts';
import { endOfPoll, marketsStep, ticksStep } from '../src/app/steps/poll-steps.ts';
import { publishStep, verifyStep } from '../src/app/steps/publish-step.ts';
import { recheckStep } from '../src/app/steps/recheck-step.ts';
import { lostStep } from '../src/app/steps/report-data-loss.ts';
import { suspendedStep } from '../src/app/steps/suspended-step.ts';
import { dayMs } from '../src/core/window.ts';

/** The main job: markets, ticks of every live symbol from its cursor on, order books, rechecks of a sample, publish, verify what changed. */
export const job: Job<NightlyFlags> = {
  name: 'nightly',
  async run(context, { day }) {
    const end = endOfPoll(context, day);
    return runJob(context, 'nightly', { upstream: true }, async (run) => {
      const markets = await marketsStep(run);
      await ticksStep(run, end, []);
      // Books are of the present: a poll of a past day has none, and repeated changes nothing.
      if (day === null || day + dayMs > end) await configuredBooksStep(run);
      const damage = await recheckStep(run, end);
      await publishStep(run);
      if (damage !== null) throw damage;
      nightStep(run, end, markets);
      await verifyStep(run);
      gapsStep(run, { symbols: [], window: { from: Number.NEGATIVE_INFINITY, to: end }, fromNamed: false });
      suspendedStep(run);
      lostStep(run);
    });
  },
};
