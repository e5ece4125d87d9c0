import { dayMs } from '../src/base/window.ts';
import { type Job, type NightlyFlags, runJob } from '../src/collector/job.ts';
import { reportDataLoss, reportGaps, reportSuspendedSymbols } from '../src/collector/steps/gaps-step.ts';
import { pollConfiguredBooks } from '../src/collector/steps/order-books-step.ts';
import { computePollEnd, pollMarketLists, pollTicks } from '../src/collector/steps/poll-steps.ts';
import { publishJournal, verifyPublishedFiles } from '../src/collector/steps/publish-step.ts';
import { finishNight, recheckCoverage } from '../src/collector/steps/recheck-step.ts';
import { warnOfUnmatchedSelectors } from '../src/collector/steps/selection-step.ts';

/**
 * The main job. Polls the market lists, the ticks of every live symbol from its cursor, and order books; rechecks a sample of
 * the coverage; publishes; verifies the published files; pushes them to the bucket of the settings, if there is one.
 */
export const job: Job<NightlyFlags> = {
  name: 'nightly',
  async run(context, { day }) {
    const end = computePollEnd(context, day);
    return runJob(context, 'nightly', { usesUpstream: true, pushes: true }, async (run) => {
      await pollMarketLists(run);
      warnOfUnmatchedSelectors(run);
      await pollTicks(run, end, [], true);
      // The service has only current order books, so a poll of a past day skips them.
      if (day === null || day + dayMs > end) await pollConfiguredBooks(run);
      const damage = await recheckCoverage(run, end);
      await publishJournal(run, { keepsQuiet: true });
      if (damage !== null) throw damage;
      finishNight(run, end);
      await verifyPublishedFiles(run);
      reportGaps(run, { symbols: [], window: { from: Number.NEGATIVE_INFINITY, to: end }, isFromNamed: false });
      reportSuspendedSymbols(run);
      reportDataLoss(run);
    });
  },
};
