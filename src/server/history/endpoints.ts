import { type DatasetName, datasets } from '../../archive/format/datasets.ts';
import type { Manifest } from '../../archive/format/manifest.ts';
import { readAllSymbols } from '../../archive/journal/symbol-store.ts';
import { createFileFilter } from '../../archive/publish/prune-files.ts';
import { listGaps } from '../../archive/read/gaps.ts';
import { toCompletenessRules } from '../../context/open-configured.ts';
import type {
  HistoricalCandlesQuery,
  HistoricalCoverageQuery,
  HistoricalMarketsQuery,
} from '../../contract/historical.ts';
import {
  createEnvelope,
  findRequestedSymbol,
  findRequestedSymbols,
  type HistoricalEndpoint,
  type HistoricalService,
  parseWindowQuery,
  resolveLimit,
  type SliceRequest,
} from './historical-service.ts';
import {
  type FirstRows,
  type GenerationReader,
  type HistoryRow,
  type OrderBookSnapshot,
  type ReadSlice,
  type RowPageRequest,
  readFirstRows,
  readRows,
  readSnapshots,
  type ScanStep,
} from './history.ts';
import { createMarketsSlice, type MarketsQuery, readMarketsPage, selectMarketFiles } from './market-history.ts';
import {
  createInvalidCursorError,
  decodeMarketCursor,
  decodeRowCursor,
  digestQuery,
  encodeMarketCursor,
  encodeRowCursor,
} from './page-cursor.ts';
import {
  type AddValue,
  type CreateConditions,
  createComputedStep,
  createCondition,
  createPublishedSlice,
  findIdColumn,
  findPublishedCandles,
  formatConflictId,
  parseConflictId,
  planCandleSteps,
  planDaySteps,
  planEachSymbol,
  planRangeSteps,
  type TimedDataset,
} from './scan-plan.ts';
import { readSymbolCandles, readSymbolRows } from './symbol-pages.ts';

interface RowsQuery {
  readonly symbol?: string | readonly string[];
  readonly from?: number;
  readonly to?: number;
  readonly limit?: number;
  readonly cursor?: string;
}

type ToRowId = (row: Readonly<Record<string, unknown>>) => string;

/** A historical route for rows with a symbol and a time. */
interface RowsRoute<Query extends RowsQuery> {
  readonly dataset: TimedDataset;
  /** Maximum number of rows per page; default: that of the service for all datasets but ticks. */
  readonly limitMax?: number;
  /** Names the rows by the dataset, and what selects them beyond symbol and window; default: the dataset. */
  readonly formatName?: (query: Query) => string;
  readonly createConditions?: (query: Query) => CreateConditions;
  /** Identifies a row among those of its symbol and time; absent if there is one row for each. */
  readonly toId?: ToRowId;
  /** Default: `readRowPage`. */
  readonly readRows?: (
    generation: GenerationReader,
    page: RowPage,
    query: Query,
    signal: AbortSignal,
  ) => Promise<FirstRows<object>>;
  /** The fields of a response before those of every page; default: the rows, under the name of the dataset. */
  readonly toResponse?: (rows: readonly object[], query: Query) => object;
}

interface RowPage extends RowPageRequest {
  /** For cursors of the next pages. */
  readonly queryDigest: string;
}

function createRowsEndpoint<Query extends RowsQuery>(
  service: HistoricalService,
  route: RowsRoute<Query>,
): HistoricalEndpoint<Query> {
  const { dataset, limitMax = service.context.settings.service.rowsLimitMax, toId } = route;
  const { formatName = () => dataset, toResponse = (rows) => ({ [dataset]: rows }) } = route;
  const timeColumn = datasets[dataset].time.first;
  const readRows = route.readRows ?? ((...args) => readRowPage(service, route, ...args));
  return {
    limitMax,
    async readPage(query, signal) {
      const symbols = findRequestedSymbols(service, query.symbol).map(({ symbol }) => symbol);
      const window = parseWindowQuery(query);
      const queryDigest = digestQuery(formatName(query), { symbols, ...window });
      const after = decodeRowCursor(queryDigest, query.cursor, toId !== undefined);
      const page = { symbols, ...window, queryDigest, after, limit: resolveLimit(query.limit, limitMax) };
      return await service.history.read(async (generation) => {
        const { rows, isMore } = await readRows(generation, page, query, signal);
        const last = (isMore ? rows.at(-1) : undefined) as Readonly<Record<string, unknown>> | undefined;
        const id = last && toId && { id: toId(last) };
        const position = last && { symbol: String(last.symbol), t: Number(last[timeColumn]), ...id };
        const next = position === undefined ? null : encodeRowCursor(queryDigest, position);
        return { ...toResponse(rows, query), ...createEnvelope(service, generation, rows.length, next) };
      });
    },
    createSlice: (query) =>
      createRowsSlice(service, dataset, formatName(query).replace(' ', '_'), query, route.createConditions?.(query)),
  };
}

/** Plans the steps of a page: by symbol and day for named symbols, by symbol range for all symbols. */
function planPublishedSteps(
  service: HistoricalService,
  manifest: Manifest,
  dataset: TimedDataset,
  pageRequest: RowPageRequest,
  createConditions?: CreateConditions,
): Iterable<ScanStep> {
  return pageRequest.symbols.length === 0
    ? planRangeSteps(manifest, dataset, pageRequest, readAllSymbols(service.context.archive.state.db), createConditions)
    : planEachSymbol(pageRequest, (request) => planDaySteps(manifest, dataset, request, createConditions));
}

/** Condition for the rows of the symbols; none if the list is empty. */
const formatSymbolConditions = (symbols: readonly string[], value: AddValue): string[] =>
  symbols.length === 0 ? [] : [`symbol IN (${symbols.map(value).join(', ')})`];

/** A dataset's rows as a file. */
function createRowsSlice(
  service: HistoricalService,
  dataset: DatasetName,
  name: string,
  query: RowsQuery,
  createConditions?: CreateConditions,
): SliceRequest {
  const symbols = findRequestedSymbols(service, query.symbol).map(({ symbol }) => symbol);
  const window = parseWindowQuery(query);
  const condition = createCondition((value) => [
    ...(createConditions?.(value) ?? []),
    ...formatSymbolConditions(symbols, value),
  ]);
  return {
    dataset,
    name,
    symbols,
    ...window,
    isUnfiltered: createConditions === undefined,
    createStep(manifest) {
      const fileFilter = createFileFilter(dataset, symbols, window);
      const files = new Map([[dataset, manifest.datasets[dataset].files.filter(fileFilter)]]);
      return { files, defined: [], slice: createPublishedSlice(dataset, window, condition) };
    },
  };
}

/** Reads named symbols by our own reader if it reads the dataset, and everything else by DuckDB. */
function readRowPage<Query extends RowsQuery>(
  service: HistoricalService,
  { dataset, createConditions }: RowsRoute<Query>,
  generation: GenerationReader,
  page: RowPage,
  query: Query,
  signal: AbortSignal,
): Promise<FirstRows<HistoryRow>> {
  if (page.symbols.length > 0 && (dataset === 'ticks' || dataset === 'quotes' || dataset === 'coverage')) {
    const covered = dataset === 'coverage' ? toCovered(query as HistoricalCoverageQuery) : undefined;
    return readSymbolRows(service.symbolRows, generation, { dataset, covered }, page, signal);
  }
  const steps = planPublishedSteps(service, generation.manifest, dataset, page, createConditions?.(query));
  return queryRows(generation, steps, page, signal);
}

/** Reads the rows of a page by DuckDB. */
const queryRows = (
  generation: GenerationReader,
  steps: Iterable<ScanStep>,
  { limit }: RowPage,
  signal: AbortSignal,
): Promise<FirstRows<HistoryRow>> =>
  readFirstRows(
    generation,
    steps,
    limit,
    async (query, slice, rowsMax) => ({ rows: await readRows(query, slice, rowsMax, signal), isCut: false }),
    signal,
  );

/** GET /api/v1/historical/candles */
export function createCandlesEndpoint(service: HistoricalService): HistoricalEndpoint<HistoricalCandlesQuery> {
  const endpoint = createRowsEndpoint<HistoricalCandlesQuery>(service, {
    dataset: 'candles_1h',
    formatName: ({ interval }) => `candles ${interval}`,
    readRows(generation, page, { interval }, signal) {
      if (page.symbols.length > 0) return readSymbolCandles(service.symbolRows, generation, interval, page, signal);
      const symbols = readAllSymbols(service.context.archive.state.db);
      return queryRows(generation, planCandleSteps(generation.manifest, interval, page, symbols), page, signal);
    },
    toResponse: (candles, { interval }) => ({ interval, candles }),
  });
  return {
    ...endpoint,
    createSlice(query) {
      const { interval } = query;
      const published = createRowsSlice(
        service,
        interval === '1d' ? 'candles_1d' : 'candles_1h',
        `candles_${interval}`,
        query,
      );
      const { symbols } = published;
      return {
        ...published,
        isUnfiltered: interval === '1h' || interval === '1d',
        createStep(manifest) {
          if (findPublishedCandles(manifest, interval) !== null) return published.createStep(manifest);
          const condition = createCondition((value) => formatSymbolConditions(symbols, value));
          return createComputedStep(manifest, interval, published, condition);
        },
      };
    },
  };
}

const toCovered = ({ dataset = 'ticks' }: HistoricalCoverageQuery): string => dataset;

/** GET /api/v1/historical/coverage */
export const createCoverageEndpoint = (service: HistoricalService): HistoricalEndpoint<HistoricalCoverageQuery> =>
  createRowsEndpoint<HistoricalCoverageQuery>(service, {
    dataset: 'coverage',
    formatName: (query) => `coverage ${toCovered(query)}`,
    createConditions: (query) => (value) => [`dataset = ${value(toCovered(query))}`],
    toResponse: (coverage, query) => ({ coverage, ...createGapsPage(service, query) }),
  });

/** The gaps of one symbol's ticks, as `oddslake gaps` lists them; the future is not a gap. */
function createGapsPage(service: HistoricalService, query: HistoricalCoverageQuery): object {
  const [facts, ...others] = findRequestedSymbols(service, query.symbol);
  if (facts === undefined || others.length > 0 || toCovered(query) !== 'ticks') return {};
  const { from, to } = parseWindowQuery(query);
  const nowMs = service.context.clock.nowMs();
  if (from !== null && from >= nowMs) return { gaps: [], gaps_count: 0 };
  const by = toCompletenessRules(service.context.settings);
  const { current } = service.context;
  // The manifest of a large archive takes milliseconds to read, and the watcher has it.
  const archive = { ...service.context.archive, readManifest: () => current.getManifest() };
  const { gaps, count } = listGaps(archive, { from, to, symbols: [facts] }, by, nowMs, service.readKnownWindow);
  return { gaps: gaps.slice(0, service.context.settings.service.rowsLimitMax), gaps_count: count };
}

/** Maximum number of order book levels per page. */
const levelsMax = 100_000;

/** GET /api/v1/historical/… for rows that have no further parameters, by dataset. */
export const createRowsEndpoints = (service: HistoricalService) => ({
  ticks: createRowsEndpoint(service, { dataset: 'ticks', limitMax: service.context.settings.service.ticksLimitMax }),
  orderbooks: createRowsEndpoint(service, {
    dataset: 'orderbooks',
    readRows(generation, page, _query, signal) {
      let levelsLeft = levelsMax;
      const readSlice: ReadSlice<OrderBookSnapshot> = async (query, slice, rowsMax) => {
        const { snapshots, levels, isCut } = await readSnapshots(query, slice, rowsMax, levelsLeft, signal);
        levelsLeft -= levels;
        return { rows: snapshots, isCut: isCut || levelsLeft <= 0 };
      };
      const steps = planPublishedSteps(service, generation.manifest, 'orderbooks', page);
      return readFirstRows(generation, steps, page.limit, readSlice, signal);
    },
  }),
  quotes: createRowsEndpoint(service, { dataset: 'quotes' }),
  trades: createRowsEndpoint(service, { dataset: 'trades', toId: (row) => String(row[findIdColumn('trades')!]) }),
  conflicts: createRowsEndpoint(service, {
    dataset: 'conflicts',
    toId: formatConflictId,
    readRows(generation, page, query, signal) {
      const id = page.after?.id;
      if (id !== undefined && parseConflictId(id) === null) throw createInvalidCursorError();
      return readRowPage(service, { dataset: 'conflicts' }, generation, page, query, signal);
    },
  }),
});

/** Maximum number of markets per response; each is returned with its history. */
const marketsMax = 1000;

function parseMarketsQuery(service: HistoricalService, query: HistoricalMarketsQuery): MarketsQuery {
  return {
    source: query.source ?? null,
    category: query.category ?? null,
    symbol: findRequestedSymbol(service, query.symbol)?.symbol ?? null,
    canonicalId: query.canonical_id ?? null,
    event: query.event ?? null,
    words: (query.q ?? '').split(/\s+/u).filter(Boolean),
    resolved: query.resolved ?? null,
    ...parseWindowQuery(query),
  };
}

/** GET /api/v1/historical/markets */
export const createMarketsEndpoint = (service: HistoricalService): HistoricalEndpoint<HistoricalMarketsQuery> => ({
  limitMax: Math.min(marketsMax, service.context.settings.service.rowsLimitMax),
  async readPage(query, signal) {
    const filter = parseMarketsQuery(service, query);
    const queryDigest = digestQuery('markets', filter);
    const after = decodeMarketCursor(queryDigest, query.cursor);
    const limit = resolveLimit(query.limit, this.limitMax);
    return await service.history.read(async (generation) => {
      const { markets, total, next } =
        (await service.marketTables.readPage(generation, filter, { after, limit }, signal)) ??
        (await readMarketsPage(generation, filter, { after, limit }, signal));
      const cursor = next === null ? null : encodeMarketCursor(queryDigest, next);
      const { count, ...rest } = createEnvelope(service, generation, markets.length, cursor);
      return { markets, count, total, ...rest };
    });
  },
  createSlice(query) {
    const filter = parseMarketsQuery(service, query);
    const { symbol, from, to } = filter;
    return {
      dataset: 'markets',
      name: 'markets',
      symbols: symbol === null ? [] : [symbol],
      from,
      to,
      // It has columns of the dataset `symbols`, too.
      isUnfiltered: false,
      createStep: (manifest) => ({
        files: selectMarketFiles(manifest, filter),
        defined: [],
        slice: createMarketsSlice(filter),
      }),
    };
  },
});
