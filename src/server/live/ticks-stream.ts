import { Readable } from 'node:stream';
import { Type } from 'typebox';
import { readSymbol } from '../../archive/journal/symbol-store.ts';
import { paths } from '../../contract/paths.ts';
import { eventStreamType, TickStreamHeaders, TickStreamQuery } from '../../contract/stream.ts';
import { isStillValid, requireKeyHolder } from '../auth/authenticate.ts';
import { createUnknownSymbolError } from '../http/problem-details.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import type { TickBroadcast } from './tick-broadcast.ts';

/** `/api/v1/ticks/stream`: ticks as they are journaled, as server-sent events. */
export function registerTickStreamRoutes(app: App, context: ServiceContext, streams: TickBroadcast): void {
  const { archive, clock, live } = context;

  async function requireKnown(symbol: string): Promise<void> {
    if (readSymbol(archive.state.db, symbol) !== undefined) return;
    await live?.refreshTicks(symbol, clock.nowMs());
    if (readSymbol(archive.state.db, symbol) === undefined) throw createUnknownSymbolError();
  }

  app.get(
    paths.ticksStream,
    {
      config: { data: { scope: 'read', datasets: ['ticks'] }, problems: [410] },
      schema: {
        operationId: 'streamTicks',
        summary: 'Ticks as they arrive',
        description:
          'Server-sent events: every tick of the symbols when it is journaled, each once, in the order of arrival. The data of the events `tick` and `revision` is an object with `symbol`, `t` and `p`; a `revision` has the new price of a tick that was known before. The first event is `ready`: the ticks that were journaled before it are in `/api/v1/ticks`. A client that reconnects sends the ID of the last event as `Last-Event-ID`, and gets everything that followed, also across publishes and restarts of the service, for `service.stream.keep_hours`; after that, 410. A heartbeat is sent after 15 s without an event. Imported ticks are not streamed.',
        tags: ['realtime'],
        querystring: TickStreamQuery,
        headers: TickStreamHeaders,
        response: {
          200: { description: 'A stream of events.', content: { [eventStreamType]: { schema: Type.String() } } },
        },
      },
    },
    async (request, reply) => {
      const symbols = [...new Set([request.query.symbol].flat())];
      for (const symbol of symbols) await requireKnown(symbol);
      reply.type(`${eventStreamType}; charset=utf-8`).header('x-accel-buffering', 'no');
      // HEAD has the headers of GET and no body.
      if (request.method === 'HEAD') return reply.send(Readable.from([]) as never);
      const { duration_seconds: seconds } = request.query;
      const body = await streams.open({
        symbols,
        lastEventId: request.headers['last-event-id'] ?? null,
        keyId: requireKeyHolder(request).id,
        durationMs: seconds === undefined ? null : seconds * 1000,
        isPermitted: () => isStillValid(context, request),
      });
      // The client may have disconnected meanwhile.
      if (reply.raw.destroyed) body.destroy();
      return reply.send(body as never);
    },
  );
  app.addHook('preClose', () => streams.close());
}
