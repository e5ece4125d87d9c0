import type { RecordPaths } from '../../archive/format/parse-market.ts';
import { paths } from '../../contract/paths.ts';
import { ServedMarketsQuery, ServedMarketsResponse } from '../../contract/service.ts';
import { settingsSchema } from '../../settings/schema.ts';
import type { App, ServiceContext } from '../http/context.ts';
import { ProblemError } from '../http/problem-details.ts';
import { type MarketPoll, type MarketPollReader, openMarketPollReader, type PolledMarket } from './read-markets.ts';

/** Views of the documented interface; valid even if they were never polled. */
const namedViews = ['matched', 'resolving'];

/** `/api/v1/markets`: the market lists as last polled. */
export function registerMarketsRoutes(app: App, context: ServiceContext): void {
  const { archive, current, settings, clock, random } = context;
  const lists = openMarketPollReader(archive, current, createDefaultPaths(), random);
  app.get(
    paths.markets,
    {
      schema: {
        summary: 'Markets of a list, as last polled',
        description:
          'The records of the last poll of the upstream, with all their fields. `generated_at` is the time of that poll.',

        tags: ['realtime'],
        querystring: ServedMarketsQuery,
        response: { 200: ServedMarketsResponse },
      },
    },
    async (request, reply) => {
      const { view = 'matched', source, limit = Number.POSITIVE_INFINITY } = request.query;
      const polled = await lists.readLastPoll();
      const matching = polled.markets.filter(
        (market) => market.views.has(view) && (source === undefined || market.sources.has(source)),
      );
      if (matching.length === 0) await requireKnown(view, polled, lists, settings.source.views);
      const markets = matching.slice(0, Math.min(limit, settings.service.rowsLimitMax));
      const text = serializeMarkets(markets, matching.length, view, polled.polledAt ?? clock.nowMs());
      return reply.type('application/json; charset=utf-8').send(text as never);
    },
  );
}

/** The records are JSON texts already. */
function serializeMarkets(markets: readonly PolledMarket[], total: number, view: string, generatedAt: number): string {
  const rest = JSON.stringify({ count: markets.length, total, view, generated_at: generatedAt });
  return `{"markets":[${markets.map(({ text }) => text).join(',')}],${rest.slice(1)}`;
}

async function requireKnown(
  view: string,
  { markets }: MarketPoll,
  lists: MarketPollReader,
  configured: readonly string[],
): Promise<void> {
  const known = new Set([...namedViews, ...configured, ...markets.flatMap((market) => [...market.views])]);
  if (known.has(view)) return;
  const allViews = [...new Set([...known, ...(await lists.listViews())])];
  if (allViews.includes(view)) return;
  throw new ProblemError(400, 'Unknown view.', {
    errors: [{ name: 'view', reason: `must be one of ${allViews.join(', ')}` }],
  });
}

/** The default paths of a collector for reading records. */
function createDefaultPaths(): RecordPaths {
  const { symbol_paths, field_paths } = settingsSchema.properties.source.properties;
  const { question, source, opens_at, closes_at, resolved_at, outcome } = field_paths.properties;
  return {
    symbolPaths: symbol_paths.default,
    fieldPaths: {
      question: question.default,
      source: source.default,
      opensAt: opens_at.default,
      closesAt: closes_at.default,
      resolvedAt: resolved_at.default,
      outcome: outcome.default,
    },
  };
}
