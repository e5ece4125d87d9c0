import { asksLists, booksStep } from '../src/app/books-step.ts';
import type { Job, OrderbookFlags } from '../src/app/job.ts';
import { noneListed } from '../src/app/polled-symbols.ts';
import { publishStep, verifyStep } from '../src/app/publish-step.ts';
import { runJob } from '../src/app/run.ts';
import { marketsStep } from '../src/app/steps.ts';

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
