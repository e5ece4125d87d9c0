import { askJson } from './api.ts';
import { fittingInterval, type Interval, type Life, ticksExpected, wholeIntervals } from './intervals.ts';
import { type Candle, gapsWithin, type Tick } from './lines.ts';
import type { Range, View } from './view.ts';

/** What a chart is drawn from. */
export type Loaded =
  | {
      readonly kind: 'ticks';
      readonly range: Range;
      readonly gaps: readonly Range[];
      readonly ticks: readonly Tick[];
      readonly until: number;
    }
  | {
      readonly kind: 'candles';
      readonly range: Range;
      readonly gaps: readonly Range[];
      readonly candles: readonly Candle[];
      readonly interval: Interval;
    };

/** Above this many expected ticks a price is drawn from candles. */
const ticksShownMax = 4000;
/** Ticks and answers taken for one chart at most: where there are more than expected, candles are drawn after all. */
const ticksTakenMax = 20_000;
const pagesMax = 20;
const pageLength = 10_000;
/** As a line, or as bodies that have to be told apart. */
const candlesMax = (chart: View['chart']): number => (chart === 'price' ? 800 : innerWidth < 560 ? 80 : 200);

interface TicksAnswer {
  readonly ticks: readonly Tick[];
  readonly to: number;
  readonly generated_at: number;
  readonly gaps?: readonly Range[];
}

/** Fetches what the range calls for: every tick where they are few, else candles of a fitting interval. */
export async function load(
  symbol: string,
  range: Range,
  life: Life,
  chart: View['chart'],
  signal: AbortSignal,
): Promise<Loaded> {
  if (chart === 'price' && ticksExpected(range, life) <= ticksShownMax) {
    const loaded = await loadTicks(symbol, range, signal);
    if (loaded !== null) return loaded;
  }
  return loadCandles(symbol, range, chart, signal);
}

/** Null where there are too many of them. */
async function loadTicks(symbol: string, range: Range, signal: AbortSignal): Promise<Loaded | null> {
  const ticks: Tick[] = [];
  const gaps: Range[] = [];
  let { from, to } = range;
  for (let page = 0; from < to; page++) {
    if (page === pagesMax || ticks.length > ticksTakenMax) return null;
    const asked = { symbol, from, to: range.to, limit: pageLength };
    const answer = await askJson<TicksAnswer>('/api/v1/ticks', asked, signal);
    for (const tick of answer.ticks) ticks.push(tick);
    for (const gap of answer.gaps ?? []) gaps.push(gap);
    // An answer that was cut ends before the window asked for; at the present all of them end.
    to = Math.min(to, answer.generated_at);
    if (answer.to <= from) break;
    from = answer.to;
  }
  return { kind: 'ticks', range, ticks, gaps: gapsWithin(gaps, range), until: Math.min(from, range.to) };
}

interface CandlesAnswer {
  readonly candles: readonly Candle[];
  readonly next_cursor: string | null;
}

async function loadCandles(symbol: string, range: Range, chart: View['chart'], signal: AbortSignal): Promise<Loaded> {
  const interval = fittingInterval(range, candlesMax(chart));
  const whole = wholeIntervals(range, interval);
  const [candles, gaps] = await Promise.all([
    candlesOf(symbol, whole, interval, signal),
    askJson<{ gaps?: readonly Range[] }>(
      '/api/v1/historical/coverage',
      { dataset: 'ticks', symbol, ...range, limit: 1 },
      signal,
    ).then((answer) => answer.gaps ?? []),
  ]);
  return { kind: 'candles', range: whole, candles, gaps: gapsWithin(gaps, whole), interval };
}

async function candlesOf(symbol: string, range: Range, interval: Interval, signal: AbortSignal): Promise<Candle[]> {
  const candles: Candle[] = [];
  let cursor: string | null = null;
  for (let page = 0; page < pagesMax; page++) {
    const asked = { interval: interval.name, symbol, ...range, limit: pageLength, cursor };
    const answer: CandlesAnswer = await askJson('/api/v1/historical/candles', asked, signal);
    candles.push(...answer.candles);
    cursor = answer.next_cursor;
    if (cursor === null) break;
  }
  return candles;
}
