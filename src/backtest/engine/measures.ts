import { resolveQuantity } from '../strategy/parse-strategy.ts';
import type { Measure, Strategy } from '../strategy/strategy.ts';
import type { MarketState, SymbolSeries } from './symbol-series.ts';

/** A position that is held, for measures of it. */
export interface Position {
  /** When it was bought, epoch milliseconds. */
  boughtAt: number;
  /** Paid for a contract, fees left out. */
  cost: number;
  /** What a contract is worth is `sign * p + base`: p for yes, 1 - p for no. */
  readonly sign: 1 | -1;
  readonly offset: 0 | 1;
}

/** A measure at a tick; NaN where it is not known. Asked for ticks in their order, not for each of them. */
export type ReadMeasure = (i: number) => number;

/** What the measures of one strategy on one symbol share. They look at ticks up to the one that is asked for only. */
export interface Measures {
  /** A measure at every tick, NaN where it is not known; null where it is not kept so. */
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

/** What windows over prices came to: rules and points of a grid mostly ask for the same ones. They go with the prices. */
const windowColumnCache = new WeakMap<Float64Array, Map<string, Float64Array>>();

/** Values that are kept of one symbol's windows; what does not fit is made as it is asked for. */
export const windowValuesMax = 8_000_000;

/** A windowed measure at every tick, each value made of the ticks up to its own; null where there is no room for it. */
function getWindowColumn({ t, p }: SymbolSeries, measure: WindowedMeasure, windowMs: number): Float64Array | null {
  const known = windowColumnCache.get(p) ?? new Map<string, Float64Array>();
  windowColumnCache.set(p, known);
  const name = `${measure} ${windowMs}`;
  const found = known.get(name);
  if (found !== undefined) return found;
  if ((known.size + 1) * p.length > windowValuesMax) return null;
  const read = createWindowReader({ t, p }, measure, windowMs);
  const column = new Float64Array(p.length);
  for (let i = 0; i < column.length; i++) column[i] = read(i);
  known.set(name, column);
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
    // Where nothing moves, nothing is far off.
    return deviation > 0 ? (p[i]! - window.getMean()) / deviation : Number.NaN;
  };
}

/** The state of the market that was known at a tick. */
function createStateReader({ t, states }: SymbolSeries): (i: number) => MarketState | null {
  let known = 0;
  return (i) => {
    while (known < states.length && states[known]!.from <= t[i]!) known++;
    return states[known - 1] ?? null;
  };
}

/** The price against the last one at the window's start or before it. */
function createReturnReader({ t, p }: SymbolSeries, windowMs: number): ReadMeasure {
  // Ticks at the start or before it.
  let before = 0;
  return (i) => {
    const start = t[i]! - windowMs;
    while (t[before]! <= start) before++;
    const base = before === 0 ? 0 : p[before - 1]!;
    return base > 0 ? p[i]! / base - 1 : Number.NaN;
  };
}

/** The price less the mean of what was last seen within the window on the venues that were then known to have the market. */
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
 * Mean and standard deviation of the prices in a window that ends with a tick and leaves its own start out, for ticks in
 * their order. Values come in and go out of a sum, which is taken anew now and then so that errors cannot pile up.
 */
export interface RollingWindow {
  /** Goes on to a tick, which must not come before the last one. */
  advanceTo(i: number): void;
  /** Whether there is a tick at the window's start or before it: else the window is only begun. */
  isFull(): boolean;
  getMean(): number;
  /** Of the whole population; exactly 0 where all prices are the same. */
  getDeviation(): number;
}

/** The least share of what was summed up that a variance may be: less of it is rounding to too great a part. */
const relativePrecision = 1e-6;

export function createRollingWindow(t: Float64Array, p: Float64Array, windowMs: number): RollingWindow {
  // The window holds ticks low to high - 1.
  let [low, high] = [0, 0];
  // Sums of what prices differ from one of them, so that little is lost where they are near each other; and the greatest
  // that `squares` was since they were taken anew: what they are off by rounding is a share of that. In an array, as a
  // double of a closure is a new object each time that it is set.
  const sums = new Float64Array(4);
  const [pivotAt, sumAt, squaresAt, peakAt] = [0, 1, 2, 3] as const;
  let removed = 0;
  // Where the prices that are equal to the last one begin.
  let sameFrom = 0;

  const anew = (): void => {
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
  /** Sum of the squares of what prices differ from their mean. */
  const spread = (n: number): number => sums[squaresAt]! - (sums[sumAt]! * sums[sumAt]!) / n;

  return {
    advanceTo(i) {
      if (i < high) return;
      const [start, before, next] = [t[i]! - windowMs, low, high];
      // What came between two calls may be longer than the window.
      while (t[low]! <= start) low++;
      high = i + 1;
      for (let k = next; k <= i; k++) if (k > 0 && p[k] !== p[k - 1]) sameFrom = k;
      removed += low - before;
      if (before === next || low >= next || removed > 4 * (high - low) + 1024) {
        anew();
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
      // After a jump a small deviation would be lost beside what went before.
      if (!(spread(n) > relativePrecision * sums[peakAt]!)) anew();
      return Math.sqrt(Math.max(0, spread(n) / n));
    },
  };
}
