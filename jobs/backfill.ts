import { readAllSymbols } from '../src/archive/journal/symbols.ts';
import { type BackfillFlags, type Job, runJob } from '../src/collector/job.ts';
import { confirmRequestsPerWindow, estimateRequests } from '../src/collector/paging/plan.ts';
import { reportDataLoss, reportGaps, reportSuspendedSymbols } from '../src/collector/steps/gaps-step.ts';
import { collectPlans, createBackfillPlans, pollMarketLists } from '../src/collector/steps/poll-steps.ts';
import { publishJournal, verifyPublishedFiles } from '../src/collector/steps/publish-step.ts';

/** Fetches the uncovered windows of a past time range. */
export const job: Job<BackfillFlags> = {
  name: 'backfill',
  run: (context, { window, symbols: requested, showPlan, ...how }) =>
    runJob(context, 'backfill', { usesUpstream: true, symbols: requested }, async (run, symbols) => {
      const { settings } = run.context;
      if (symbols.length === 0 && readAllSymbols(run.archive.state.db, run.source).length === 0)
        await pollMarketLists(run);
      const range = { from: window.from, to: Math.min(window.to, context.clock.nowMs()) };
      const { plans, facts } = createBackfillPlans(run, range, symbols, how);
      if (showPlan !== null) {
        const { pageLimit } = settings.poll;
        const requests = plans.reduce(
          (sum, plan) => sum + estimateRequests(plan, facts.get(plan.symbol)!, pageLimit),
          0,
        );
        const windows = plans.reduce((sum, plan) => sum + plan.windows.length, 0);
        const confirmRequests = how.recheckInferred === true ? confirmRequestsPerWindow * windows : 0;
        const expectedSeconds = (requests + confirmRequests) / settings.upstream.requestsPerSecond;
        const { source } = run;
        showPlan({ source, plans, windows, expectedRequests: requests + confirmRequests, expectedSeconds });
        return;
      }
      await collectPlans(run, plans, 'backfill');
      await publishJournal(run);
      await verifyPublishedFiles(run);
      reportGaps(run, { symbols, window: range, isFromNamed: true });
      reportSuspendedSymbols(run);
      reportDataLoss(run);
    }),
};
