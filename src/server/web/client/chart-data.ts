import type { CoveredWindow, Gap } from './covered-windows.ts';
import type { Candle, Interval, Tick } from './lines.ts';
import type { TimeRange } from './view.ts';

/** The prices of a symbol in the range of a chart. */
export interface SymbolTicks {
  readonly symbol: string;
  readonly gaps: readonly Gap[];
  readonly ticks: readonly Tick[];
  /** End of the response's window: the last price is valid up to here. */
  readonly until: number;
}
export interface SymbolCandles {
  readonly symbol: string;
  readonly gaps: readonly Gap[];
  readonly candles: readonly Candle[];
}

interface ChartRange {
  readonly range: TimeRange;
  /** Of the first symbol; null if the key does not permit it. */
  readonly coverage: readonly CoveredWindow[] | null;
}

/** Data of a chart. The first symbol is that of the page. */
export type ChartData =
  | (ChartRange & { readonly kind: 'ticks'; readonly symbols: readonly SymbolTicks[] })
  | (ChartRange & {
      readonly kind: 'candles';
      readonly interval: Interval;
      readonly symbols: readonly SymbolCandles[];
    });
