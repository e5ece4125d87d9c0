import { formatCount, formatPlainNumber, shortenText } from '../../../base/format-quantity.ts';
import type { ChartData, SymbolCandles, SymbolTicks } from './chart-data.ts';
import { findLastAtMost, findWindow, type Gap } from './covered-windows.ts';
import { formatTime } from './format.ts';
import type { Candle } from './lines.ts';

/** What a chart shows at a time. */
export interface Readout {
  /** The time, in UTC. */
  readonly title: string;
  readonly rows: readonly {
    readonly label: string;
    readonly value: string;
    /** Index of the symbol whose color marks the row; null for none. */
    readonly symbol: number | null;
  }[];
}

const symbolLengthMax = 28;

/** Formats a readout as a sentence. */
export const formatReadout = ({ title, rows }: Readout): string =>
  [`${title} UTC`, ...rows.map(({ label, value }) => (label === '' ? value : `${label} ${value}`))].join(' · ');

/** Returns the function that reads a chart at a time, in epoch milliseconds. */
export function createReadout(loaded: ChartData): (t: number) => Readout {
  const { coverage } = loaded;
  const isSingle = loaded.symbols.length === 1;
  const nameOf = (symbol: string): string => shortenText(symbol, symbolLengthMax);
  const describeCoverage = (t: number): Readout['rows'] => {
    const window = coverage === null ? undefined : findWindow(coverage, t);
    return window === undefined
      ? []
      : [{ label: 'Covered', value: `${window.evidence}, by ${window.origin}`, symbol: null }];
  };
  if (loaded.kind === 'ticks') {
    const times = loaded.symbols.map(({ ticks }) => Float64Array.from(ticks, ({ t }) => t));
    return (t) => {
      const rows: Readout['rows'][number][] = [];
      for (const [i, one] of loaded.symbols.entries()) {
        const gap = findWindow(one.gaps, t);
        const k = findLastAtMost(times[i]!, t);
        const name = isSingle ? 'Price' : nameOf(one.symbol);
        if (gap !== undefined) rows.push({ label: isSingle ? '' : name, value: formatGap(gap), symbol: i });
        else if (k < 0 || !isPriceKnown(one, one.ticks[k]!.t, t)) rows.push({ label: name, value: '–', symbol: i });
        else {
          const tick = one.ticks[k]!;
          rows.push({ label: name, value: formatPlainNumber(tick.p), symbol: i });
          if (isSingle && tick.t < t - 999) rows.push({ label: 'Since', value: formatTime(tick.t), symbol: null });
        }
      }
      return {
        title: formatTime(Number.isInteger(t) ? t : Math.floor(t / 1000) * 1000),
        rows: [...rows, ...describeCoverage(t)],
      };
    };
  }
  const { interval } = loaded;
  const starts = loaded.symbols.map(({ candles }) => Float64Array.from(candles, (candle) => candle.t));
  return (t) => {
    const start = Math.floor(t / interval.ms) * interval.ms;
    const rows = loaded.symbols.flatMap((one, i) => {
      const candle = findCandle(one, starts[i]!, start);
      return isSingle
        ? describeCandle(candle, findWindow(one.gaps, t))
        : [{ label: nameOf(one.symbol), value: candle === null ? '–' : formatPlainNumber(candle.close), symbol: i }];
    });
    return { title: `${formatTime(start)}, ${interval.name}`, rows: [...rows, ...describeCoverage(t)] };
  };
}

/** Whether the price of a tick is still known at a later time: no gap is between them. */
const isPriceKnown = ({ gaps, until }: SymbolTicks, tickTime: number, t: number): boolean =>
  t <= until && !gaps.some(({ from, to }) => from < t && to > tickTime);

function findCandle({ candles }: SymbolCandles, starts: Float64Array, start: number): Candle | null {
  const candle = candles[findLastAtMost(starts, start)];
  return candle?.t === start ? candle : null;
}

function describeCandle(candle: Candle | null, gap: Gap | undefined): Readout['rows'] {
  const covered = gap === undefined ? [] : [{ label: '', value: formatGap(gap), symbol: null }];
  if (candle === null) return covered.length > 0 ? covered : [{ label: '', value: 'No ticks', symbol: null }];
  const { open, high, low, close, ticks } = candle;
  return [
    ...Object.entries({ Open: open, High: high, Low: low, Close: close }).map(([label, price]) => ({
      label,
      value: formatPlainNumber(price),
      symbol: label === 'Close' ? 0 : null,
    })),
    { label: '', value: formatCount(ticks, 'tick'), symbol: null },
    ...covered,
  ];
}

/** A gap with its reason: Gap: failed (503) */
function formatGap({ reason, detail, ticks }: Gap): string {
  const details = [detail, ticks === undefined ? undefined : formatCount(ticks, 'tick')].filter(Boolean).join(', ');
  const why = reason === undefined ? 'not covered' : reason;
  return `Gap: ${why}${details === '' ? '' : ` (${shortenText(details, 60)})`}`;
}

/** The times at which the keyboard stops: each tick, or the middle of each candle, ascending. */
export function listStops(loaded: ChartData): number[] {
  if (loaded.kind === 'candles') return loaded.symbols[0]!.candles.map(({ t }) => t + loaded.interval.ms / 2);
  return loaded.symbols[0]!.ticks.map(({ t }) => t);
}
