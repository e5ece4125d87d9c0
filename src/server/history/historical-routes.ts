import type { FastifyReply, FastifyRequest } from 'fastify';
import { type TObject, type TSchema, Type } from 'typebox';
import { type DatasetName, datasetNames, datasets } from '../../archive/format/datasets.ts';
import { listFilesWithRows, type PublishedFile } from '../../archive/format/manifest.ts';
import { dayMs } from '../../base/window.ts';
import * as contract from '../../contract/historical.ts';
import * as series from '../../contract/historical-series.ts';
import { paths } from '../../contract/paths.ts';
import { stateLimitMax } from '../../contract/query-parameters.ts';
import { requireKeyHolder } from '../auth/authenticate.ts';
import type { RouteData } from '../auth/key-permissions.ts';
import { createNotCsvError, createNotPagedError, ProblemError } from '../http/problem-details.ts';
import type { ResponseCache } from '../http/response-cache.ts';
import type { App, ServiceContext } from '../http/service-context.ts';
import { createDisconnectSignal, sendChunks, toRequestError } from '../http/stream-response.ts';
import {
  createCandlesEndpoint,
  createCoverageEndpoint,
  createMarketsEndpoint,
  createRowsEndpoints,
} from './endpoints.ts';
import {
  type HistoricalEndpoint,
  type HistoricalService,
  openHistoricalService,
  type SliceRequest,
  scopeToKeyHolder,
} from './historical-service.ts';
import { sendPage } from './page-response.ts';
import { toCandleDataset } from './scan-plan.ts';
import { fileFormats, negotiateFormat, openSliceResponse, type SizedSliceRequest } from './slice-response.ts';
import { registerSymbolSearch } from './symbol-search-route.ts';

interface HistoricalQuery {
  readonly format?: contract.HistoricalFormat;
  readonly cursor?: string;
  readonly limit?: number;
  readonly csv_safe?: boolean;
}

interface HistoricalRoute<Query> {
  /** Last segment of the path. */
  readonly name: string;
  readonly operationId: string;
  readonly summary: string;
  readonly querystring: TObject;
  readonly responseSchema: TSchema;
  readonly endpoint: HistoricalEndpoint<Query>;
  /** The datasets that a key must permit. */
  readonly datasets: RouteData['datasets'];
  /** Whether a page depends on nothing but the generation and the query; default: always. */
  readonly isCacheable?: (query: Query) => boolean;
}

/** `/api/v1/historical/…`: published data, as pages or as files. */
export function registerHistoricalRoutes(app: App, context: ServiceContext, cache: ResponseCache): void {
  const service = openHistoricalService(context);
  app.addHook('onClose', () => service.history.close());
  const add = <Query extends HistoricalQuery>(route: HistoricalRoute<Query>): void =>
    registerHistoricalRoute(app, service, cache, route);
  add({
    name: 'markets',
    operationId: 'listHistoricalMarkets',
    summary: 'Market metadata over time',
    querystring: contract.HistoricalMarketsQuery,
    responseSchema: contract.HistoricalMarketsResponse,
    endpoint: createMarketsEndpoint(service),
    datasets: ['markets'],
  });
  const rows = createRowsEndpoints(service);
  const addRows = (name: keyof typeof rows, operation: string, summary: string, responseSchema: TSchema): void => {
    const querystring = contract.HistoricalRowsQuery;
    const operationId = `listHistorical${operation}`;
    add({ name, operationId, summary, querystring, responseSchema, endpoint: rows[name], datasets: [name] });
  };
  addRows('ticks', 'Ticks', 'Published ticks', contract.HistoricalTicksResponse);
  add({
    name: 'candles',
    operationId: 'listHistoricalCandles',
    summary: 'Candles',
    querystring: contract.HistoricalCandlesQuery,
    responseSchema: contract.HistoricalCandlesResponse,
    endpoint: createCandlesEndpoint(service),
    datasets: ({ query }) => [toCandleDataset((query as contract.HistoricalCandlesQuery).interval)],
  });
  add({
    name: 'coverage',
    operationId: 'listHistoricalCoverage',
    summary: 'Covered windows',
    querystring: contract.HistoricalCoverageQuery,
    responseSchema: contract.HistoricalCoverageResponse,
    endpoint: createCoverageEndpoint(service),
    datasets: ['coverage'],
    // The gaps of a symbol end at the time of the request, and depend on the journal.
    isCacheable: ({ symbol, dataset = 'ticks' }) => symbol === undefined || dataset !== 'ticks',
  });
  addRows('orderbooks', 'OrderBooks', 'Published order-book snapshots', series.HistoricalOrderbooksResponse);
  addRows('quotes', 'Quotes', 'Published quotes', series.HistoricalQuotesResponse);
  addRows('trades', 'Trades', 'Published trades', series.HistoricalTradesResponse);
  addRows('conflicts', 'Conflicts', 'Prices that were dropped', series.HistoricalConflictsResponse);
  registerSymbolSearch(app, service);
  registerSampleRoute(app, service);
}

function registerHistoricalRoute<Query extends HistoricalQuery>(
  app: App,
  service: HistoricalService,
  cache: ResponseCache,
  {
    name,
    operationId,
    summary,
    querystring,
    responseSchema,
    endpoint,
    datasets: permitted,
    isCacheable = () => true,
  }: HistoricalRoute<Query>,
): void {
  const response = { 200: describeResponse(responseSchema), 304: notModifiedResponse };
  const schema = {
    operationId,
    summary,
    tags: ['historical'],
    querystring: stateLimitMax(querystring, endpoint.limitMax),
    response,
  };
  app.get(
    `${paths.historical}/${name}`,
    { schema, config: { isCatalogue: true, data: { scope: 'read', datasets: permitted } } },
    async (request, reply) => {
      const signal = createDisconnectSignal(reply);
      try {
        const holder = requireKeyHolder(request);
        const scoped = scopeToKeyHolder(service, holder);
        const query = request.query as Query;
        reply.header('vary', 'accept');
        const format = negotiateFormat(query.format, request.headers.accept);
        if (query.csv_safe === true && format !== 'csv') throw createNotCsvError();
        if (format !== 'json' && holder.visitor === 'anonymous') requireBoundedSlice(endpoint.createSlice(query));
        if (format !== 'json') return await sendSlice(scoped, endpoint, format, request, reply, query, signal);
        const readPage = (shared: AbortSignal) => endpoint.readPage(query, shared);
        if (isCacheable(query))
          return await sendPage({ service: scoped, cache, holder, request, reply, signal, readPage });
        return await sendUncacheablePage(scoped, reply, signal, readPage);
      } catch (error) {
        throw toRequestError(error, signal);
      }
    },
  );
}

/** @throws ProblemError 401 for a file that only the holder of a key gets, because it may be the whole archive */
function requireBoundedSlice({ symbols, from, to }: SliceRequest): void {
  if (symbols.length > 0 || (from !== null && to !== null && to - from <= dayMs)) return;
  throw new ProblemError(
    401,
    'Without a key, a file must be of named symbols or of at most one day. Send a key, or give symbol, or from and to.',
    { code: 'missing_credential', headers: { 'www-authenticate': 'Bearer' } },
  );
}

/** Leads from a slice to the manifest, which lists the published files that it was read from. */
const publishedFilesLink = `<${paths.export}>; rel="via"; type="application/json"`;

/** Whether the published files of some days have the rows of a slice and no others. */
const isOfWholeDays = ({ symbols, from, to, limit, isUnfiltered }: SizedSliceRequest): boolean =>
  isUnfiltered && symbols.length === 0 && limit === null && [from, to].every((t) => t === null || t % dayMs === 0);

const fileContentTypes = Object.values(fileFormats).map(({ type }) => type.split(';')[0]!);

const notModifiedResponse = Type.Null({ description: 'The page has an ETag of `If-None-Match`.' });

const describeResponse = (responseSchema: TSchema) => ({
  description: 'A page as JSON, or the rows of the dataset as a file.',
  headers: {
    'oddslake-generation': Type.String({ description: 'Generation of the archive that was read.' }),
    etag: Type.String({
      description:
        'Of a page, strong: it changes with the generation, the query, and the content coding. Not for the gaps of a symbol, or for files.',
    }),
    'content-disposition': Type.String({ description: 'Name of the file; for files only.' }),
    link: Type.String({
      description: `Of a file with all rows of whole UTC days: \`${publishedFilesLink}\`. The manifest lists the published files with these rows, which can be resumed with Range and If-Match.`,
    }),
  },
  content: {
    'application/json': { schema: responseSchema },
    ...Object.fromEntries(fileContentTypes.map((type) => [type, { schema: { type: 'string', format: 'binary' } }])),
  },
});

/** Sends a page that depends on more than the generation and the query. */
async function sendUncacheablePage(
  { computeSemaphore, context }: HistoricalService,
  reply: FastifyReply,
  signal: AbortSignal,
  readPage: (signal: AbortSignal) => Promise<object>,
): Promise<FastifyReply> {
  using _permit = await computeSemaphore.acquire(signal);
  const page = { ...(await readPage(signal)), generated_at: context.clock.nowMs() };
  reply.header('oddslake-generation', (page as unknown as { generation: number }).generation);
  return reply.send(page);
}

async function sendSlice<Query extends HistoricalQuery>(
  service: HistoricalService,
  endpoint: HistoricalEndpoint<Query>,
  format: Exclude<contract.HistoricalFormat, 'json'>,
  request: FastifyRequest,
  reply: FastifyReply,
  query: Query,
  signal: AbortSignal,
): Promise<FastifyReply> {
  if (query.cursor !== undefined) throw createNotPagedError('cursor');
  const sliceRequest = {
    ...endpoint.createSlice(query),
    limit: query.limit ?? null,
    isCsvSafe: query.csv_safe === true,
  };
  const { chunks, fileName, generation } = await openSliceResponse(service, sliceRequest, format, reply, signal);
  reply
    .header('oddslake-generation', generation)
    .header('content-disposition', `attachment; filename="${fileName}"`)
    .type(fileFormats[format].type);
  if (isOfWholeDays(sliceRequest)) reply.header('link', publishedFilesLink);
  return sendChunks(request, reply, chunks);
}

const sampleRowsMax = 5;

const SamplePath = Type.Object({ dataset: Type.Unsafe<DatasetName>({ type: 'string', enum: [...datasetNames] }) });

/**
 * The first rows of the newest file of a dataset, for the cards of the catalogue page. It is not in the OpenAPI document:
 * programs read the files.
 */
function registerSampleRoute(app: App, service: HistoricalService): void {
  app.get(
    `${paths.samples}/:dataset`,
    {
      config: {
        isCatalogue: true,
        data: { scope: 'read', datasets: ({ params }) => [(params as { dataset: DatasetName }).dataset] },
      },
      schema: { hide: true, params: SamplePath },
    },
    async (request, reply) => {
      const signal = createDisconnectSignal(reply);
      const { dataset } = request.params;
      using _permit = await scopeToKeyHolder(service, requireKeyHolder(request)).computeSemaphore.acquire(signal);
      try {
        const columns = datasets[dataset].columns.map(({ name, type }) => ({ name, type }));
        const { file, rows } = await readSample(service, dataset, signal);
        return reply.send({ dataset, file, columns, rows });
      } catch (error) {
        throw toRequestError(error, signal);
      }
    },
  );
}

const readSample = ({ history }: HistoricalService, dataset: DatasetName, signal: AbortSignal) =>
  history.read(async (generation) => {
    const file = findNewestFile(listFilesWithRows(generation.manifest, dataset));
    if (file === null) return { file: null, rows: [] };
    const query = await generation.openQuery(new Map([[dataset, [file]]]), [], signal);
    try {
      return {
        file: file.path,
        rows: await query.readRows(`SELECT * FROM ${dataset} LIMIT ${sampleRowsMax}`, [], signal),
      };
    } finally {
      await query.close();
    }
  });

/** The first file of the last day; null without files. */
function findNewestFile(files: readonly PublishedFile[]): PublishedFile | null {
  const last = files.reduce((max, { date }) => ((date ?? '') > max ? (date ?? '') : max), '');
  return files.find(({ date }) => (date ?? '') === last) ?? null;
}
