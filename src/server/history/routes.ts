import type { FastifyReply, FastifyRequest } from 'fastify';
import { type TObject, type TSchema, Type } from 'typebox';
import * as contract from '../../contract/historical.ts';
import { paths } from '../../contract/paths.ts';
import { requireKeyHolder } from '../auth/authenticate.ts';
import type { App, ServiceContext } from '../http/context.ts';
import { ProblemError } from '../http/problem-details.ts';
import { createDisconnectSignal, sendChunks, toRequestError } from '../http/stream-response.ts';
import {
  createCandlesEndpoint,
  createCoverageEndpoint,
  createMarketsEndpoint,
  createOrderBooksEndpoint,
  createTicksEndpoint,
} from './endpoints.ts';
import {
  type HistoricalEndpoint,
  type HistoricalService,
  openHistoricalService,
  scopeToKeyHolder,
} from './historical-service.ts';
import { fileFormats, negotiateFormat, openSliceResponse } from './slice-response.ts';

interface HistoricalQuery {
  readonly format?: contract.HistoricalFormat;
  readonly cursor?: string;
  readonly limit?: number;
}

/** `/api/v1/historical/…`: what is published, a page at a time or as files. */
export function registerHistoricalRoutes(app: App, context: ServiceContext): void {
  const desk = openHistoricalService(context);
  app.addHook('onClose', () => desk.history.close());
  const add = <Query extends HistoricalQuery>(
    path: string,
    summary: string,
    querystring: TObject,
    answer: TSchema,
    endpoint: HistoricalEndpoint<Query>,
  ): void => {
    const schema = { summary, tags: ['historical'], querystring, response: { 200: describeResponse(answer) } };
    app.get(path, { schema }, async (request, reply) => {
      const signal = createDisconnectSignal(reply, context.signal);
      try {
        const own = scopeToKeyHolder(desk, requireKeyHolder(request as unknown as FastifyRequest));
        return await respond(own, endpoint, request, reply, request.query as Query, signal);
      } catch (error) {
        throw toRequestError(error, signal, context.signal);
      }
    });
  };
  const { HistoricalMarketsQuery, HistoricalTicksQuery, HistoricalCandlesQuery, HistoricalCoverageQuery } = contract;
  add(
    paths.historicalMarkets,
    'Market metadata over time',
    HistoricalMarketsQuery,
    contract.HistoricalMarketsResponse,
    createMarketsEndpoint(desk),
  );
  add(
    paths.historicalTicks,
    'Published ticks',
    HistoricalTicksQuery,
    contract.HistoricalTicksResponse,
    createTicksEndpoint(desk),
  );
  add(
    paths.historicalCandles,
    'Candles',
    HistoricalCandlesQuery,
    contract.HistoricalCandlesResponse,
    createCandlesEndpoint(desk),
  );
  add(
    paths.historicalCoverage,
    'What was asked for and answered',
    HistoricalCoverageQuery,
    contract.HistoricalCoverageResponse,
    createCoverageEndpoint(desk),
  );
  add(
    paths.historicalOrderbooks,
    'Published order-book snapshots',
    contract.HistoricalOrderbooksQuery,
    contract.HistoricalOrderbooksResponse,
    createOrderBooksEndpoint(desk),
  );
}

const fileContentTypes = Object.values(fileFormats).map(({ type }) => type.split(';')[0]!);

const describeResponse = (answer: TSchema) => ({
  description: 'A page as JSON, or the rows of the dataset as a file.',
  headers: {
    'oddslake-generation': Type.String({ description: 'The generation of the archive that all of it is from.' }),
    'content-disposition': Type.String({ description: 'The name of the file; of files only.' }),
  },
  content: {
    'application/json': { schema: answer },
    ...Object.fromEntries(fileContentTypes.map((type) => [type, { schema: { type: 'string', format: 'binary' } }])),
  },
});

async function respond<Query extends HistoricalQuery>(
  desk: HistoricalService,
  endpoint: HistoricalEndpoint<Query>,
  request: FastifyRequest,
  reply: FastifyReply,
  query: Query,
  signal: AbortSignal,
): Promise<FastifyReply> {
  const format = negotiateFormat(query.format, request.headers.accept);
  reply.header('vary', 'Accept');
  if (format === 'json') {
    const leave = await desk.computeSemaphore.acquire(signal);
    try {
      const page = await endpoint.readPage(query, signal);
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
  const asked = { ...endpoint.createSlice(query), limit: query.limit ?? null };
  const { chunks, fileName, generation } = await openSliceResponse(desk, asked, format, reply, signal);
  reply
    .header('oddslake-generation', generation)
    .header('content-disposition', `attachment; filename="${fileName}"`)
    .type(fileFormats[format].type);
  return sendChunks(request, reply, chunks);
}
