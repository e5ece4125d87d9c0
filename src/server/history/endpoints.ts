import type { DatasetName } from '../../archive/format/datasets.ts';
import type { Manifest } from '../../archive/format/manifest.ts';
import { readAllSymbols } from '../../archive/journal/symbols.ts';
import { createFileFilter } from '../../archive/publish/prune-files.ts';
import type { QueryParameter } from '../../archive/query/convert-values.ts';
import { listGaps } from '../../archive/read/gaps.ts';
import { toCompletenessRules } from '../../context/open-configured.ts';
import type {
  HistoricalCandlesQuery,
  HistoricalCoverageQuery,
  HistoricalMarketsQuery,
  HistoricalOrderbooksQuery,
  HistoricalTicksQuery,
} from '../../contract/historical.ts';
import {
  createEnvelope,
  findRequestedSymbol,
  type HistoricalEndpoint,
  type HistoricalService,
  parseWindowQuery,
  resolveLimit,
  type SliceRequest,
} from './historical-service.ts';
import {
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
import { decodeMarketCursor, decodeRowCursor, encodeMarketCursor, encodeRowCursor } from './page-cursor.ts';
import {
  createComputedStep,
  createCondition,
  createPublishedSlice,
  findPublishedCandles,
  planCandlePage,
  planDaySteps,
  planRangeSteps,
} from './scan-plan.ts';

type CreateConditions = (value: (one: QueryParameter) => string) => readonly string[];

interface RowsQuery {
  readonly symbol?: string;
  readonly from?: number;
  readonly to?: number;
  readonly limit?: number;
  readonly cursor?: string;
}

const parsePageQuery = (service: HistoricalService, query: RowsQuery, limitMax: number): RowPageRequest => ({
  symbol: findRequestedSymbol(service, query.symbol)?.symbol ?? null,
  ...parseWindowQuery(query),
  after: decodeRowCursor(query.cursor),
  limit: resolveLimit(query.limit, limitMax),
});

/** Plans the steps of a page: day by day for one symbol, in ranges of symbols for all. */
function planPublishedSteps(
  service: HistoricalService,
  manifest: Manifest,
  dataset: DatasetName,
  timeColumn: string,
  pageRequest: RowPageRequest,
  createConditions?: CreateConditions,
): Iterable<ScanStep> {
  const { symbol } = pageRequest;
  return symbol === null
    ? planRangeSteps(
        manifest,
        dataset,
        timeColumn,
        pageRequest,
        readAllSymbols(service.context.archive.state.db),
        createConditions,
      )
    : planDaySteps(manifest, dataset, timeColumn, { ...pageRequest, symbol }, createConditions);
}

/** A dataset's rows as a file. */
function createRowsSlice(
  service: HistoricalService,
  dataset: DatasetName,
  name: string,
  query: RowsQuery,
  createConditions: CreateConditions = () => [],
): SliceRequest {
  const symbol = findRequestedSymbol(service, query.symbol)?.symbol ?? null;
  const window = parseWindowQuery(query);
  const condition = createCondition((value) => [
    ...createConditions(value),
    ...(symbol === null ? [] : [`symbol = ${value(symbol)}`]),
  ]);
  return {
    dataset,
    name,
    symbol,
    ...window,
    createStep(manifest) {
      const rowsMax = createFileFilter(manifest, dataset, symbol === null ? [] : [symbol], window);
      const files = new Map([[dataset, manifest.datasets[dataset].files.filter(rowsMax)]]);
      return { files, defined: [], slice: createPublishedSlice(dataset, window, condition) };
    },
  };
}

/** Reads a page of a dataset. `createReader` is called for every generation that is tried. */
async function readRowPage<Row extends object = HistoryRow>(
  service: HistoricalService,
  { limit }: RowPageRequest,
  planSteps: (manifest: Manifest) => Iterable<ScanStep>,
  timeColumn: keyof Row & string,
  signal: AbortSignal,
  createReader: () => ReadSlice<Row> = () => async (query, slice, rowsMax) => ({
    rows: (await readRows(query, slice, rowsMax, signal)) as Row[],
    isCut: false,
  }),
) {
  return await service.history.read(async (generation) => {
    const steps = planSteps(generation.manifest);
    const { rows, isMore } = await readFirstRows(generation, steps, limit, createReader(), signal);
    const last = rows.at(-1) as Record<string, unknown> | undefined;
    const next =
      isMore && last !== undefined
        ? encodeRowCursor({ symbol: String(last.symbol), t: Number(last[timeColumn]) })
        : null;
    return { rows, envelope: createEnvelope(service, generation, rows.length, next) };
  });
}

/** GET /api/v1/historical/ticks */
export const createTicksEndpoint = (service: HistoricalService): HistoricalEndpoint<HistoricalTicksQuery> => ({
  async readPage(query, signal) {
    const pageRequest = parsePageQuery(service, query, service.context.settings.service.ticksLimitMax);
    const steps = (manifest: Manifest) => planPublishedSteps(service, manifest, 'ticks', 't', pageRequest);
    const { rows, envelope } = await readRowPage(service, pageRequest, steps, 't', signal);
    return { ticks: rows, ...envelope };
  },
  createSlice: (query) => createRowsSlice(service, 'ticks', 'ticks', query),
});

/** GET /api/v1/historical/candles */
export const createCandlesEndpoint = (service: HistoricalService): HistoricalEndpoint<HistoricalCandlesQuery> => ({
  async readPage(query, signal) {
    const { interval } = query;
    const pageRequest = parsePageQuery(service, query, service.context.settings.service.rowsLimitMax);
    const symbols = () => readAllSymbols(service.context.archive.state.db);
    const steps = (manifest: Manifest) => planCandlePage(manifest, interval, pageRequest, symbols);
    const { rows, envelope } = await readRowPage(service, pageRequest, steps, 't', signal);
    return { interval, candles: rows, ...envelope };
  },
  createSlice(query) {
    const { interval } = query;
    const name = `candles_${interval}`;
    const published = createRowsSlice(service, interval === '1d' ? 'candles_1d' : 'candles_1h', name, query);
    const { symbol, from, to } = published;
    return {
      ...published,
      createStep(manifest) {
        if (findPublishedCandles(manifest, interval) !== null) return published.createStep(manifest);
        const condition = createCondition((value) => (symbol === null ? [] : [`symbol = ${value(symbol)}`]));
        return createComputedStep(
          manifest,
          interval,
          { symbols: symbol === null ? [] : [symbol], from, to },
          condition,
        );
      },
    };
  },
});

/** GET /api/v1/historical/coverage */
export const createCoverageEndpoint = (service: HistoricalService): HistoricalEndpoint<HistoricalCoverageQuery> => {
  const createConditions =
    ({ dataset = 'ticks' }: HistoricalCoverageQuery): CreateConditions =>
    (value) => [`dataset = ${value(dataset)}`];
  return {
    async readPage(query, signal) {
      const limitMax = service.context.settings.service.rowsLimitMax;
      const pageRequest = parsePageQuery(service, query, limitMax);
      const steps = (manifest: Manifest) =>
        planPublishedSteps(service, manifest, 'coverage', 't_from', pageRequest, createConditions(query));
      const { rows, envelope } = await readRowPage(service, pageRequest, steps, 't_from', signal);
      return { coverage: rows, ...createGapsPage(service, query, limitMax), ...envelope };
    },
    createSlice: (query) =>
      createRowsSlice(service, 'coverage', `coverage_${query.dataset ?? 'ticks'}`, query, createConditions(query)),
  };
};

/** The gaps of one symbol's ticks, as `oddslake gaps` lists them; the future is not a gap. */
function createGapsPage(service: HistoricalService, query: HistoricalCoverageQuery, limitMax: number): object {
  const facts = findRequestedSymbol(service, query.symbol);
  if (facts === null || query.dataset === 'orderbooks') return {};
  const { from, to } = parseWindowQuery(query);
  const nowMs = service.context.clock.nowMs();
  if (from !== null && from >= nowMs) return { gaps: [], gaps_count: 0 };
  const by = toCompletenessRules(service.context.settings);
  const { gaps, count } = listGaps(service.context.archive, { from, to, symbols: [facts] }, by, nowMs);
  return { gaps: gaps.slice(0, limitMax), gaps_count: count };
}

/** Maximum number of order book levels per page. */
const levelsMax = 100_000;

/** GET /api/v1/historical/orderbooks */
export const createOrderBooksEndpoint = (
  service: HistoricalService,
): HistoricalEndpoint<HistoricalOrderbooksQuery> => ({
  async readPage(query, signal) {
    const pageRequest = parsePageQuery(service, query, service.context.settings.service.rowsLimitMax);
    const steps = (manifest: Manifest) => planPublishedSteps(service, manifest, 'orderbooks', 't', pageRequest);
    const createReader = (): ReadSlice<OrderBookSnapshot> => {
      let levelsLeft = levelsMax;
      return async (query, slice, rowsMax) => {
        const { snapshots, levels, isCut } = await readSnapshots(query, slice, rowsMax, levelsLeft, signal);
        levelsLeft -= levels;
        return { rows: snapshots, isCut: isCut || levelsLeft <= 0 };
      };
    };
    const { rows, envelope } = await readRowPage(service, pageRequest, steps, 't', signal, createReader);
    return { orderbooks: rows, ...envelope };
  },
  createSlice: (query) => createRowsSlice(service, 'orderbooks', 'orderbooks', query),
});

/** Maximum number of markets per response; each has its history. */
const marketsMax = 1000;

function parseMarketsQuery(service: HistoricalService, query: HistoricalMarketsQuery): MarketsQuery {
  return {
    source: query.source ?? null,
    category: query.category ?? null,
    symbol: findRequestedSymbol(service, query.symbol)?.symbol ?? null,
    canonicalId: query.canonical_id ?? null,
    words: (query.q ?? '').split(/\s+/u).filter(Boolean),
    resolved: query.resolved ?? null,
    ...parseWindowQuery(query),
  };
}

/** GET /api/v1/historical/markets */
export const createMarketsEndpoint = (service: HistoricalService): HistoricalEndpoint<HistoricalMarketsQuery> => ({
  async readPage(query, signal) {
    const filter = parseMarketsQuery(service, query);
    const after = decodeMarketCursor(query.cursor);
    const limit = resolveLimit(query.limit, Math.min(marketsMax, service.context.settings.service.rowsLimitMax));
    return await service.history.read(async (generation) => {
      const opened = await generation.openQuery(selectMarketFiles(generation.manifest, filter), [], signal);
      try {
        const { markets, total, next } = await readMarketsPage(opened, filter, { after, limit }, signal);
        const cursor = next === null ? null : encodeMarketCursor(next);
        const { count, ...rest } = createEnvelope(service, generation, markets.length, cursor);
        return { markets, count, total, ...rest };
      } finally {
        await opened.close();
      }
    });
  },
  createSlice(query) {
    const filter = parseMarketsQuery(service, query);
    const { symbol, from, to } = filter;
    return {
      dataset: 'markets',
      name: 'markets',
      symbol,
      from,
      to,
      createStep: (manifest) => ({
        files: selectMarketFiles(manifest, filter),
        defined: [],
        slice: createMarketsSlice(filter),
      }),
    };
  },
});
