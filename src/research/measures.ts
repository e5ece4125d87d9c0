import { resolveQuantity } from './bind-parameters.ts';
import { createRollingWindow } from './rolling.ts';
import type { Measure, Strategy } from './strategy.ts';
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
