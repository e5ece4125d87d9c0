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

/** What a chart is drawn from. */
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

/** Above this many expected ticks a price is drawn from candles. */
const ticksShownMax = 4000;
/** Ticks and answers taken for one chart at most: where there are more than expected, candles are drawn after all. */
const ticksFetchedMax = 20_000;
const pagesMax = 20;
const pageSize = 10_000;
/** As a line, or as bodies that have to be told apart. */
const getCandlesMax = (chart: View['chart']): number => (chart === 'price' ? 800 : innerWidth < 560 ? 80 : 200);

interface TicksResponse {
  readonly ticks: readonly Tick[];
  readonly to: number;
  readonly generated_at: number;
  readonly gaps?: readonly TimeRange[];
}

/** Fetches what the range calls for: every tick where they are few, else candles of a fitting interval. */
export async function loadChartData(
  symbol: string,
  range: TimeRange,
  life: TickLifetime,
  chart: View['chart'],
  signal: AbortSignal,
): Promise<ChartData> {
  if (chart === 'price' && estimateTicks(range, life) <= ticksShownMax) {
    const loaded = await loadTicks(symbol, range, signal);
    if (loaded !== null) return loaded;
  }
  return loadCandles(symbol, range, chart, signal);
}

/** Null where there are too many of them. */
async function loadTicks(symbol: string, range: TimeRange, signal: AbortSignal): Promise<ChartData | null> {
  const ticks: Tick[] = [];
  const gaps: TimeRange[] = [];
  let { from, to } = range;
  for (let page = 0; from < to; page++) {
    if (page === pagesMax || ticks.length > ticksFetchedMax) return null;
    const asked = { symbol, from, to: range.to, limit: pageSize };
    const answer = await fetchJson<TicksResponse>('/api/v1/ticks', asked, signal);
    for (const tick of answer.ticks) ticks.push(tick);
    for (const gap of answer.gaps ?? []) gaps.push(gap);
    // An answer that was cut ends before the window asked for; at the present all of them end.
    to = Math.min(to, answer.generated_at);
    if (answer.to <= from) break;
    from = answer.to;
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
  const whole = alignToIntervals(range, interval);
  const [candles, gaps] = await Promise.all([
    fetchCandles(symbol, whole, interval, signal),
    fetchJson<{ gaps?: readonly TimeRange[] }>(
      '/api/v1/historical/coverage',
      { dataset: 'ticks', symbol, ...range, limit: 1 },
      signal,
    ).then((answer) => answer.gaps ?? []),
  ]);
  return { kind: 'candles', range: whole, candles, gaps: clipGaps(gaps, whole), interval };
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
    const asked = { interval: interval.name, symbol, ...range, limit: pageSize, cursor };
    const answer: CandlesResponse = await fetchJson('/api/v1/historical/candles', asked, signal);
    candles.push(...answer.candles);
    cursor = answer.next_cursor;
    if (cursor === null) break;
  }
  return candles;
}
