import type { SymbolSeries } from '../../src/backtest/engine/symbol-series.ts';
import { parseStrategy } from '../../src/backtest/strategy/parse-strategy.ts';
import type { Strategy } from '../../src/contract/strategy-language.ts';

export const minute = 60_000;
export const hour = 60 * minute;
export const day = 24 * hour;
/** UTC midnight. */
export const start = Date.UTC(2026, 5, 1);

/** A symbol with one tick per minute. */
export const priced = (prices: readonly number[], rest: Partial<SymbolSeries> = {}): SymbolSeries => ({
  symbol: 'S',
  states: [],
  books: [],
  quotes: [],
  settlement: null,
  otherVenues: [],
  t: Float64Array.from(prices, (_, i) => start + i * minute),
  p: Float64Array.from(prices),
  ...rest,
});

export const at = (minutes: number): number => start + minutes * minute;

/** Defaults of a series. */
export const everything = { from: start - day, to: start + 100 * day };

export function strategyOf(json: unknown): Strategy {
  const read = parseStrategy(json);
  if ('faults' in read) throw new Error(JSON.stringify(read.faults));
  return read.strategy;
}

/** A strategy with one rule. */
export const ruled = (rule: object, rest: object = {}): Strategy =>
  strategyOf({ rules: [{ side: 'yes', entry: { all: [] }, size: { contracts: 1 }, ...rule }], ...rest });
