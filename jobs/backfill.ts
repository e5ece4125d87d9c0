import type { BackfillFlags, Job } from '../src/app/job.ts';
import { runJob } from '../src/app/run.ts';
import { gapsStep } from '../src/app/steps/gaps-step.ts';
import { backfillPlans, collectPlans, marketsStep } from '../src/app/steps/poll-steps.ts';
import { publishStep, verifyStep } from '../src/app/steps/publish-step.ts';
import { lostStep } from '../src/app/steps/report-data-loss.ts';
import { suspendedStep } from '../src/app/steps/suspended-step.ts';
import { confirmRequests, expectedRequests } from '../src/ingest/plan.ts';
import { allSymbols } from '../src/state/symbols.ts';

/** Fetches the windows of the past that coverage lacks. */
export const job: Job<BackfillFlags> = {
  name: 'backfill',
  run: (context, { window, symbols, showPlan, ...how }) =>
    runJob(context, 'backfill', { upstream: true }, async (run) => {
      if (symbols.length === 0 && allSymbols(run.archive.state.db).length === 0) await marketsStep(run);
      const until = { from: window.from, to: Math.min(window.to, context.clock.nowMs()) };
      const { plans, facts } = backfillPlans(run, until, symbols, how);
      if (showPlan !== null) {
        const { pageLimit } = context.settings.poll;
        const requests = plans.reduce(
          (sum, plan) => sum + expectedRequests(plan, facts.get(plan.symbol)!, pageLimit),
          0,
        );
        const windows = plans.reduce((sum, plan) => sum + plan.windows.length, 0);
        const confirming = how.recheckInferred === true ? confirmRequests * windows : 0;
        const expectedSeconds = (requests + confirming) / context.settings.upstream.requestsPerSecond;
        showPlan({ plans, windows, expectedRequests: requests + confirming, expectedSeconds });
        return;
      }
      await collectPlans(run, plans, 'backfill');
      await publishStep(run);
      await verifyStep(run);
      gapsStep(run, { symbols, window: until, fromNamed: true });
      suspendedStep(run);
      lostStep(run);
    }),
};
