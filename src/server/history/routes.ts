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

/** `/api/v1/historical/…`: published data, as pages or as files. */
export function registerHistoricalRoutes(app: App, context: ServiceContext): void {
  const service = openHistoricalService(context);
  app.addHook('onClose', () => service.history.close());
  const add = <Query extends HistoricalQuery>(
    path: string,
    summary: string,
    querystring: TObject,
    responseSchema: TSchema,
    endpoint: HistoricalEndpoint<Query>,
  ): void => {
    const schema = { summary, tags: ['historical'], querystring, response: { 200: describeResponse(responseSchema) } };
    app.get(path, { schema }, async (request, reply) => {
      const signal = createDisconnectSignal(reply, context.signal);
      try {
        const scoped = scopeToKeyHolder(service, requireKeyHolder(request));
        return await respond(scoped, endpoint, request, reply, request.query as Query, signal);
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
    createMarketsEndpoint(service),
  );
  add(
    paths.historicalTicks,
    'Published ticks',
    HistoricalTicksQuery,
    contract.HistoricalTicksResponse,
    createTicksEndpoint(service),
  );
  add(
    paths.historicalCandles,
    'Candles',
    HistoricalCandlesQuery,
    contract.HistoricalCandlesResponse,
    createCandlesEndpoint(service),
  );
  add(
    paths.historicalCoverage,
    'Covered windows',
    HistoricalCoverageQuery,
    contract.HistoricalCoverageResponse,
    createCoverageEndpoint(service),
  );
  add(
    paths.historicalOrderbooks,
    'Published order-book snapshots',
    contract.HistoricalOrderbooksQuery,
    contract.HistoricalOrderbooksResponse,
    createOrderBooksEndpoint(service),
  );
}

const fileContentTypes = Object.values(fileFormats).map(({ type }) => type.split(';')[0]!);

const describeResponse = (responseSchema: TSchema) => ({
  description: 'A page as JSON, or the rows of the dataset as a file.',
  headers: {
    'oddslake-generation': Type.String({ description: 'Generation of the archive that was read.' }),
    'content-disposition': Type.String({ description: 'Name of the file; for files only.' }),
  },
  content: {
    'application/json': { schema: responseSchema },
    ...Object.fromEntries(fileContentTypes.map((type) => [type, { schema: { type: 'string', format: 'binary' } }])),
  },
});

async function respond<Query extends HistoricalQuery>(
  service: HistoricalService,
  endpoint: HistoricalEndpoint<Query>,
  request: FastifyRequest,
  reply: FastifyReply,
  query: Query,
  signal: AbortSignal,
): Promise<FastifyReply> {
  const format = negotiateFormat(query.format, request.headers.accept);
  reply.header('vary', 'Accept');
  if (format === 'json') {
    const release = await service.computeSemaphore.acquire(signal);
    try {
      const page = await endpoint.readPage(query, signal);
      reply.header('oddslake-generation', (page as { generation: number }).generation);
      return reply.send(page);
    } finally {
      release();
    }
  }
  if (query.cursor !== undefined) {
    const errors = [{ name: 'cursor', reason: 'requires format json' }];
    throw new ProblemError(400, 'Only JSON has pages: omit the cursor.', { errors });
  }
  const sliceRequest = { ...endpoint.createSlice(query), limit: query.limit ?? null };
  const { chunks, fileName, generation } = await openSliceResponse(service, sliceRequest, format, reply, signal);
  reply
    .header('oddslake-generation', generation)
    .header('content-disposition', `attachment; filename="${fileName}"`)
    .type(fileFormats[format].type);
  return sendChunks(request, reply, chunks);
}
