import { amountOf } from './bind.ts';
import { type Rolling, rolling } from './rolling.ts';
import type { MarketState, Series } from './series.ts';
import type { Measure, Strategy } from './strategy.ts';

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
  readonly prices: Float64Array;
  read(measure: Measure, position: Position): Read;
  state(i: number): MarketState | null;
}

export function measuresOf(series: Series, strategy: Strategy): Measures {
  const { t, p } = series;
  const windows = new Map<number, Rolling>();
  const windowOf = (windowMs: number): Rolling => {
    const window = windows.get(windowMs) ?? rolling(t, p, windowMs);
    windows.set(windowMs, window);
    return window;
  };
  const state = stateReader(series);
  return {
    prices: p,
    state,
    read({ measure, window_ms }, position) {
      const windowMs = window_ms === undefined ? 0 : amountOf(window_ms, strategy);
      switch (measure) {
        case 'price':
          return (i) => p[i]!;
        case 'return':
          return returnOver(series, windowMs);
        case 'moving_average': {
          const window = windowOf(windowMs);
          return (i) => {
            window.to(i);
            return window.isFull() ? window.mean() : Number.NaN;
          };
        }
        case 'z_score': {
          const window = windowOf(windowMs);
          return (i) => {
            window.to(i);
            const deviation = window.isFull() ? window.deviation() : 0;
            // Where nothing moves, nothing is far off.
            return deviation > 0 ? (p[i]! - window.mean()) / deviation : Number.NaN;
          };
        }
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

/** The price less the mean of what was last seen on the other venues within the window. */
function venueSpread({ t, p, others }: Series, windowMs: number): Read {
  const venues = others.map((other) => ({ t: other.t, p: other.p, seen: 0 }));
  return (i) => {
    let [sum, n] = [0, 0];
    for (const venue of venues) {
      while (venue.seen < venue.t.length && venue.t[venue.seen]! <= t[i]!) venue.seen++;
      if (venue.seen === 0 || venue.t[venue.seen - 1]! <= t[i]! - windowMs) continue;
      sum += venue.p[venue.seen - 1]!;
      n++;
    }
    return n === 0 ? Number.NaN : p[i]! - sum / n;
  };
}
