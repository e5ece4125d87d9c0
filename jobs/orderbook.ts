import { type Job, type OrderbookFlags, runJob } from '../src/collector/job.ts';
import { needsMarketLists, pollRequestedBooks } from '../src/collector/steps/order-books-step.ts';
import { pollMarketLists } from '../src/collector/steps/poll-steps.ts';
import { hasNoListedSymbols } from '../src/collector/steps/polled-symbols.ts';
import { publishJournal, verifyPublishedFiles } from '../src/collector/steps/publish-step.ts';

/** Polls order books once and publishes. */
export const job: Job<OrderbookFlags> = {
  name: 'orderbook',
  run(context, { symbols: chosen }) {
    const { symbols: configured, allLive } = context.settings.orderbooks;
    // A source of which the settings name no order book is not polled.
    const requested = chosen.length > 0 || allLive ? chosen : configured;
    return runJob(context, 'orderbook', { usesUpstream: true, symbols: requested }, async (run, symbols) => {
      if (needsMarketLists(run, symbols) && hasNoListedSymbols(run)) await pollMarketLists(run);
      await pollRequestedBooks(run, symbols);
      await publishJournal(run);
      await verifyPublishedFiles(run);
    });
  },
};
