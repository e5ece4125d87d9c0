import type { FastifyReply, FastifyRequest } from 'fastify';
import { type TObject, type TSchema, Type } from 'typebox';
import * as contract from '../../contract/historical.ts';
import { paths } from '../../contract/paths.ts';
import { fileFormats, formatAsked } from '../content-negotiation.ts';
import type { ServiceContext } from '../context.ts';
import { openSlice } from '../export-slice.ts';
import type { App } from '../fastify-types.ts';
import { type Desk, deskOf, type Endpoint, openDesk } from '../historical-service.ts';
import { ProblemError } from '../problem-details.ts';
import { holderOf } from '../route-access.ts';
import { sendPieces, untilGone, whyEnded } from '../stream-response.ts';
import { markets } from './historical-markets.ts';
import { candles, coverage, orderbooks, ticks } from './historical-rows.ts';

interface AnyQuery {
  readonly format?: contract.HistoricalFormat;
  readonly cursor?: string;
  readonly limit?: number;
}

/** `/api/v1/historical/…`: what is published, a page at a time or as files. */
export function historicalRoutes(app: App, context: ServiceContext): void {
  const desk = openDesk(context);
  app.addHook('onClose', () => desk.history.close());
  const add = <Query extends AnyQuery>(
    path: string,
    summary: string,
    querystring: TObject,
    answer: TSchema,
    endpoint: Endpoint<Query>,
  ): void => {
    const schema = { summary, tags: ['historical'], querystring, response: { 200: answerOf(answer) } };
    app.get(path, { schema }, async (request, reply) => {
      const signal = untilGone(reply, context.signal);
      try {
        const own = deskOf(desk, holderOf(request as unknown as FastifyRequest));
        return await respond(own, endpoint, request, reply, request.query as Query, signal);
      } catch (error) {
        throw whyEnded(error, signal, context.signal);
      }
    });
  };
  const { HistoricalMarketsQuery, HistoricalTicksQuery, HistoricalCandlesQuery, HistoricalCoverageQuery } = contract;
  add(
    paths.historicalMarkets,
    'Market metadata over time',
    HistoricalMarketsQuery,
    contract.HistoricalMarketsAnswer,
    markets(desk),
  );
  add(paths.historicalTicks, 'Published ticks', HistoricalTicksQuery, contract.HistoricalTicksAnswer, ticks(desk));
  add(paths.historicalCandles, 'Candles', HistoricalCandlesQuery, contract.HistoricalCandlesAnswer, candles(desk));
  add(
    paths.historicalCoverage,
    'What was asked for and answered',
    HistoricalCoverageQuery,
    contract.HistoricalCoverageAnswer,
    coverage(desk),
  );
  add(
    paths.historicalOrderbooks,
    'Published order-book snapshots',
    contract.HistoricalOrderbooksQuery,
    contract.HistoricalOrderbooksAnswer,
    orderbooks(desk),
  );
}

const files = Object.values(fileFormats).map(({ type }) => type.split(';')[0]!);

const answerOf = (answer: TSchema) => ({
  description: 'A page as JSON, or the rows of the dataset as a file.',
  headers: {
    'oddslake-generation': Type.String({ description: 'The generation of the archive that all of it is from.' }),
    'content-disposition': Type.String({ description: 'The name of the file; of files only.' }),
  },
  content: {
    'application/json': { schema: answer },
    ...Object.fromEntries(files.map((type) => [type, { schema: { type: 'string', format: 'binary' } }])),
  },
});

async function respond<Query extends AnyQuery>(
  desk: Desk,
  endpoint: Endpoint<Query>,
  request: FastifyRequest,
  reply: FastifyReply,
  query: Query,
  signal: AbortSignal,
): Promise<FastifyReply> {
  const format = formatAsked(query.format, request.headers.accept);
  reply.header('vary', 'Accept');
  if (format === 'json') {
    const leave = await desk.computing.enter(signal);
    try {
      const page = await endpoint.page(query, signal);
      reply.header('oddslake-generation', (page as { generation: number }).generation);
      return reply.send(page);
    } finally {
      leave();
    }
  }
  if (query.cursor !== undefined) {
    const errors = [{ name: 'cursor', reason: 'goes with JSON only' }];
    throw new ProblemError(400, 'Only JSON comes in pages: leave out the cursor.', { errors });
  }
  const asked = { ...endpoint.slice(query), limit: query.limit ?? null };
  const { pieces, fileName, generation } = await openSlice(desk, asked, format, reply, signal);
  reply
    .header('oddslake-generation', generation)
    .header('content-disposition', `attachment; filename="${fileName}"`)
    .type(fileFormats[format].type);
  return sendPieces(request, reply, pieces);
}
