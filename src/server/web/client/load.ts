import { fetchJson } from './api.ts';
import {
  alignToIntervals,
  type Candle,
  clipGaps,
  estimateTicks,
  type Interval,
  selectInterval,
  type Tick,
  type TickLifetime,
} from './lines.ts';
import type { TimeRange, View } from './view.ts';

/** Data of a chart. */
export type ChartData =
  | {
      readonly kind: 'ticks';
      readonly range: TimeRange;
      readonly gaps: readonly TimeRange[];
      readonly ticks: readonly Tick[];
      readonly until: number;
    }
  | {
      readonly kind: 'candles';
      readonly range: TimeRange;
      readonly gaps: readonly TimeRange[];
      readonly candles: readonly Candle[];
      readonly interval: Interval;
    };

/** Maximum estimated number of ticks of a chart. If it is exceeded, the chart uses candles. */
const ticksShownMax = 4000;
/** Maximum number of ticks and pages that are fetched for a chart. If the estimate was too low, the chart uses candles. */
const ticksFetchedMax = 20_000;
const pagesMax = 20;
const pageSize = 10_000;
/** Maximum number of candles of a chart. Candle bodies need more space than a line. */
const getCandlesMax = (chart: View['chart']): number => (chart === 'price' ? 800 : innerWidth < 560 ? 80 : 200);

interface TicksResponse {
  readonly ticks: readonly Tick[];
  readonly to: number;
  readonly generated_at: number;
  readonly gaps?: readonly TimeRange[];
}

/** Fetches the data of a range: ticks if there are few, otherwise candles of a suitable interval. */
export async function loadChartData(
  symbol: string,
  range: TimeRange,
  lifetime: TickLifetime,
  chart: View['chart'],
  signal: AbortSignal,
): Promise<ChartData> {
  if (chart === 'price' && estimateTicks(range, lifetime) <= ticksShownMax) {
    const loaded = await loadTicks(symbol, range, signal);
    if (loaded !== null) return loaded;
  }
  return loadCandles(symbol, range, chart, signal);
}

/** Fetches all ticks of a range; null if there are too many. */
async function loadTicks(symbol: string, range: TimeRange, signal: AbortSignal): Promise<ChartData | null> {
  const ticks: Tick[] = [];
  const gaps: TimeRange[] = [];
  let { from, to } = range;
  for (let page = 0; from < to; page++) {
    if (page === pagesMax || ticks.length > ticksFetchedMax) return null;
    const query = { symbol, from, to: range.to, limit: pageSize };
    const response = await fetchJson<TicksResponse>('/api/v1/ticks', query, signal);
    for (const tick of response.ticks) ticks.push(tick);
    for (const gap of response.gaps ?? []) gaps.push(gap);
    // A truncated response ends before the end of the requested window. No response ends after the current time.
    to = Math.min(to, response.generated_at);
    if (response.to <= from) break;
    from = response.to;
  }
  return { kind: 'ticks', range, ticks, gaps: clipGaps(gaps, range), until: Math.min(from, range.to) };
}

interface CandlesResponse {
  readonly candles: readonly Candle[];
  readonly next_cursor: string | null;
}

async function loadCandles(
  symbol: string,
  range: TimeRange,
  chart: View['chart'],
  signal: AbortSignal,
): Promise<ChartData> {
  const interval = selectInterval(range, getCandlesMax(chart));
  const aligned = alignToIntervals(range, interval);
  const [candles, gaps] = await Promise.all([
    fetchCandles(symbol, aligned, interval, signal),
    fetchJson<{ gaps?: readonly TimeRange[] }>(
      '/api/v1/historical/coverage',
      { dataset: 'ticks', symbol, ...range, limit: 1 },
      signal,
    ).then((response) => response.gaps ?? []),
  ]);
  return { kind: 'candles', range: aligned, candles, gaps: clipGaps(gaps, aligned), interval };
}

async function fetchCandles(
  symbol: string,
  range: TimeRange,
  interval: Interval,
  signal: AbortSignal,
): Promise<Candle[]> {
  const candles: Candle[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < pagesMax; page++) {
    const query = { interval: interval.name, symbol, ...range, limit: pageSize, cursor };
    const response: CandlesResponse = await fetchJson('/api/v1/historical/candles', query, signal);
    candles.push(...response.candles);
    cursor = response.next_cursor;
    if (cursor === null) break;
  }
  return candles;
}
