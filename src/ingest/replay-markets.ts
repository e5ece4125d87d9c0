import { UpstreamError } from '../core/errors.ts';
import type { RawPage } from '../core/raw-page.ts';
import { decodeMarketsPage } from '../upstream/decode.ts';
import { UnreadableResponseError } from '../upstream/json-response.ts';
import type { MarketsPage, Upstream } from '../upstream/upstream.ts';
import { resolveObservedAt } from './observation-time.ts';
import { type MarketsPoll, type MarketsPollContext, pollMarkets } from './poll-markets.ts';

export interface ReplayMarketsContext extends Omit<MarketsPollContext, 'upstream'> {
  /** Told of each answer that cannot be decoded, with a clause. */
  onUnreadable(reason: string): void;
}

/**
 * Polls the market lists again, the answers of one poll being those that were kept of it: in order, as they came. A list
 * that is asked for now and was not had then makes the poll an incomplete one, so that it says of no market that it is gone.
 * @throws UpstreamError where no list can be had of them
 */
export function replayMarkets(pages: readonly RawPage[], context: ReplayMarketsContext): Promise<MarketsPoll> {
  const answers = pages.flatMap((page) => (page.asked.route === 'markets' ? [{ page, asked: page.asked }] : []));
  const views = answers.flatMap(({ asked }) => asked.view ?? []);
  const limit = answers[0]?.asked.limit ?? context.limit;
  return pollMarkets({
    ...context,
    limit,
    views: [...new Set([...views, ...context.views])],
    // Judged below, by the clock of then.
    futureSkewMs: Number.POSITIVE_INFINITY,
    upstream: { markets: (query) => Promise.resolve().then(() => answerTo(query)) },
  });

  function answerTo({ view, source, limit: wanted }: Parameters<Upstream['markets']>[0]): MarketsPage {
    for (const { page, asked } of answers) {
      const same = asked.view === (view ?? null) && asked.source === (source ?? null);
      if (!same || asked.limit !== (wanted ?? null)) continue;
      try {
        const { generatedAt, ...list } = decodeMarketsPage(page.body);
        return {
          ...list,
          generatedAt: resolveObservedAt(generatedAt, page.askedAt, page.receivedAt + context.futureSkewMs),
        };
      } catch (error) {
        if (!(error instanceof UnreadableResponseError)) throw error;
        context.onUnreadable(error.message);
      }
    }
    // As a service that does not take the limit: then, too, the list may have been had without one.
    throw new UpstreamError('market list', {
      failure: 'refused',
      status: 400,
      reason: 'it is not among the answers kept',
    });
  }
}
