import type { TicksResponse } from '../../../contract/schemas.ts';
import { ApiError, fetchJson, fetchRows } from './api.ts';
import type { ChartData, SymbolTicks } from './chart-data.ts';
import { type CoverageRow, type CoveredWindow, clipGaps, type Gap, joinCoverage } from './covered-windows.ts';
import {
  alignToIntervals,
  type Candle,
  estimateTicks,
  intervals,
  selectInterval,
  type Tick,
  type TickLifetime,
} from './lines.ts';
import type { TimeRange, View } from './view.ts';

interface ChartedSymbol {
  readonly symbol: string;
  readonly life: TickLifetime;
}

/** Maximum estimated number of ticks of a chart. If it is exceeded, the chart uses candles. */
const ticksShownMax = 4000;
/** The same for a range that is too short for a readable number of candles. */
const denseTicksShownMax = 60_000;
const candlesReadableMin = 120;
/** Maximum number of ticks and pages of them that are fetched for a chart. If the estimate was too low, the chart uses candles. */
const ticksFetchedMax = 100_000;
const pagesMax = 20;
const pageSize = 10_000;
/** Maximum number of candles or windows that are fetched for a chart. */
const rowsMax = 200_000;
/** Maximum number of candles of a chart. Candle bodies need more space than a line. */
const getCandlesMax = (chart: View['chart']): number => (chart === 'price' ? 800 : innerWidth < 560 ? 80 : 200);

/** Fetches the data of a range: ticks if there are few, otherwise candles of a suitable interval. */
export async function loadChartData(
  charted: readonly ChartedSymbol[],
  range: TimeRange,
  chart: View['chart'],
  signal: AbortSignal,
): Promise<ChartData> {
  if (chart === 'price' && shouldShowTicks(charted, range)) {
    const [coverage, ...loaded] = await Promise.all([
      loadCoverage(charted[0]!.symbol, range, signal),
      ...charted.map(({ symbol }) => loadTicks(symbol, range, signal)),
    ]);
    if (!loaded.includes(null)) {
      // The coverage has the reasons of the gaps.
      const symbols = (loaded as SymbolTicks[]).map((one, i) =>
        i === 0 && coverage !== null ? { ...one, gaps: addReasons(one.gaps, coverage.gaps) } : one,
      );
      return { kind: 'ticks', range, symbols, coverage: coverage?.windows ?? null };
    }
  }
  const interval = selectInterval(range, getCandlesMax(chart));
  const aligned = alignToIntervals(range, interval);
  const [coverage, ...candles] = await Promise.all([
    loadCoverage(charted[0]!.symbol, aligned, signal),
    ...charted.map(({ symbol }) =>
      fetchRows<Candle>('candles', { interval: interval.name, symbol, ...aligned }, rowsMax, signal),
    ),
  ]);
  const others = await Promise.all(charted.slice(1).map(({ symbol }) => loadCoverage(symbol, aligned, signal)));
  const symbols = charted.map(({ symbol }, i) => ({
    symbol,
    candles: candles[i]!.rows,
    gaps: (i === 0 ? coverage : others[i - 1]!)?.gaps ?? [],
  }));
  return { kind: 'candles', range: aligned, interval, symbols, coverage: coverage?.windows ?? null };
}

function shouldShowTicks(charted: readonly ChartedSymbol[], range: TimeRange): boolean {
  const estimate = charted.reduce((sum, { life }) => sum + estimateTicks(range, life), 0);
  const isDense = (range.to - range.from) / intervals[0].ms < candlesReadableMin;
  return estimate <= (isDense ? denseTicksShownMax : ticksShownMax);
}

/** Gaps of the ticks, which know the journal, with the reasons of the gaps of the coverage. */
function addReasons(gaps: readonly Gap[], known: readonly Gap[]): Gap[] {
  return gaps.map((gap) => {
    if (gap.reason !== undefined) return gap;
    const match = known.find(({ from, to }) => from < gap.to && gap.from < to);
    return match === undefined ? gap : { ...match, from: gap.from, to: gap.to };
  });
}

/** Fetches all ticks of a range; null if there are too many. */
async function loadTicks(symbol: string, range: TimeRange, signal: AbortSignal): Promise<SymbolTicks | null> {
  const ticks: Tick[] = [];
  const gaps: Gap[] = [];
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
  return { symbol, ticks, gaps: clipGaps(gaps, range), until: Math.min(from, range.to) };
}

/** Fetches the covered windows and the gaps of a range; null if the key does not permit them. */
async function loadCoverage(
  symbol: string,
  range: TimeRange,
  signal: AbortSignal,
): Promise<{ windows: CoveredWindow[]; gaps: Gap[] } | null> {
  try {
    const query = { dataset: 'ticks', symbol, ...range };
    const { rows, first } = await fetchRows<CoverageRow, { gaps?: Gap[] }>('coverage', query, rowsMax, signal);
    return { windows: joinCoverage(rows, range), gaps: clipGaps(first.gaps ?? [], range) };
  } catch (error) {
    if (error instanceof ApiError && error.status === 403) return null;
    throw error;
  }
}
