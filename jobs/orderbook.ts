import { type Job, type OrderbookFlags, runJob } from '../src/collector/job.ts';
import { needsMarketLists, pollRequestedBooks } from '../src/collector/steps/order-books-step.ts';
import { pollMarketLists } from '../src/collector/steps/poll-steps.ts';
import { hasNoListedSymbols } from '../src/collector/steps/polled-symbols.ts';
import { publishJournal, verifyPublishedFiles } from '../src/collector/steps/publish-step.ts';

/** Polls order books once and publishes. */
export const job: Job<OrderbookFlags> = {
  name: 'orderbook',
  run: (context, { symbols }) =>
    runJob(context, 'orderbook', { usesUpstream: true }, async (run) => {
      if (needsMarketLists(run, symbols) && hasNoListedSymbols(run)) await pollMarketLists(run);
      await pollRequestedBooks(run, symbols);
      await publishJournal(run);
      await verifyPublishedFiles(run);
    }),
};
