import { paths } from '../../contract/paths.ts';
import { stateLimitMax, stateValues } from '../../contract/query-parameters.ts';
import { ServedMarketsQuery, ServedMarketsResponse } from '../../contract/service.ts';
import { listSourceSettings } from '../../settings/settings.ts';
import { setDataTime } from '../http/data-time.ts';
import { ProblemError } from '../http/problem-details.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import { type MarketPoll, type MarketPollReader, openMarketPollReader, type PolledMarket } from './market-polls.ts';

/** Views of the documented interface; valid even if they were never polled. */
const namedViews = ['matched', 'resolving'];

/** `/api/v1/markets`: the market lists as last polled. */
export function registerMarketsRoutes(app: App, context: ServiceContext): void {
  const { archive, current, settings, clock, random, live } = context;
  const lists = openMarketPollReader(archive, current, random);
  const configuredViews = [...new Set(listSourceSettings(settings).flatMap(({ source }) => source.views))];
  const querystring = stateLimitMax(ServedMarketsQuery, settings.service.rowsLimitMax);
  app.get(
    paths.markets,
    {
      config: {
        data: { scope: 'read', datasets: ['markets'] },
        // The views that were polled under earlier settings are in the archive only; the route checks them itself.
        query: stateValues(querystring, 'view', [...new Set([...namedViews, ...configuredViews])]),
      },
      schema: {
        operationId: 'listMarkets',
        summary: 'Markets of a list, as last polled',
        description:
          'The records of the last poll of the upstream, with all their fields. `data_time` is the time of that poll. Of several sources, the records are those of the last poll of each, and `data_time` is that of the source polled longest ago.',
        tags: ['realtime'],
        querystring,
        response: { 200: ServedMarketsResponse },
      },
    },
    async (request, reply) => {
      const { view = 'matched', source, limit = Number.POSITIVE_INFINITY } = request.query;
      let polled = await lists.readLastPoll();
      if (live) {
        await live.refreshMarkets(polled.polledAtBySource);
        polled = await lists.readLastPoll();
      }
      setDataTime(reply, polled.polledAt);
      const matching = polled.markets.filter(
        (market) => market.views.has(view) && (source === undefined || market.sources.has(source)),
      );
      if (matching.length === 0) await requireKnown(view, polled, lists, configuredViews);
      const markets = matching.slice(0, Math.min(limit, settings.service.rowsLimitMax));
      const text = serializeMarkets(markets, view, {
        total: matching.length,
        generated_at: clock.nowMs(),
        data_time: polled.polledAt,
      });
      return reply.type('application/json; charset=utf-8').send(text as never);
    },
  );
}

/** The records are JSON texts already. */
function serializeMarkets(
  markets: readonly PolledMarket[],
  view: string,
  { total, ...times }: { readonly total: number; readonly generated_at: number; readonly data_time: number | null },
): string {
  const rest = JSON.stringify({ count: markets.length, total, view, ...times });
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
    code: 'invalid_parameter',
    errors: [{ name: 'view', reason: `must be one of ${allViews.join(', ')}` }],
  });
}
