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
  type RowPageRequest,
  type RowPosition,
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

const parsePageQuery = (desk: HistoricalService, query: RowsQuery, most: number): RowPageRequest => ({
  symbol: findRequestedSymbol(desk, query.symbol)?.symbol ?? null,
  ...parseWindowQuery(query),
  after: decodeRowCursor(query.cursor),
  limit: resolveLimit(query.limit, most),
});

/** Pages of a dataset: one symbol day by day, or all of them a range at a time. */
function planPublishedSteps(
  desk: HistoricalService,
  manifest: Manifest,
  dataset: DatasetName,
  timed: string,
  asked: RowPageRequest,
  narrowed?: CreateConditions,
): Iterable<ScanStep> {
  const { symbol } = asked;
  return symbol === null
    ? planRangeSteps(manifest, dataset, timed, asked, readAllSymbols(desk.context.archive.state.db), narrowed)
    : planDaySteps(manifest, dataset, timed, { ...asked, symbol }, narrowed);
}

/** Rows of a dataset as a file. */
function createRowsSlice(
  desk: HistoricalService,
  dataset: DatasetName,
  name: string,
  query: RowsQuery,
  narrowed: CreateConditions = () => [],
): SliceRequest {
  const symbol = findRequestedSymbol(desk, query.symbol)?.symbol ?? null;
  const window = parseWindowQuery(query);
  const condition = createCondition((value) => [
    ...narrowed(value),
    ...(symbol === null ? [] : [`symbol = ${value(symbol)}`]),
  ]);
  return {
    dataset,
    name,
    symbol,
    ...window,
    createStep(manifest) {
      const wanted = createFileFilter(manifest, dataset, symbol === null ? [] : [symbol], window);
      const files = new Map([[dataset, manifest.datasets[dataset].files.filter(wanted)]]);
      return { files, defined: [], slice: createPublishedSlice(dataset, window, condition) };
    },
  };
}

async function readRowPage(
  desk: HistoricalService,
  asked: RowPageRequest,
  steps: (manifest: Manifest) => Iterable<ScanStep>,
  timed: string,
  signal: AbortSignal,
) {
  return await desk.history.read(async (generation) => {
    const read = (query: Parameters<typeof readRows>[0], slice: ScanStep['slice'], wanted: number) =>
      readRows(query, slice, wanted, signal);
    const { rows, isMore } = await readFirstRows<HistoryRow>(
      generation,
      steps(generation.manifest),
      asked.limit,
      read,
      signal,
    );
    const last = rows.at(-1);
    const next =
      isMore && last !== undefined ? encodeRowCursor({ symbol: String(last.symbol), t: Number(last[timed]) }) : null;
    return { rows, told: createEnvelope(desk, generation, rows.length, next) };
  });
}

/** GET /api/v1/historical/ticks */
export const createTicksEndpoint = (desk: HistoricalService): HistoricalEndpoint<HistoricalTicksQuery> => ({
  async readPage(query, signal) {
    const asked = parsePageQuery(desk, query, desk.context.settings.service.ticksLimitMax);
    const steps = (manifest: Manifest) => planPublishedSteps(desk, manifest, 'ticks', 't', asked);
    const { rows, told } = await readRowPage(desk, asked, steps, 't', signal);
    return { ticks: rows, ...told };
  },
  createSlice: (query) => createRowsSlice(desk, 'ticks', 'ticks', query),
});

/** GET /api/v1/historical/candles */
export const createCandlesEndpoint = (desk: HistoricalService): HistoricalEndpoint<HistoricalCandlesQuery> => ({
  async readPage(query, signal) {
    const { interval } = query;
    const asked = parsePageQuery(desk, query, desk.context.settings.service.rowsLimitMax);
    const symbols = () => readAllSymbols(desk.context.archive.state.db);
    const steps = (manifest: Manifest) => planCandlePage(manifest, interval, asked, symbols);
    const { rows, told } = await readRowPage(desk, asked, steps, 't', signal);
    return { interval, candles: rows, ...told };
  },
  createSlice(query) {
    const { interval } = query;
    const name = `candles_${interval}`;
    const published = createRowsSlice(desk, interval === '1d' ? 'candles_1d' : 'candles_1h', name, query);
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
export const createCoverageEndpoint = (desk: HistoricalService): HistoricalEndpoint<HistoricalCoverageQuery> => {
  const narrowed =
    ({ dataset = 'ticks' }: HistoricalCoverageQuery): CreateConditions =>
    (value) => [`dataset = ${value(dataset)}`];
  return {
    async readPage(query, signal) {
      const most = desk.context.settings.service.rowsLimitMax;
      const asked = parsePageQuery(desk, query, most);
      const steps = (manifest: Manifest) =>
        planPublishedSteps(desk, manifest, 'coverage', 't_from', asked, narrowed(query));
      const { rows, told } = await readRowPage(desk, asked, steps, 't_from', signal);
      return { coverage: rows, ...createGapsPage(desk, query, most), ...told };
    },
    createSlice: (query) =>
      createRowsSlice(desk, 'coverage', `coverage_${query.dataset ?? 'ticks'}`, query, narrowed(query)),
  };
};

/** The gaps of one symbol's ticks, as `oddslake gaps` tells them; what is still to come is none. */
function createGapsPage(desk: HistoricalService, query: HistoricalCoverageQuery, most: number): object {
  const facts = findRequestedSymbol(desk, query.symbol);
  if (facts === null || query.dataset === 'orderbooks') return {};
  const { from, to } = parseWindowQuery(query);
  const nowMs = desk.context.clock.nowMs();
  if (from !== null && from >= nowMs) return { gaps: [], gaps_count: 0 };
  const by = toCompletenessRules(desk.context.settings);
  const { gaps, count } = listGaps(desk.context.archive, { from, to, symbols: [facts] }, by, nowMs);
  return { gaps: gaps.slice(0, most), gaps_count: count };
}

/** Levels of the order books of one page. */
const levelsMax = 100_000;

/** GET /api/v1/historical/orderbooks */
export const createOrderBooksEndpoint = (desk: HistoricalService): HistoricalEndpoint<HistoricalOrderbooksQuery> => ({
  async readPage(query, signal) {
    const asked = parsePageQuery(desk, query, desk.context.settings.service.rowsLimitMax);
    return await desk.history.read(async (generation) => {
      const steps = planPublishedSteps(desk, generation.manifest, 'orderbooks', 't', asked);
      const found: OrderBookSnapshot[] = [];
      let left = levelsMax;
      let isCut = false;
      for (const { files, defined, slice } of steps) {
        const opened = await generation.openQuery(files, defined, signal);
        try {
          const told = await readSnapshots(opened, slice, asked.limit + 1 - found.length, left, signal);
          for (const one of told.snapshots) found.push(one);
          left -= told.levels;
          isCut = told.isCut;
        } finally {
          await opened.close();
        }
        if (isCut || found.length > asked.limit || left <= 0) break;
      }
      const books = found.slice(0, asked.limit);
      const last = books.at(-1);
      const isMore = isCut || found.length > asked.limit || left <= 0;
      const next = isMore && last !== undefined ? encodeRowCursor(last satisfies RowPosition) : null;
      return { orderbooks: books, ...createEnvelope(desk, generation, books.length, next) };
    });
  },
  createSlice: (query) => createRowsSlice(desk, 'orderbooks', 'orderbooks', query),
});

/** Markets of one answer, each with its history. */
const marketsMax = 1000;

function parseMarketsQuery(desk: HistoricalService, query: HistoricalMarketsQuery): MarketsQuery {
  return {
    source: query.source ?? null,
    category: query.category ?? null,
    symbol: findRequestedSymbol(desk, query.symbol)?.symbol ?? null,
    canonicalId: query.canonical_id ?? null,
    words: (query.q ?? '').split(/\s+/u).filter(Boolean),
    resolved: query.resolved ?? null,
    ...parseWindowQuery(query),
  };
}

/** GET /api/v1/historical/markets */
export const createMarketsEndpoint = (desk: HistoricalService): HistoricalEndpoint<HistoricalMarketsQuery> => ({
  async readPage(query, signal) {
    const which = parseMarketsQuery(desk, query);
    const after = decodeMarketCursor(query.cursor);
    const limit = resolveLimit(query.limit, Math.min(marketsMax, desk.context.settings.service.rowsLimitMax));
    return await desk.history.read(async (generation) => {
      const opened = await generation.openQuery(selectMarketFiles(generation.manifest, which), [], signal);
      try {
        const { markets, total, next } = await readMarketsPage(opened, which, { after, limit }, signal);
        const cursor = next === null ? null : encodeMarketCursor(next);
        const { count, ...rest } = createEnvelope(desk, generation, markets.length, cursor);
        return { markets, count, total, ...rest };
      } finally {
        await opened.close();
      }
    });
  },
  createSlice(query) {
    const which = parseMarketsQuery(desk, query);
    const { symbol, from, to } = which;
    return {
      dataset: 'markets',
      name: 'markets',
      symbol,
      from,
      to,
      createStep: (manifest) => ({
        files: selectMarketFiles(manifest, which),
        defined: [],
        slice: createMarketsSlice(which),
      }),
    };
  },
});
