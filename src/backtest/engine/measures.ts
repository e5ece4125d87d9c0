import { resolveQuantity } from '../strategy/parse-strategy.ts';
import type { Measure, Strategy } from '../strategy/strategy.ts';
import type { MarketState, SymbolSeries } from './series.ts';

/** The open position, for measures of the position. */
export interface Position {
  /** Time of the fill, epoch ms. */
  boughtAt: number;
  /** Price paid per contract, without fees. */
  cost: number;
  /** A contract is worth `sign * p + offset`: p for yes, 1 - p for no. */
  readonly sign: 1 | -1;
  readonly offset: 0 | 1;
}

/** Value of a measure at a tick; NaN if unknown. Must be called with ascending ticks; ticks can be skipped. */
export type ReadMeasure = (i: number) => number;

/** Measures of one strategy on one symbol. A value depends only on ticks up to its own. */
export interface Measures {
  /** A measure at every tick, NaN if unknown; null if it is not stored as a column. */
  getColumn(measure: Measure): Float64Array | null;
  createReader(measure: Measure, position: Position): ReadMeasure;
  getState(i: number): MarketState | null;
}

export function createMeasures(series: SymbolSeries, strategy: Strategy): Measures {
  const { t, p } = series;
  const windowMsOf = ({ window_ms }: Measure): number =>
    window_ms === undefined ? 0 : resolveQuantity(window_ms, strategy);
  const column = (of: Measure): Float64Array | null => {
    if (of.measure === 'price') return p;
    if (of.measure !== 'moving_average' && of.measure !== 'z_score') return null;
    return getWindowColumn(series, of.measure, windowMsOf(of));
  };
  const state = createStateReader(series);
  return {
    getColumn: column,
    getState: state,
    createReader(of, position) {
      const windowMs = windowMsOf(of);
      const values = column(of);
      if (values !== null) return (i) => values[i]!;
      switch (of.measure) {
        case 'price':
          return (i) => p[i]!;
        case 'moving_average':
        case 'z_score':
          return createWindowReader(series, of.measure, windowMs);
        case 'return':
          return createReturnReader(series, windowMs);
        case 'venue_spread':
          return createVenueSpreadReader(series, windowMs);
        case 'time_to_close_ms':
          return (i) => (state(i)?.closesAt ?? Number.NaN) - t[i]!;
        case 'confidence':
          return (i) => state(i)?.confidence ?? Number.NaN;
        case 'held_ms':
          return (i) => t[i]! - position.boughtAt;
        case 'gain':
          return (i) => position.sign * p[i]! + position.offset - position.cost;
      }
    },
  };
}

type WindowedMeasure = 'moving_average' | 'z_score';

/** Cached window measures, because rules and grid points often use the same ones. Freed together with the prices. */
const windowColumnCache = new WeakMap<Float64Array, Map<string, Float64Array>>();

/** Maximum number of cached values per symbol; other values are computed on demand. */
export const windowValuesMax = 8_000_000;

/** A window measure at every tick, computed from the ticks up to it; null if the cache is full. */
function getWindowColumn({ t, p }: SymbolSeries, measure: WindowedMeasure, windowMs: number): Float64Array | null {
  const cached = windowColumnCache.get(p) ?? new Map<string, Float64Array>();
  windowColumnCache.set(p, cached);
  const name = `${measure} ${windowMs}`;
  const cachedColumn = cached.get(name);
  if (cachedColumn !== undefined) return cachedColumn;
  if ((cached.size + 1) * p.length > windowValuesMax) return null;
  const read = createWindowReader({ t, p }, measure, windowMs);
  const column = new Float64Array(p.length);
  for (let i = 0; i < column.length; i++) column[i] = read(i);
  cached.set(name, column);
  return column;
}

function createWindowReader(
  { t, p }: Pick<SymbolSeries, 't' | 'p'>,
  measure: WindowedMeasure,
  windowMs: number,
): ReadMeasure {
  const window = createRollingWindow(t, p, windowMs);
  return (i) => {
    window.advanceTo(i);
    if (!window.isFull()) return Number.NaN;
    if (measure === 'moving_average') return window.getMean();
    const deviation = window.getDeviation();
    // Without deviation the z-score is undefined.
    return deviation > 0 ? (p[i]! - window.getMean()) / deviation : Number.NaN;
  };
}

/** Reads the market state known at a tick. */
function createStateReader({ t, states }: SymbolSeries): (i: number) => MarketState | null {
  let cached = 0;
  return (i) => {
    while (cached < states.length && states[cached]!.from <= t[i]!) cached++;
    return states[cached - 1] ?? null;
  };
}

/** Relative change since the last price at or before the start of the window. */
function createReturnReader({ t, p }: SymbolSeries, windowMs: number): ReadMeasure {
  // Number of ticks at or before the start of the window.
  let before = 0;
  return (i) => {
    const start = t[i]! - windowMs;
    while (t[before]! <= start) before++;
    const base = before === 0 ? 0 : p[before - 1]!;
    return base > 0 ? p[i]! / base - 1 : Number.NaN;
  };
}

/** The price minus the mean of the last prices within the window on other venues then known to have the same market. */
function createVenueSpreadReader({ t, p, otherVenues }: SymbolSeries, windowMs: number): ReadMeasure {
  const venues = otherVenues.map(({ t, p, sharedWindows }) => ({ t, p, together: sharedWindows, seen: 0, left: 0 }));
  return (i) => {
    let [sum, n] = [0, 0];
    for (const venue of venues) {
      while (venue.seen < venue.t.length && venue.t[venue.seen]! <= t[i]!) venue.seen++;
      if (venue.seen === 0 || venue.t[venue.seen - 1]! <= t[i]! - windowMs) continue;
      while (venue.left < venue.together.length && venue.together[venue.left]!.to <= t[i]!) venue.left++;
      if (!((venue.together[venue.left]?.from ?? Number.POSITIVE_INFINITY) <= t[i]!)) continue;
      sum += venue.p[venue.seen - 1]!;
      n++;
    }
    return n === 0 ? Number.NaN : p[i]! - sum / n;
  };
}

/**
 * Mean and standard deviation of the prices in a window (t - windowMs, t], for ascending ticks. Uses running sums, which are
 * recomputed regularly to bound rounding errors.
 */
interface RollingWindow {
  /** Moves the window to a tick. Ticks must be ascending. */
  advanceTo(i: number): void;
  /** Whether there is a tick at or before the start of the window. */
  isFull(): boolean;
  getMean(): number;
  /** Population standard deviation; exactly 0 if all prices are equal. */
  getDeviation(): number;
}

/** Minimum variance relative to the peak of the sum of squares. Below it, rounding errors are too large. */
const relativePrecision = 1e-6;

export function createRollingWindow(t: Float64Array, p: Float64Array, windowMs: number): RollingWindow {
  // The window contains the ticks [low, high).
  let [low, high] = [0, 0];
  // Sums of differences from a pivot near the mean, to limit cancellation, and the peak of the sum of squares since
  // they were recomputed, which bounds the rounding error. Kept in a typed array, because assigning a double in a
  // closure allocates.
  const sums = new Float64Array(4);
  const [pivotAt, sumAt, squaresAt, peakAt] = [0, 1, 2, 3] as const;
  let removed = 0;
  // First of the latest ticks with equal prices.
  let sameFrom = 0;

  const recompute = (): void => {
    let total = 0;
    for (let i = low; i < high; i++) total += p[i]! - p[low]!;
    const pivot = p[low]! + total / (high - low);
    let [sum, squares] = [0, 0];
    for (let i = low; i < high; i++) {
      const d = p[i]! - pivot;
      sum += d;
      squares += d * d;
    }
    sums[pivotAt] = pivot;
    sums[sumAt] = sum;
    sums[squaresAt] = squares;
    sums[peakAt] = squares;
    removed = 0;
  };
  /** Sum of squared differences from the mean. */
  const spread = (n: number): number => sums[squaresAt]! - (sums[sumAt]! * sums[sumAt]!) / n;

  return {
    advanceTo(i) {
      if (i < high) return;
      const [start, before, next] = [t[i]! - windowMs, low, high];
      // The ticks between two calls can span more than the window.
      while (t[low]! <= start) low++;
      high = i + 1;
      for (let k = next; k <= i; k++) if (k > 0 && p[k] !== p[k - 1]) sameFrom = k;
      removed += low - before;
      if (before === next || low >= next || removed > 4 * (high - low) + 1024) {
        recompute();
        return;
      }
      const pivot = sums[pivotAt]!;
      let [sum, squares] = [sums[sumAt]!, sums[squaresAt]!];
      for (let k = before; k < low; k++) {
        const d = p[k]! - pivot;
        sum -= d;
        squares -= d * d;
      }
      for (let k = next; k < high; k++) {
        const d = p[k]! - pivot;
        sum += d;
        squares += d * d;
      }
      sums[sumAt] = sum;
      sums[squaresAt] = squares;
      if (squares > sums[peakAt]!) sums[peakAt] = squares;
    },
    isFull: () => low > 0,
    getMean: () => (sameFrom <= low ? p[low]! : sums[pivotAt]! + sums[sumAt]! / (high - low)),
    getDeviation() {
      if (sameFrom <= low) return 0;
      const n = high - low;
      // After a jump, a small deviation would be lost to rounding.
      if (!(spread(n) > relativePrecision * sums[peakAt]!)) recompute();
      return Math.sqrt(Math.max(0, spread(n) / n));
    },
  };
}
