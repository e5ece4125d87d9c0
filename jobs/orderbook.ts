import type { Job, OrderbookFlags } from '../src/app/job.ts';
import { runJob } from '../src/app/run.ts';
import { needsMarketLists, pollRequestedBooks } from '../src/app/steps/order-books-step.ts';
import { pollMarketLists } from '../src/app/steps/poll-steps.ts';
import { hasNoListedSymbols } from '../src/app/steps/polled-symbols.ts';
import { publishJournal, verifyPublishedFiles } from '../src/app/steps/publish-step.ts';

/** One poll of order books, published. */
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
