import { Type } from 'typebox';
import { closed } from './export-manifest.ts';
import { SymbolsParameter } from './historical.ts';

/** `GET /api/v1/ticks/stream`: an extension of oddslake. */
export const TickStreamQuery = closed({
  symbol: SymbolsParameter('The symbol to stream', { minItems: 1 }),
  duration_seconds: Type.Optional(
    Type.Integer({
      minimum: 1,
      maximum: 86_400,
      description:
        'End of the stream, in seconds after its start, for clients that process a response only when it has ended. By default the stream has no end.',
    }),
  ),
});
export type TickStreamQuery = Type.Static<typeof TickStreamQuery>;

export const TickStreamHeaders = Type.Object({
  'last-event-id': Type.Optional(
    Type.String({
      maxLength: 100,
      description:
        'The `id` of the last event that the client has received: the stream continues after it. By default the stream begins with the next tick.',
    }),
  ),
});

/** Media type of server-sent events: https://html.spec.whatwg.org/multipage/server-sent-events.html */
export const eventStreamType = 'text/event-stream';
