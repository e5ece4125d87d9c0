import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  aggregateCandles,
  type CandleColumns,
  candleIntervals,
  computeAllCandles,
  computeCandles,
  concatCandles,
} from '../../../src/archive/format/candles.ts';
import type { PartColumns } from '../../../src/archive/format/tick-columns.ts';
import { checkProperty } from '../../harness/properties.ts';
import { type SeriesRow, toSeriesColumns } from './series-columns.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;
const day = Date.UTC(2026, 5, 1);
const missing = Number.NaN;

type Tick = readonly [symbol: string, t: number, p: number];
/** A quote; a missing side is NaN. */
type Quote = readonly [symbol: string, t: number, bid: number, ask: number];
type Trade = readonly [symbol: string, t: number, price: number, size: number];

/** Ticks in the layout of a part. */
function partOf(ticks: readonly Tick[]): PartColumns {
  const { values, ...rest } = toSeriesColumns(ticks, 1);
  return { ...rest, p: values[0]! };
}

/** The series have further columns, which candles do not use. */
const quotesOf = (quotes: readonly Quote[]) =>
  toSeriesColumns(
    quotes.map((quote): SeriesRow => [...quote, 7, missing]),
    4,
  );
const tradesOf = (trades: readonly Trade[]) =>
  toSeriesColumns(
    trades.map((trade): SeriesRow => [...trade, 1]),
    3,
  );

const orNull = (number: number): number | null => (Number.isNaN(number) ? null : number);

/** The columns from quotes and trades as `[symbol, t, bid, ask, volume, trades, vwap]`. */
const rowsOf = (c: CandleColumns) =>
  c.symbols.flatMap((symbol, s) =>
    Array.from({ length: c.offsets[s + 1]! - c.offsets[s]! }, (_, k) => {
      const i = c.offsets[s]! + k;
      const values = [c.bid, c.ask, c.volume, c.trades, c.vwap].map((column) => orNull(column[i]!));
      return [symbol, c.t[i], ...values];
    }),
  );

/** The plain model: every quote and trade is checked for every interval that has a tick. */
function model(
  part: PartColumns,
  intervalMs: number,
  quotes: readonly Quote[] | undefined,
  trades: readonly Trade[] | undefined,
) {
  const floor = (t: number, ms: number): number => Math.floor(t / ms) * ms;
  return part.symbols.flatMap((symbol, s) => {
    const times = part.t.subarray(part.offsets[s]!, part.offsets[s + 1]!);
    return [...new Set(Array.from(times, (t) => floor(t, intervalMs)))].map((t) => {
      const end = t + intervalMs;
      let last: Quote | undefined;
      for (const quote of quotes ?? []) {
        if (quote[0] !== symbol || quote[1] >= end || floor(quote[1], dayMs) !== floor(t, dayMs)) continue;
        if (last === undefined || quote[1] > last[1]) last = quote;
      }
      const inside = (trades ?? [])
        .filter(([of, at]) => of === symbol && t <= at && at < end)
        .toSorted(([, a], [, b]) => a - b);
      let volume = 0;
      let value = 0;
      for (const [, , price, size] of inside) {
        volume += size;
        value += price * size;
      }
      const traded =
        inside.length === 0 ? [null, null, null] : [volume, inside.length, volume === 0 ? null : value / volume];
      return [
        symbol,
        t,
        last === undefined ? null : orNull(last[2]),
        last === undefined ? null : orNull(last[3]),
        ...traded,
      ];
    });
  });
}

const symbol = fc.constantFrom('AAA', 'B b', 'Ünï', '🚀', '\u{e000}');
/** Moments of the day, at the bounds of its hours too. */
const moment = fc
  .tuple(fc.integer({ min: 0, max: 23 }), fc.constantFrom(0, 0, 1, 600_000, hourMs / 2, hourMs - 1))
  .map(([hour, ms]) => day + hour * hourMs + ms);
const price = fc.constantFrom(missing, 0, 0.1, 0.1 + 0.2, 0.5);
const byKey = { selector: ([of, t]: readonly [string, number, ...number[]]) => `${of} ${t}` };
const anyTicks = fc.uniqueArray(fc.tuple(symbol, moment, fc.constantFrom(0.25, 0.5)), { maxLength: 60, ...byKey });
const anyQuotes = fc.uniqueArray(fc.tuple(symbol, moment, price, price), { maxLength: 60, ...byKey });
/** Several of a symbol may have the same time. */
const anyTrades = fc.array(fc.tuple(symbol, moment, fc.constantFrom(0, 0.1, 0.7, 1), fc.constantFrom(0, 0.1, 3, 1e9)), {
  maxLength: 60,
});
const inputs = [anyTicks, fc.option(anyQuotes, { nil: undefined }), fc.option(anyTrades, { nil: undefined })] as const;

const toSeries = (quotes: readonly Quote[] | undefined, trades: readonly Trade[] | undefined) => ({
  quotes: quotes && quotesOf(quotes),
  trades: trades && tradesOf(trades),
});

describe('bid, ask, volume, trades and vwap of candles', () => {
  test('equal those of a plain loop over intervals, quotes and trades', () => {
    checkProperty([...inputs, fc.constantFrom(...Object.values(candleIntervals))], 500, (ticks, quotes, trades, ms) => {
      const part = partOf(ticks);
      const candles = computeCandles(part, new Map(), ms, toSeries(quotes, trades));
      expect(rowsOf(candles)).toEqual(model(part, ms, quotes, trades));
    });
  });

  test('of a day count the quotes and trades of hours without ticks', () => {
    checkProperty([...inputs], 100, (ticks, quotes, trades) => {
      const part = partOf(ticks);
      const series = toSeries(quotes, trades);
      const hours = computeCandles(part, new Map(), hourMs, series);
      expect(aggregateCandles(hours, new Map(), dayMs, series)).toEqual(computeCandles(part, new Map(), dayMs, series));
      const intervals = [dayMs, hourMs, 1.5 * hourMs];
      expect(computeAllCandles(part, new Map(), intervals, series)).toEqual(
        intervals.map((ms) => computeCandles(part, new Map(), ms, series)),
      );
    });
  });

  test('are the same however the symbols of a part are sliced', () => {
    checkProperty([...inputs], 100, (ticks, quotes, trades) => {
      const series = toSeries(quotes, trades);
      const slices = [...Map.groupBy(ticks, ([of]) => of)].sort(([a], [b]) =>
        Buffer.compare(Buffer.from(a), Buffer.from(b)),
      );
      if (slices.length === 0) return;
      const sliced = slices.map(([, ofSymbol]) => computeCandles(partOf(ofSymbol), new Map(), hourMs, series));
      expect(concatCandles(sliced)).toEqual(computeCandles(partOf(ticks), new Map(), hourMs, series));
    });
  });

  test('are missing without quotes and trades, of any symbol or of this one', () => {
    const part = partOf([
      ['A', day, 0.5],
      ['B', day, 0.5],
    ]);
    const nothing = [null, null, null, null, null];
    const none = [
      ['A', day, ...nothing],
      ['B', day, ...nothing],
    ];
    expect(rowsOf(computeCandles(part, new Map(), hourMs))).toEqual(none);
    expect(rowsOf(computeCandles(part, new Map(), hourMs, toSeries([], [])))).toEqual(none);
    const others = toSeries([['A!', day, 0.1, 0.2]], [['A!', day, 0.1, 5]]);
    expect(rowsOf(computeCandles(part, new Map(), hourMs, others))).toEqual(none);
  });
});

describe('bid and ask of a candle', () => {
  const at = (hour: number, ms = 0): number => day + hour * hourMs + ms;
  const sidesOf = (quotes: readonly Quote[], ticks: readonly number[], ms: number = hourMs) => {
    const part = partOf(ticks.map((t): Tick => ['A', t, 0.5]));
    return rowsOf(computeCandles(part, new Map(), ms, toSeries(quotes, undefined))).map(([, t, bid, ask]) => [
      t,
      bid,
      ask,
    ]);
  };

  test('are those of the last quote before its end, which belongs to the next', () => {
    const quotes: Quote[] = [
      ['A', at(3), 0.1, 0.2],
      ['A', at(4, -1), 0.3, 0.4],
      ['A', at(4), 0.5, 0.6],
    ];
    expect(sidesOf(quotes, [at(3, 5), at(4, 5)])).toEqual([
      [at(3), 0.3, 0.4],
      [at(4), 0.5, 0.6],
    ]);
  });

  test('are carried over hours without quotes, from the start of the day on', () => {
    expect(sidesOf([['A', at(2, 1), 0.1, 0.2]], [at(0), at(1), at(2), at(7), at(23)])).toEqual([
      [at(0), null, null],
      [at(1), null, null],
      [at(2), 0.1, 0.2],
      [at(7), 0.1, 0.2],
      [at(23), 0.1, 0.2],
    ]);
    expect(sidesOf([['A', at(20), 0.1, 0.2]], [at(0)], dayMs)).toEqual([[at(0), 0.1, 0.2]]);
  });

  test('are null on a side without an offer, though an earlier quote had one', () => {
    const quotes: Quote[] = [
      ['A', at(1), 0.1, 0.2],
      ['A', at(1, 1), missing, 0.3],
      ['A', at(2), 0, missing],
    ];
    expect(sidesOf(quotes, [at(1), at(2)])).toEqual([
      [at(1), null, 0.3],
      [at(2), 0, null],
    ]);
  });
});

describe('volume, trades and vwap of a candle', () => {
  const at = (hour: number, ms = 0): number => day + hour * hourMs + ms;
  const tradedIn = (trades: readonly Trade[], ticks: readonly number[], ms: number = hourMs) => {
    const part = partOf(ticks.map((t): Tick => ['A', t, 0.5]));
    return rowsOf(computeCandles(part, new Map(), ms, toSeries(undefined, trades))).map(([, t, , , ...rest]) => [
      t,
      ...rest,
    ]);
  };
  const trades: Trade[] = [
    ['A', at(0, 5), 0.9, 100],
    ['A', at(3), 0.25, 2],
    ['A', at(3), 0.25, 2],
    ['A', at(3), 0.5, 4],
    ['A', at(4, -1), 0.5, 0],
    ['A', at(4), 0.75, 1],
    ['A', at(6), 0.5, 0],
    ['B', at(3), 0.1, 50],
  ];

  test('are of all its trades, also of several at one time', () => {
    expect(tradedIn(trades, [at(3), at(4)])).toEqual([
      [at(3), 8, 4, 0.375],
      [at(4), 1, 1, 0.75],
    ]);
  });

  test('are null without trades, and vwap without volume', () => {
    expect(tradedIn(trades, [at(5), at(6)])).toEqual([
      [at(5), null, null, null],
      [at(6), 0, 1, null],
    ]);
  });

  test('of a day include hours without ticks', () => {
    expect(tradedIn(trades, [at(5)], dayMs)).toEqual([[at(0), 109, 7, (90 + 3 + 0.75) / 109]]);
  });
});
