import { createFileFilter } from '../../archive/copies/prune-files.ts';
import type { Manifest, PublishedFile } from '../../archive/manifest.ts';
import { type DatasetName, datasets } from '../../archive/parquet/schema.ts';
import { listViewDefinitions } from '../../archive/texts/views-sql.ts';
import type { SymbolFacts } from '../../core/market.ts';
import { dayMs } from '../../core/window.ts';
import { type DatasetSlice, type SqlCondition, toSqlTimestamp } from '../../query/slice-query.ts';
import type { RowPageRequest, ScanStep } from './keyset-page.ts';
import {
  createCondition,
  createPublishedSlice,
  formatRangeConditions,
  planDaySteps,
  planRangeSteps,
  planSymbolRanges,
} from './scan-plan.ts';

const minuteMs = 60_000;

/** Intervals of candles, each with its length in milliseconds, as the archive's macro knows them. */
export const candleSteps = {
  '1m': minuteMs,
  '5m': 5 * minuteMs,
  '15m': 15 * minuteMs,
  '30m': 30 * minuteMs,
  '1h': 60 * minuteMs,
  '4h': 240 * minuteMs,
  '6h': 360 * minuteMs,
  '12h': 720 * minuteMs,
  '1d': dayMs,
  '1w': 7 * dayMs,
} as const;
export type CandleInterval = keyof typeof candleSteps;

export const candleIntervals = Object.keys(candleSteps) as CandleInterval[];

/** The dataset that holds candles of an interval for every tick of a generation; null where they are to be computed. */
export function findPublishedCandles(
  { datasets: { ticks, ...others } }: Manifest,
  interval: CandleInterval,
): DatasetName | null {
  const dataset = interval === '1h' ? 'candles_1h' : interval === '1d' ? 'candles_1d' : null;
  if (dataset === null) return null;
  // Part by part: a publish passes over a damaged one, and makes the candles of the others.
  const placeOf = ({ path }: PublishedFile): string => path.slice(path.indexOf('/'));
  const kept = new Set(others[dataset].files.map(placeOf));
  return ticks.files.every((file) => kept.has(placeOf(file))) ? dataset : null;
}

/** Pages of candles, from the published ones where there are some of that interval. */
export function planCandlePage(
  manifest: Manifest,
  interval: CandleInterval,
  asked: RowPageRequest,
  symbols: () => readonly SymbolFacts[],
): Iterable<ScanStep> {
  const { symbol } = asked;
  const published = findPublishedCandles(manifest, interval);
  if (symbol === null) {
    return published === null
      ? planComputedRanges(manifest, interval, asked, symbols())
      : planRangeSteps(manifest, published, 't', asked, symbols());
  }
  return published === null
    ? planComputedDays(manifest, interval, { ...asked, symbol })
    : planDaySteps(manifest, published, 't', { ...asked, symbol });
}

/** Days that are looked at in any case: another one costs less than another query. */
const daysMin = 8;

/** Candles of one symbol: windows of time one after another, each of them as long as a page if no interval is empty. */
function* planComputedDays(
  manifest: Manifest,
  interval: CandleInterval,
  asked: RowPageRequest & { readonly symbol: string },
): Generator<ScanStep> {
  const { symbol, after, limit } = asked;
  const stepMs = candleSteps[interval];
  const condition = createCondition((value) => [`symbol = ${value(symbol)}`]);
  let from = Math.max(asked.from ?? 0, after === null ? 0 : after.t + 1);
  let length = Math.max(daysMin * dayMs, (limit + 1) * stepMs);
  for (;;) {
    const ahead = selectTickFiles(manifest, [symbol], from, asked.to, stepMs);
    if (ahead.length === 0) return;
    // A candle may start before its first tick, but not before the window.
    const first = Math.min(...ahead.map(({ t_min }) => t_min ?? 0));
    from = Math.max(from, first - stepMs);
    const to = Math.min(asked.to ?? Number.POSITIVE_INFINITY, from + length);
    if (from >= to) return;
    yield createComputedStep(manifest, interval, { symbols: [symbol], from, to }, condition);
    from = to;
    length *= 4;
  }
}

function* planComputedRanges(
  manifest: Manifest,
  interval: CandleInterval,
  asked: RowPageRequest,
  symbols: readonly SymbolFacts[],
): Generator<ScanStep> {
  const { after, from, to } = asked;
  for (const { above, upTo } of planSymbolRanges(symbols, after?.symbol ?? null)) {
    const condition = createCondition((value) => formatRangeConditions(above, upTo, after, 't', value));
    yield createComputedStep(manifest, interval, { symbols: [], from, to }, condition);
  }
}

interface CandleWindow {
  readonly symbols: readonly string[];
  readonly from: number | null;
  readonly to: number | null;
}

/** Candles that start in a window, as a view of the macro's, over the files that they need. */
export function createComputedStep(
  manifest: Manifest,
  interval: CandleInterval,
  { symbols, from, to }: CandleWindow,
  condition: SqlCondition,
): ScanStep {
  const stepMs = candleSteps[interval];
  const ticks = selectTickFiles(manifest, symbols, from, to, stepMs);
  const known = ticks.flatMap(({ t_min, t_max }) => [t_min, t_max]).filter((t) => t !== null);
  const since = Math.max(from ?? 0, known.reduce((least, t) => Math.min(least, t), Number.POSITIVE_INFINITY) - stepMs);
  const until = Math.min(to ?? Number.POSITIVE_INFINITY, known.reduce((most, t) => Math.max(most, t), 0) + 1);
  const window = ticks.length === 0 ? { from: 0, to: 0 } : { from: since, to: until };
  const beside = createFileFilter(manifest, 'coverage', [], { from: window.from, to: window.to + stepMs });
  const dataset = `candles_${interval}`;
  const macro = listViewDefinitions(false).find(({ name }) => name === 'candles')!.sql;
  const names = datasets.candles_1h.map(({ name }) => name).join(', ');
  const view = `CREATE OR REPLACE VIEW ${dataset} AS SELECT ${names} FROM candles('${interval}', since := ${toSqlTimestamp(window.from)}, until := ${toSqlTimestamp(window.to)})`;
  const slice: DatasetSlice = { ...createPublishedSlice('candles_1h', { from, to }, condition), dataset };
  return {
    files: new Map<DatasetName, readonly PublishedFile[]>([
      ['ticks', ticks],
      ['coverage', manifest.datasets.coverage.files.filter(beside)],
    ]),
    defined: [macro, view],
    slice,
  };
}

function selectTickFiles(
  manifest: Manifest,
  symbols: readonly string[],
  from: number | null,
  to: number | null,
  stepMs: number,
): PublishedFile[] {
  const wanted = createFileFilter(manifest, 'ticks', symbols, { from, to: to === null ? null : to + stepMs });
  return manifest.datasets.ticks.files.filter(wanted);
}
