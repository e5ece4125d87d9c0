import { readAllSymbols } from '../src/archive/journal/symbol-store.ts';
import { type BackfillFlags, type Job, runJob } from '../src/collector/job.ts';
import { estimatePlans, expectRequestRate } from '../src/collector/steps/estimate-step.ts';
import {
  reportDataLoss,
  reportGaps,
  reportSuspendedSymbols,
  reportUnjudgedBackfill,
} from '../src/collector/steps/gaps-step.ts';
import { collectPlans, createBackfillPlans, pollMarketLists } from '../src/collector/steps/poll-steps.ts';
import { publishJournal, verifyPublishedFiles } from '../src/collector/steps/publish-step.ts';

/** Fetches the uncovered windows of a past time range. */
export const job: Job<BackfillFlags> = {
  name: 'backfill',
  run: (context, { window, symbols: requested, showPlan, ...how }) =>
    runJob(
      context,
      'backfill',
      { usesUpstream: true, symbols: requested, isDryRun: showPlan !== null },
      async (run, symbols) => {
        // A dry run sends no request.
        const isFirst = symbols.length === 0 && readAllSymbols(run.archive.state.db, run.source).length === 0;
        if (isFirst && showPlan === null) await pollMarketLists(run);
        const range = { from: window.from, to: Math.min(window.to, context.clock.nowMs()) };
        const { plans, facts } = createBackfillPlans(run, range, symbols, how);
        if (showPlan !== null) {
          const { source } = run;
          const rate = expectRequestRate(run.context, run.archive.state.db, source);
          showPlan({ source, plans, rate, isFirst, ...estimatePlans(run, plans, facts, false) });
          return;
        }
        await collectPlans(run, plans, 'backfill');
        await publishJournal(run);
        await verifyPublishedFiles(run);
        reportUnjudgedBackfill(run, range);
        reportGaps(run, { symbols, window: range, isFromNamed: true });
        reportSuspendedSymbols(run);
        reportDataLoss(run);
      },
    ),
};
