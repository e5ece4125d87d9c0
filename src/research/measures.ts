import { amountOf } from './bind-parameters.ts';
import { rolling } from './rolling.ts';
import type { Measure, Strategy } from './strategy.ts';
import type { MarketState, Series } from './symbol-series.ts';

/** A position that is held, for measures of it. */
export interface Position {
  /** When it was bought, epoch milliseconds. */
  since: number;
  /** Paid for a contract, fees left out. */
  cost: number;
  /** What a contract is worth is `sign * p + base`: p for yes, 1 - p for no. */
  readonly sign: 1 | -1;
  readonly base: 0 | 1;
}

/** A measure at a tick; NaN where it is not known. Asked for ticks in their order, not for each of them. */
export type Read = (i: number) => number;

/** What the measures of one strategy on one symbol share. They look at ticks up to the one that is asked for only. */
export interface Measures {
  /** A measure at every tick, NaN where it is not known; null where it is not kept so. */
  column(measure: Measure): Float64Array | null;
  read(measure: Measure, position: Position): Read;
  state(i: number): MarketState | null;
}

export function measuresOf(series: Series, strategy: Strategy): Measures {
  const { t, p } = series;
  const windowMsOf = ({ window_ms }: Measure): number => (window_ms === undefined ? 0 : amountOf(window_ms, strategy));
  const column = (of: Measure): Float64Array | null => {
    if (of.measure === 'price') return p;
    if (of.measure !== 'moving_average' && of.measure !== 'z_score') return null;
    return windowColumn(series, of.measure, windowMsOf(of));
  };
  const state = stateReader(series);
  return {
    column,
    state,
    read(of, position) {
      const windowMs = windowMsOf(of);
      const values = column(of);
      if (values !== null) return (i) => values[i]!;
      switch (of.measure) {
        case 'price':
          return (i) => p[i]!;
        case 'moving_average':
        case 'z_score':
          return windowReader(series, of.measure, windowMs);
        case 'return':
          return returnOver(series, windowMs);
        case 'venue_spread':
          return venueSpread(series, windowMs);
        case 'time_to_close_ms':
          return (i) => (state(i)?.closesAt ?? Number.NaN) - t[i]!;
        case 'confidence':
          return (i) => state(i)?.confidence ?? Number.NaN;
        case 'held_ms':
          return (i) => t[i]! - position.since;
        case 'gain':
          return (i) => position.sign * p[i]! + position.base - position.cost;
      }
    },
  };
}

type Windowed = 'moving_average' | 'z_score';

/** What windows over prices came to: rules and points of a grid mostly ask for the same ones. They go with the prices. */
const windowColumns = new WeakMap<Float64Array, Map<string, Float64Array>>();

/** Values that are kept of one symbol's windows; what does not fit is made as it is asked for. */
export const windowValuesMax = 8_000_000;

/** A windowed measure at every tick, each value made of the ticks up to its own; null where there is no room for it. */
function windowColumn({ t, p }: Series, measure: Windowed, windowMs: number): Float64Array | null {
  const known = windowColumns.get(p) ?? new Map<string, Float64Array>();
  windowColumns.set(p, known);
  const name = `${measure} ${windowMs}`;
  const found = known.get(name);
  if (found !== undefined) return found;
  if ((known.size + 1) * p.length > windowValuesMax) return null;
  const read = windowReader({ t, p }, measure, windowMs);
  const column = new Float64Array(p.length);
  for (let i = 0; i < column.length; i++) column[i] = read(i);
  known.set(name, column);
  return column;
}

function windowReader({ t, p }: Pick<Series, 't' | 'p'>, measure: Windowed, windowMs: number): Read {
  const window = rolling(t, p, windowMs);
  return (i) => {
    window.to(i);
    if (!window.isFull()) return Number.NaN;
    if (measure === 'moving_average') return window.mean();
    const deviation = window.deviation();
    // Where nothing moves, nothing is far off.
    return deviation > 0 ? (p[i]! - window.mean()) / deviation : Number.NaN;
  };
}

/** The state of the market that was known at a tick. */
function stateReader({ t, states }: Series): (i: number) => MarketState | null {
  let known = 0;
  return (i) => {
    while (known < states.length && states[known]!.from <= t[i]!) known++;
    return states[known - 1] ?? null;
  };
}

/** The price against the last one at the window's start or before it. */
function returnOver({ t, p }: Series, windowMs: number): Read {
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
function venueSpread({ t, p, others }: Series, windowMs: number): Read {
  const venues = others.map(({ t, p, together }) => ({ t, p, together, seen: 0, left: 0 }));
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
