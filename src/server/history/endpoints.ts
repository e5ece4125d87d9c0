import type { DatasetName } from '../../archive/format/datasets.ts';
import type { Manifest } from '../../archive/format/manifest.ts';
import { readAllSymbols } from '../../archive/journal/symbol-store.ts';
import { createFileFilter } from '../../archive/publish/prune-files.ts';
import type { QueryParameter } from '../../archive/query/convert-values.ts';
import { listGaps } from '../../archive/read/gaps.ts';
import { toCompletenessRules } from '../../context/open-configured.ts';
import type {
  HistoricalCandlesQuery,
  HistoricalConflictsQuery,
  HistoricalCoverageQuery,
  HistoricalMarketsQuery,
  HistoricalOrderbooksQuery,
  HistoricalQuotesQuery,
  HistoricalTicksQuery,
  HistoricalTradesQuery,
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
import { type RowSelection, readSymbolCandles, readSymbolRows } from './symbol-pages.ts';

type CreateConditions = (value: (one: QueryParameter) => string) => readonly string[];

interface RowsQuery {
  readonly symbol?: string | readonly string[];
  readonly from?: number;
  readonly to?: number;
  readonly limit?: number;
  readonly cursor?: string;
}

type ToRowId = (row: Readonly<Record<string, unknown>>) => string;

interface RowPage extends RowPageRequest {
  /** For cursors of the next pages. */
  readonly queryDigest: string;
  /** Identifies a row among those of its symbol and time; null if there is one row for each. */
  readonly toId: ToRowId | null;
}

/** @param rows name of the rows: the dataset, with what selects rows beyond symbol and window */
function parsePageQuery(
  service: HistoricalService,
  rows: string,
  query: RowsQuery,
  limitMax: number,
  toId: ToRowId | null = null,
): RowPage {
  const symbols = findRequestedSymbols(service, query.symbol).map(({ symbol }) => symbol);
  const { from, to } = parseWindowQuery(query);
  const queryDigest = digestQuery(rows, { symbols, from, to });
  return {
    symbols,
    from,
    to,
    queryDigest,
    toId,
    after: decodeRowCursor(queryDigest, query.cursor, toId !== null),
    limit: resolveLimit(query.limit, limitMax),
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
const formatSymbolConditions = (symbols: readonly string[], value: (one: QueryParameter) => string): string[] =>
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
      const fileFilter = createFileFilter(manifest, dataset, symbols, window);
      const files = new Map([[dataset, manifest.datasets[dataset].files.filter(fileFilter)]]);
      return { files, defined: [], slice: createPublishedSlice(dataset, window, condition) };
    },
  };
}

/** Reads a page of a dataset, and makes the cursor of the next one. */
async function readRowPage<Row extends object>(
  service: HistoricalService,
  { queryDigest, toId }: RowPage,
  timeColumn: keyof Row & string,
  readRowsOf: (generation: GenerationReader) => Promise<FirstRows<Row>>,
) {
  return await service.history.read(async (generation) => {
    const { rows, isMore } = await readRowsOf(generation);
    const last = rows.at(-1) as Record<string, unknown> | undefined;
    const toPosition = (row: Record<string, unknown>) => ({
      symbol: String(row.symbol),
      t: Number(row[timeColumn]),
      ...(toId !== null && { id: toId(row) }),
    });
    const next = isMore && last !== undefined ? encodeRowCursor(queryDigest, toPosition(last)) : null;
    return { rows, envelope: createEnvelope(service, generation, rows.length, next) };
  });
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

/** Reads named symbols by our own reader, and all symbols by DuckDB. */
const createRowReader =
  (
    service: HistoricalService,
    selection: RowSelection,
    page: RowPage,
    signal: AbortSignal,
    createConditions?: CreateConditions,
  ) =>
  (generation: GenerationReader): Promise<FirstRows<HistoryRow>> => {
    if (page.symbols.length > 0) return readSymbolRows(service.symbolRows, generation, selection, page, signal);
    const steps = planPublishedSteps(service, generation.manifest, selection.dataset, page, createConditions);
    return queryRows(generation, steps, page, signal);
  };

/** GET /api/v1/historical/ticks */
export const createTicksEndpoint = (service: HistoricalService): HistoricalEndpoint<HistoricalTicksQuery> => ({
  async readPage(query, signal) {
    const pageRequest = parsePageQuery(service, 'ticks', query, service.context.settings.service.ticksLimitMax);
    const read = createRowReader(service, { dataset: 'ticks' }, pageRequest, signal);
    const { rows, envelope } = await readRowPage(service, pageRequest, 't', read);
    return { ticks: rows, ...envelope };
  },
  createSlice: (query) => createRowsSlice(service, 'ticks', 'ticks', query),
});

/** GET /api/v1/historical/candles */
export const createCandlesEndpoint = (service: HistoricalService): HistoricalEndpoint<HistoricalCandlesQuery> => ({
  async readPage(query, signal) {
    const { interval } = query;
    const { rowsLimitMax } = service.context.settings.service;
    const pageRequest = parsePageQuery(service, `candles ${interval}`, query, rowsLimitMax);
    const { rows, envelope } = await readRowPage(service, pageRequest, 't', (generation) => {
      if (pageRequest.symbols.length > 0)
        return readSymbolCandles(service.symbolRows, generation, interval, pageRequest, signal);
      const symbols = readAllSymbols(service.context.archive.state.db);
      return queryRows(
        generation,
        planCandleSteps(generation.manifest, interval, pageRequest, symbols),
        pageRequest,
        signal,
      );
    });
    return { interval, candles: rows, ...envelope };
  },
  createSlice(query) {
    const { interval } = query;
    const name = `candles_${interval}`;
    const published = createRowsSlice(service, interval === '1d' ? 'candles_1d' : 'candles_1h', name, query);
    const { symbols, from, to } = published;
    return {
      ...published,
      isUnfiltered: interval === '1h' || interval === '1d',
      createStep(manifest) {
        if (findPublishedCandles(manifest, interval) !== null) return published.createStep(manifest);
        const condition = createCondition((value) => formatSymbolConditions(symbols, value));
        return createComputedStep(manifest, interval, { symbols, from, to }, condition);
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
      const pageRequest = parsePageQuery(service, `coverage ${query.dataset ?? 'ticks'}`, query, limitMax);
      const selection = { dataset: 'coverage', covered: query.dataset ?? 'ticks' } as const;
      const read = createRowReader(service, selection, pageRequest, signal, createConditions(query));
      const { rows, envelope } = await readRowPage(service, pageRequest, 't_from', read);
      return { coverage: rows, ...createGapsPage(service, query, limitMax), ...envelope };
    },
    createSlice: (query) =>
      createRowsSlice(service, 'coverage', `coverage_${query.dataset ?? 'ticks'}`, query, createConditions(query)),
  };
};

/** The gaps of one symbol's ticks, as `oddslake gaps` lists them; the future is not a gap. */
function createGapsPage(service: HistoricalService, query: HistoricalCoverageQuery, limitMax: number): object {
  const [facts, ...others] = findRequestedSymbols(service, query.symbol);
  if (facts === undefined || others.length > 0 || (query.dataset ?? 'ticks') !== 'ticks') return {};
  const { from, to } = parseWindowQuery(query);
  const nowMs = service.context.clock.nowMs();
  if (from !== null && from >= nowMs) return { gaps: [], gaps_count: 0 };
  const by = toCompletenessRules(service.context.settings);
  const { current } = service.context;
  // The manifest of a large archive takes milliseconds to read, and the watcher has it.
  const archive = { ...service.context.archive, readManifest: () => current.getManifest() };
  const { gaps, count } = listGaps(archive, { from, to, symbols: [facts] }, by, nowMs, service.readKnownWindow);
  return { gaps: gaps.slice(0, limitMax), gaps_count: count };
}

/** Maximum number of order book levels per page. */
const levelsMax = 100_000;

/** GET /api/v1/historical/orderbooks */
export const createOrderBooksEndpoint = (
  service: HistoricalService,
): HistoricalEndpoint<HistoricalOrderbooksQuery> => ({
  async readPage(query, signal) {
    const pageRequest = parsePageQuery(service, 'orderbooks', query, service.context.settings.service.rowsLimitMax);
    const { rows, envelope } = await readRowPage(service, pageRequest, 't', (generation) => {
      let levelsLeft = levelsMax;
      const readSlice: ReadSlice<OrderBookSnapshot> = async (query, slice, rowsMax) => {
        const { snapshots, levels, isCut } = await readSnapshots(query, slice, rowsMax, levelsLeft, signal);
        levelsLeft -= levels;
        return { rows: snapshots, isCut: isCut || levelsLeft <= 0 };
      };
      const steps = planPublishedSteps(service, generation.manifest, 'orderbooks', pageRequest);
      return readFirstRows(generation, steps, pageRequest.limit, readSlice, signal);
    });
    return { orderbooks: rows, ...envelope };
  },
  createSlice: (query) => createRowsSlice(service, 'orderbooks', 'orderbooks', query),
});

/** GET /api/v1/historical/quotes */
export const createQuotesEndpoint = (service: HistoricalService): HistoricalEndpoint<HistoricalQuotesQuery> => ({
  async readPage(query, signal) {
    const pageRequest = parsePageQuery(service, 'quotes', query, service.context.settings.service.rowsLimitMax);
    const read = createRowReader(service, { dataset: 'quotes' }, pageRequest, signal);
    const { rows, envelope } = await readRowPage(service, pageRequest, 't', read);
    return { quotes: rows, ...envelope };
  },
  createSlice: (query) => createRowsSlice(service, 'quotes', 'quotes', query),
});

/** GET /api/v1/historical/trades */
export const createTradesEndpoint = (service: HistoricalService): HistoricalEndpoint<HistoricalTradesQuery> => ({
  async readPage(query, signal) {
    const { rowsLimitMax } = service.context.settings.service;
    const idColumn = findIdColumn('trades')!;
    const pageRequest = parsePageQuery(service, 'trades', query, rowsLimitMax, (row) => String(row[idColumn]));
    const { rows, envelope } = await readRowPage(service, pageRequest, 't', (generation) =>
      queryRows(
        generation,
        planPublishedSteps(service, generation.manifest, 'trades', pageRequest),
        pageRequest,
        signal,
      ),
    );
    return { trades: rows, ...envelope };
  },
  createSlice: (query) => createRowsSlice(service, 'trades', 'trades', query),
});

/** GET /api/v1/historical/conflicts */
export const createConflictsEndpoint = (service: HistoricalService): HistoricalEndpoint<HistoricalConflictsQuery> => ({
  async readPage(query, signal) {
    const { rowsLimitMax } = service.context.settings.service;
    const pageRequest = parsePageQuery(service, 'conflicts', query, rowsLimitMax, formatConflictId);
    const id = pageRequest.after?.id;
    if (id !== undefined && parseConflictId(id) === null) throw createInvalidCursorError();
    const { rows, envelope } = await readRowPage(service, pageRequest, 't', (generation) =>
      queryRows(
        generation,
        planPublishedSteps(service, generation.manifest, 'conflicts', pageRequest),
        pageRequest,
        signal,
      ),
    );
    return { conflicts: rows, ...envelope };
  },
  createSlice: (query) => createRowsSlice(service, 'conflicts', 'conflicts', query),
});

/** Maximum number of markets per response; each is returned with its history. */
export const marketsMax = 1000;

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
  async readPage(query, signal) {
    const filter = parseMarketsQuery(service, query);
    const queryDigest = digestQuery('markets', filter);
    const after = decodeMarketCursor(queryDigest, query.cursor);
    const limit = resolveLimit(query.limit, Math.min(marketsMax, service.context.settings.service.rowsLimitMax));
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
