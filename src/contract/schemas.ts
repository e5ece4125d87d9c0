import { Type } from 'typebox';
import { closed, titled } from './export-manifest.ts';
import { Limit, TimeParameter } from './query-parameters.ts';

/*
 * The documented part of the market data service. `additionalProperties` is not set, because the documentation allows
 * further fields in every payload. src/client decodes responses without these schemas and tolerates more than they allow.
 */

const EpochMs = (description: string) => Type.Integer({ description: `${description}, epoch milliseconds UTC.` });

const Tick = titled('Tick', {
  t: EpochMs('Tick time'),
  p: Type.Number({ description: 'Tick price, a decimal fraction.' }),
});

export const TicksQuery = closed({
  symbol: Type.String({ minLength: 1, description: 'Market symbol.' }),
  from: Type.Optional(
    TimeParameter(
      'Window start, inclusive, epoch milliseconds UTC. If absent, the response has the latest ticks before `to`.',
    ),
  ),
  to: Type.Optional(
    TimeParameter(
      'Window end, exclusive, epoch milliseconds UTC; must be after `from`. The default is the current time. Later times are reduced to it.',
    ),
  ),
  limit: Type.Optional(
    Limit(
      'Maximum number of ticks. The default is 1,000. Larger values are reduced to the maximum of the service (service.ticks_limit_max).',
    ),
  ),
});
export type TicksQuery = Type.Static<typeof TicksQuery>;

/** A gap in the window of the response: an extension of oddslake, absent if there are no gaps. */
export const DeclaredGap = titled('Gap', {
  from: EpochMs('Start of the gap, inclusive'),
  to: EpochMs('End of the gap, exclusive'),
  reason: Type.Optional(
    Type.Literal('lost', {
      description: 'The ticks were published once and are lost; absent if they were never fetched.',
    }),
  ),
});
export type DeclaredGap = Type.Static<typeof DeclaredGap>;

export const TicksResponse = titled('TicksResponse', {
  symbol: Type.String({ description: 'Echo of the requested symbol.' }),
  ticks: Type.Array(Tick),
  count: Type.Integer({ minimum: 0, description: 'Number of ticks returned.' }),
  from: EpochMs('Start of the window covered'),
  to: EpochMs('End of the window covered'),
  generated_at: EpochMs('When the response was generated'),
  data_time: Type.Optional(
    Type.Union([Type.Integer(), Type.Null()], {
      description:
        'End of the covered part of the window, epoch milliseconds UTC: later ticks are not known yet. Null if no part is covered. An extension of oddslake.',
    }),
  ),
  gaps: Type.Optional(
    Type.Array(DeclaredGap, {
      description:
        'Windows inside [from, to) that are not covered, at most 1,000. If there are more, the last one spans all further gaps.',
      maxItems: 1000,
    }),
  ),
});
export type TicksResponse = Type.Static<typeof TicksResponse>;
