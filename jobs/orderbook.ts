import { UsageError } from '../src/base/errors.ts';
import { isSymbolOf } from '../src/base/source-name.ts';
import { type Job, type OrderbookFlags, runJob } from '../src/collector/job.ts';
import { needsMarketLists, pollRequestedBooks } from '../src/collector/steps/order-books-step.ts';
import { pollMarketLists } from '../src/collector/steps/poll-steps.ts';
import { hasNoListedSymbols } from '../src/collector/steps/polled-symbols.ts';
import { publishJournal, verifyPublishedFiles } from '../src/collector/steps/publish-step.ts';
import type { Context } from '../src/context/context.ts';

/** Polls order books once and publishes. */
export const job: Job<OrderbookFlags> = {
  name: 'orderbook',
  async run(context, { symbols: chosen }) {
    const requested = chosen.length > 0 || context.settings.orderbooks.allLive ? chosen : listConfigured(context);
    return runJob(context, 'orderbook', { usesUpstream: true, symbols: requested }, async (run, symbols) => {
      if (needsMarketLists(run, symbols) && hasNoListedSymbols(run)) await pollMarketLists(run);
      await pollRequestedBooks(run, symbols);
      await publishJournal(run);
      await verifyPublishedFiles(run);
    });
  },
};

/**
 * The symbols of the settings, of the chosen sources. A source of which the settings name no order book is not polled.
 * @throws UsageError if the settings name order books, and none of a chosen source
 */
function listConfigured({ settings, sources: chosen = [] }: Context): readonly string[] {
  const { symbols } = settings.orderbooks;
  if (chosen.length === 0 || symbols.length === 0) return symbols;
  const selected = symbols.filter((symbol) => chosen.some((source) => isSymbolOf(source, symbol)));
  // An unknown source is refused later, and so is any source of an archive of one service.
  const isKnown = chosen.every((source) => settings.sources.some(({ name }) => name === source));
  if (selected.length === 0 && isKnown)
    throw new UsageError(`orderbooks.symbols names no symbol of ${chosen.join(', ')}. Name one with --symbol.`);
  return selected;
}
