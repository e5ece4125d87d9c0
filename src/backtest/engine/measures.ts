import type { Measure, Strategy } from '../../contract/strategy-language.ts';
import { resolveQuantity } from '../strategy/strategy.ts';
import { computeRollingColumn, createRollingWindow, type RollingMeasure } from './rolling-window.ts';
import type { MarketState, SymbolSeries } from './symbol-series.ts';

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
export type Measures = ReturnType<typeof createMeasures>;

export function createMeasures(series: SymbolSeries, strategy: Strategy) {
  const { t, p } = series;
  const windowMsOf = ({ window_ms }: Measure): number =>
    window_ms === undefined ? 0 : resolveQuantity(window_ms, strategy);
  const column = (of: Measure): Float64Array | null => {
    if (of.measure === 'price') return p;
    if (of.measure !== 'moving_average' && of.measure !== 'z_score' && of.measure !== 'return') return null;
    return getWindowColumn(series, of.measure, windowMsOf(of));
  };
  const state = createStateReader(series);
  return {
    /** A measure at every tick, NaN if unknown; null if it is not stored as a column. */
    getColumn: column,
    getState: state,
    createReader(of: Measure, position: Position): ReadMeasure {
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

/** Measures of a window of the symbol's own prices. */
type WindowedMeasure = 'moving_average' | 'z_score' | 'return';

/** Cached window measures, because rules and grid points often use the same ones. Freed together with the prices. */
const windowColumnCache = new WeakMap<Float64Array, Map<string, Float64Array>>();

/** Maximum number of cached values per symbol; other values are computed on demand. */
export const windowValuesMax = 8_000_000;

/** A window measure at every tick, computed from the ticks up to it; null if the cache is full. */
function getWindowColumn(series: SymbolSeries, measure: WindowedMeasure, windowMs: number): Float64Array | null {
  const { t, p } = series;
  const cached = windowColumnCache.get(p) ?? new Map<string, Float64Array>();
  windowColumnCache.set(p, cached);
  const name = `${measure} ${windowMs}`;
  const cachedColumn = cached.get(name);
  if (cachedColumn !== undefined) return cachedColumn;
  if ((cached.size + 1) * p.length > windowValuesMax) return null;
  const column =
    measure === 'return' ? computeReturns(series, windowMs) : computeRollingColumn(t, p, windowMs, measure);
  cached.set(name, column);
  return column;
}

function createWindowReader(
  { t, p }: Pick<SymbolSeries, 't' | 'p'>,
  measure: RollingMeasure,
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

/** The same at every tick. */
function computeReturns(series: SymbolSeries, windowMs: number): Float64Array {
  const column = new Float64Array(series.p.length);
  const read = createReturnReader(series, windowMs);
  for (let i = 0; i < column.length; i++) column[i] = read(i);
  return column;
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
