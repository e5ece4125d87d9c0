import { findFirstIndex } from '../../base/binary-search.ts';
import { dayMs, type Window } from '../../base/window.ts';

/** A candle without its covered share. */
interface Candle {
  /** Start, epoch milliseconds. */
  readonly t: number;
  readonly open: number;
  readonly high: number;
  readonly low: number;
  readonly close: number;
  readonly ticks: number;
}

/** The first Monday of the epoch, from which the archive's macros count steps. */
const originMs = 4 * dayMs;

/** The start of the candle that contains a time, epoch milliseconds. */
export function toCandleStart(ms: number, stepMs: number): number {
  const rest = (ms - originMs) % stepMs;
  return ms - (rest < 0 ? rest + stepMs : rest);
}

/** Computes the candles of one symbol from rows that are added in order of time, as the archive's macro does. */
export class CandleBuilder {
  private readonly candles: Candle[] = [];
  private open: { t: number; open: number; high: number; low: number; close: number; ticks: number } | undefined;
  private end = Number.NEGATIVE_INFINITY;
  private readonly stepMs: number;

  constructor(stepMs: number) {
    this.stepMs = stepMs;
  }

  addTicks({ t, p }: { readonly t: Float64Array; readonly p: Float64Array }, count: number): void {
    for (let i = 0; i < count; i++) this.add(t[i]!, p[i]!, p[i]!, p[i]!, p[i]!, 1);
  }

  /** Adds candles of an interval that divides the step. */
  addCandles(
    {
      t,
      open,
      high,
      low,
      close,
      ticks,
    }: Readonly<Record<'t' | 'open' | 'high' | 'low' | 'close' | 'ticks', Float64Array>>,
    count: number,
  ): void {
    for (let i = 0; i < count; i++) this.add(t[i]!, open[i]!, high[i]!, low[i]!, close[i]!, ticks[i]!);
  }

  /** Number of candles to which no later row can add. */
  countComplete(): number {
    return this.candles.length;
  }

  finish(): readonly Candle[] {
    if (this.open !== undefined) this.candles.push(this.open);
    this.open = undefined;
    return this.candles;
  }

  private add(t: number, open: number, high: number, low: number, close: number, ticks: number): void {
    const { open: candle } = this;
    if (candle === undefined || t >= this.end) {
      if (candle !== undefined) this.candles.push(candle);
      const start = toCandleStart(t, this.stepMs);
      this.open = { t: start, open, high, low, close, ticks };
      this.end = start + this.stepMs;
      return;
    }
    if (high > candle.high) candle.high = high;
    if (low < candle.low) candle.low = low;
    candle.close = close;
    candle.ticks += ticks;
  }
}

/**
 * The covered share of the interval from `from`, 0 to 1.
 * @param windows sorted and disjoint, at least those that meet the interval
 */
export function computeCoveredShare(windows: readonly Window[], from: number, stepMs: number): number {
  const to = from + stepMs;
  let ms = 0;
  for (let i = findFirstIndex(0, windows.length, (w) => windows[w]!.to > from); i < windows.length; i++) {
    const window = windows[i]!;
    if (window.from >= to) break;
    ms += Math.min(to, window.to) - Math.max(from, window.from);
  }
  return ms / stepMs;
}
