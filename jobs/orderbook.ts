import type { Job, OrderbookFlags } from '../src/app/job.ts';
import { runJob } from '../src/app/run.ts';
import { asksLists, booksStep } from '../src/app/steps/order-books-step.ts';
import { marketsStep } from '../src/app/steps/poll-steps.ts';
import { noneListed } from '../src/app/steps/polled-symbols.ts';
import { publishStep, verifyStep } from '../src/app/steps/publish-step.ts';

/** One poll of order books, published. */
export const job: Job<OrderbookFlags> = {
  name: 'orderbook',
  run: (context, { symbols }) =>
    runJob(context, 'orderbook', { upstream: true }, async (run) => {
      if (asksLists(run, symbols) && noneListed(run)) await marketsStep(run);
      await booksStep(run, symbols);
      await publishStep(run);
      await verifyStep(run);
    }),
};
