import { type Job, runJob, type TicksFlags } from '../src/collector/job.ts';
import {
  listSuspendedNames,
  reportDataLoss,
  reportGaps,
  reportSuspendedSymbols,
} from '../src/collector/steps/gaps-step.ts';
import { computePollEnd, pollMarketLists, pollTicks } from '../src/collector/steps/poll-steps.ts';
import { hasNoListedSymbols } from '../src/collector/steps/polled-symbols.ts';
import { publishJournal, verifyPublishedFiles } from '../src/collector/steps/publish-step.ts';

/** Polls ticks up to now and publishes. */
export const job: Job<TicksFlags> = {
  name: 'ticks',
  async run(context, { symbols: requested, retriesSuspended }) {
    const end = computePollEnd(context, null);
    return runJob(context, 'ticks', { usesUpstream: true, symbols: requested }, async (run, named) => {
      const symbols = retriesSuspended === true && named.length === 0 ? listSuspendedNames(run) : named;
      if (retriesSuspended === true && symbols.length === 0) return;
      const usesMarketLists = symbols.length === 0 && context.settings.symbols.length === 0;
      if (usesMarketLists && hasNoListedSymbols(run)) await pollMarketLists(run);
      await pollTicks(run, end, symbols);
      await publishJournal(run, { keepsQuiet: true });
      await verifyPublishedFiles(run);
      reportGaps(run, { symbols, window: { from: Number.NEGATIVE_INFINITY, to: end }, isFromNamed: false });
      reportSuspendedSymbols(run);
      reportDataLoss(run);
    });
  },
};
