import { Type } from 'typebox';
import { symbolsMax, textMax } from './historical.ts';

/** `GET /api/v1/ticks/stream`: an extension of oddslake. */
export const TickStreamQuery = Type.Object(
  {
    symbol: Type.Unsafe<string | readonly string[]>({
      type: ['string', 'array'],
      minLength: 1,
      maxLength: textMax,
      items: { type: 'string', minLength: 1, maxLength: textMax },
      minItems: 1,
      maxItems: symbolsMax,
      description: `The symbol to stream; an unknown symbol gives 404. May be given up to ${symbolsMax} times.`,
    }),
    duration_seconds: Type.Optional(
      Type.Integer({
        minimum: 1,
        maximum: 86_400,
        description:
          'End of the stream, in seconds after its start, for clients that process a response only when it has ended. By default the stream has no end.',
      }),
    ),
  },
  { additionalProperties: false },
);
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
