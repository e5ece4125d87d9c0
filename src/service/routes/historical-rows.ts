import { mayHold } from '../../archive/copies/prune-files.ts';
import type { Manifest } from '../../archive/manifest.ts';
import type { DatasetName } from '../../archive/parquet/schema.ts';
import type {
  HistoricalCandlesQuery,
  HistoricalCoverageQuery,
  HistoricalOrderbooksQuery,
  HistoricalTicksQuery,
} from '../../contract/historical.ts';
import type { Parameter } from '../../query/convert-values.ts';
import { listGaps } from '../../reading/gaps.ts';
import { candlePageSteps, computedStep, publishedCandles } from '../../reading/history/candle-scan-plan.ts';
import { firstOf, type PageAsked, type Place, type Row, rowsOf, type Step } from '../../reading/history/keyset-page.ts';
import { type BookSnapshot, snapshotsOf } from '../../reading/history/order-book-page.ts';
import { conditionOf, daySteps, publishedSlice, rangeSteps } from '../../reading/history/scan-plan.ts';
import { judgedBy } from '../../settings/judged-by.ts';
import { allSymbols } from '../../state/symbols.ts';
import { placeCursor, readPlace } from '../cursor.ts';
import {
  type Desk,
  type Endpoint,
  envelope,
  limitOf,
  type SliceAsked,
  symbolOf,
  windowOf,
} from '../historical-service.ts';

type Narrowed = (value: (one: Parameter) => string) => readonly string[];

interface RowsQuery {
  readonly symbol?: string;
  readonly from?: number;
  readonly to?: number;
  readonly limit?: number;
  readonly cursor?: string;
}

const asPage = (desk: Desk, query: RowsQuery, most: number): PageAsked => ({
  symbol: symbolOf(desk, query.symbol)?.symbol ?? null,
  ...windowOf(query),
  after: readPlace(query.cursor),
  limit: limitOf(query.limit, most),
});

/** Pages of a dataset: one symbol day by day, or all of them a range at a time. */
function publishedSteps(
  desk: Desk,
  manifest: Manifest,
  dataset: DatasetName,
  timed: string,
  asked: PageAsked,
  narrowed?: Narrowed,
): Iterable<Step> {
  const { symbol } = asked;
  return symbol === null
    ? rangeSteps(manifest, dataset, timed, asked, allSymbols(desk.context.archive.state.db), narrowed)
    : daySteps(manifest, dataset, timed, { ...asked, symbol }, narrowed);
}

/** Rows of a dataset as a file. */
function publishedFile(
  desk: Desk,
  dataset: DatasetName,
  name: string,
  query: RowsQuery,
  narrowed: Narrowed = () => [],
): SliceAsked {
  const symbol = symbolOf(desk, query.symbol)?.symbol ?? null;
  const window = windowOf(query);
  const condition = conditionOf((value) => [
    ...narrowed(value),
    ...(symbol === null ? [] : [`symbol = ${value(symbol)}`]),
  ]);
  return {
    dataset,
    name,
    symbol,
    ...window,
    step(manifest) {
      const wanted = mayHold(manifest, dataset, symbol === null ? [] : [symbol], window);
      const files = new Map([[dataset, manifest.datasets[dataset].files.filter(wanted)]]);
      return { files, defined: [], slice: publishedSlice(dataset, window, condition) };
    },
  };
}

async function pageOf(
  desk: Desk,
  asked: PageAsked,
  steps: (manifest: Manifest) => Iterable<Step>,
  timed: string,
  signal: AbortSignal,
) {
  return await desk.history.reading(async (generation) => {
    const read = (query: Parameters<typeof rowsOf>[0], slice: Step['slice'], wanted: number) =>
      rowsOf(query, slice, wanted, signal);
    const { rows, isMore } = await firstOf<Row>(generation, steps(generation.manifest), asked.limit, read, signal);
    const last = rows.at(-1);
    const next =
      isMore && last !== undefined ? placeCursor({ symbol: String(last.symbol), t: Number(last[timed]) }) : null;
    return { rows, told: envelope(desk, generation, rows.length, next) };
  });
}

/** GET /api/v1/historical/ticks */
export const ticks = (desk: Desk): Endpoint<HistoricalTicksQuery> => ({
  async page(query, signal) {
    const asked = asPage(desk, query, desk.context.settings.service.ticksLimitMax);
    const steps = (manifest: Manifest) => publishedSteps(desk, manifest, 'ticks', 't', asked);
    const { rows, told } = await pageOf(desk, asked, steps, 't', signal);
    return { ticks: rows, ...told };
  },
  slice: (query) => publishedFile(desk, 'ticks', 'ticks', query),
});

/** GET /api/v1/historical/candles */
export const candles = (desk: Desk): Endpoint<HistoricalCandlesQuery> => ({
  async page(query, signal) {
    const { interval } = query;
    const asked = asPage(desk, query, desk.context.settings.service.rowsLimitMax);
    const symbols = () => allSymbols(desk.context.archive.state.db);
    const steps = (manifest: Manifest) => candlePageSteps(manifest, interval, asked, symbols);
    const { rows, told } = await pageOf(desk, asked, steps, 't', signal);
    return { interval, candles: rows, ...told };
  },
  slice(query) {
    const { interval } = query;
    const name = `candles_${interval}`;
    const published = publishedFile(desk, interval === '1d' ? 'candles_1d' : 'candles_1h', name, query);
    const { symbol, from, to } = published;
    return {
      ...published,
      step(manifest) {
        if (publishedCandles(manifest, interval) !== null) return published.step(manifest);
        const condition = conditionOf((value) => (symbol === null ? [] : [`symbol = ${value(symbol)}`]));
        return computedStep(manifest, interval, { symbols: symbol === null ? [] : [symbol], from, to }, condition);
      },
    };
  },
});

/** GET /api/v1/historical/coverage */
export const coverage = (desk: Desk): Endpoint<HistoricalCoverageQuery> => {
  const narrowed =
    ({ dataset = 'ticks' }: HistoricalCoverageQuery): Narrowed =>
    (value) => [`dataset = ${value(dataset)}`];
  return {
    async page(query, signal) {
      const most = desk.context.settings.service.rowsLimitMax;
      const asked = asPage(desk, query, most);
      const steps = (manifest: Manifest) =>
        publishedSteps(desk, manifest, 'coverage', 't_from', asked, narrowed(query));
      const { rows, told } = await pageOf(desk, asked, steps, 't_from', signal);
      return { coverage: rows, ...gapsOf(desk, query, most), ...told };
    },
    slice: (query) => publishedFile(desk, 'coverage', `coverage_${query.dataset ?? 'ticks'}`, query, narrowed(query)),
  };
};

/** The gaps of one symbol's ticks, as `oddslake gaps` tells them; what is still to come is none. */
function gapsOf(desk: Desk, query: HistoricalCoverageQuery, most: number): object {
  const facts = symbolOf(desk, query.symbol);
  if (facts === null || query.dataset === 'orderbooks') return {};
  const { from, to } = windowOf(query);
  const nowMs = desk.context.clock.nowMs();
  if (from !== null && from >= nowMs) return { gaps: [], gaps_count: 0 };
  const by = judgedBy(desk.context.settings);
  const { gaps, count } = listGaps(desk.context.archive, { from, to, symbols: [facts] }, by, nowMs);
  return { gaps: gaps.slice(0, most), gaps_count: count };
}

/** Levels of the order books of one page. */
const levelsMax = 100_000;

/** GET /api/v1/historical/orderbooks */
export const orderbooks = (desk: Desk): Endpoint<HistoricalOrderbooksQuery> => ({
  async page(query, signal) {
    const asked = asPage(desk, query, desk.context.settings.service.rowsLimitMax);
    return await desk.history.reading(async (generation) => {
      const steps = publishedSteps(desk, generation.manifest, 'orderbooks', 't', asked);
      const found: BookSnapshot[] = [];
      let left = levelsMax;
      let isCut = false;
      for (const { files, defined, slice } of steps) {
        const opened = await generation.open(files, defined, signal);
        try {
          const told = await snapshotsOf(opened, slice, asked.limit + 1 - found.length, left, signal);
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
      const next = isMore && last !== undefined ? placeCursor(last satisfies Place) : null;
      return { orderbooks: books, ...envelope(desk, generation, books.length, next) };
    });
  },
  slice: (query) => publishedFile(desk, 'orderbooks', 'orderbooks', query),
});
