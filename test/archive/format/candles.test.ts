import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  aggregateCandles,
  type CandleColumns,
  candleIntervals,
  computeAllCandles,
  computeCandles,
} from '../../../src/archive/format/candles.ts';
import type { PartColumns } from '../../../src/archive/format/tick-columns.ts';
import { union, type Window } from '../../../src/base/window.ts';
import { checkProperty } from '../../harness/properties.ts';

const hourMs = 3_600_000;
const day = Date.UTC(2026, 5, 1);

type Ticks = ReadonlyMap<string, readonly (readonly [t: number, p: number])[]>;

/** Ticks in the layout of a part: symbols sorted, each with ticks sorted by time. */
function partOf(ticks: Ticks): PartColumns {
  const rows = [...ticks.values()].flat();
  let offset = 0;
  return {
    symbols: [...ticks.keys()],
    offsets: Float64Array.from([0, ...[...ticks.values()].map((list) => (offset += list.length))]),
    t: Float64Array.from(rows, ([t]) => t),
    p: Float64Array.from(rows, ([, p]) => p),
  };
}

const rowsOf = (c: CandleColumns) =>
  c.symbols.flatMap((symbol, s) =>
    Array.from({ length: c.offsets[s + 1]! - c.offsets[s]! }, (_, k) => {
      const i = c.offsets[s]! + k;
      const prices = { open: c.open[i], high: c.high[i], low: c.low[i], close: c.close[i] };
      return { symbol, t: c.t[i], ...prices, ticks: c.ticks[i], covered: c.covered[i] };
    }),
  );

/** The plain model: every interval of the day, with every tick and window checked for each. */
function model(ticks: Ticks, coverage: ReadonlyMap<string, readonly Window[]>, intervalMs: number) {
  const out: object[] = [];
  for (const [symbol, list] of ticks) {
    for (let t = day; t < day + 24 * hourMs; t += intervalMs) {
      const prices = list.filter(([at]) => t <= at && at < t + intervalMs).map(([, p]) => p);
      if (prices.length === 0) continue;
      let ms = 0;
      for (const w of coverage.get(symbol) ?? [])
        ms += Math.max(0, Math.min(w.to, t + intervalMs) - Math.max(w.from, t));
      const [open, close] = [prices[0], prices.at(-1)];
      const [high, low] = [Math.max(...prices), Math.min(...prices)];
      out.push({ symbol, t, open, high, low, close, ticks: prices.length, covered: ms / intervalMs });
    }
  }
  return out;
}

const anyTicks = fc
  .uniqueArray(fc.constantFrom('AAA', 'B b', 'Ünï', '🚀'), { minLength: 0 })
  .chain((symbols) =>
    fc.tuple(
      ...symbols.map((symbol) =>
        fc
          .uniqueArray(
            fc.tuple(fc.integer({ min: 0, max: 24 * hourMs - 1 }), fc.constantFrom(0, 0.1, 0.1 + 0.2, 0.5, 1)),
            { minLength: 1, maxLength: 40, selector: ([t]) => t },
          )
          .map((list): [string, [number, number][]] => [
            symbol,
            list.map(([t, p]): [number, number] => [day + t, p]).sort(([a], [b]) => a - b),
          ]),
      ),
    ),
  )
  .map((lists): Ticks => new Map(lists));

const anyCoverage = fc
  .array(fc.tuple(fc.nat({ max: 24 * hourMs }), fc.nat({ max: 24 * hourMs })), { maxLength: 6 })
  .map((pairs) => union(pairs.map(([a, b]) => ({ from: day + Math.min(a, b), to: day + Math.max(a, b) }))));

describe('candles', () => {
  test('equal those of a plain loop over intervals, ticks and windows', () => {
    checkProperty(
      [anyTicks, anyCoverage, fc.constantFrom(...Object.values(candleIntervals))],
      500,
      (ticks, windows, ms) => {
        const coverage = new Map([...ticks.keys()].slice(1).map((symbol) => [symbol, windows]));
        expect(rowsOf(computeCandles(partOf(ticks), coverage, ms))).toEqual(model(ticks, coverage, ms));
      },
    );
  });

  test('belong to the interval that starts at or before their tick and ends after it', () => {
    const ticks: Ticks = new Map([
      [
        'AAA',
        [
          [day, 0.5],
          [day + hourMs - 1, 0.25],
          [day + hourMs, 0.75],
        ],
      ],
    ]);
    const covered = new Map([['AAA', [{ from: day + hourMs / 2, to: day + hourMs }]]]);
    expect(rowsOf(computeCandles(partOf(ticks), covered, hourMs))).toEqual([
      { symbol: 'AAA', t: day, open: 0.5, high: 0.5, low: 0.25, close: 0.25, ticks: 2, covered: 0.5 },
      { symbol: 'AAA', t: day + hourMs, open: 0.75, high: 0.75, low: 0.75, close: 0.75, ticks: 1, covered: 0 },
    ]);
  });

  test('are empty without ticks', () => {
    expect(rowsOf(computeCandles(partOf(new Map()), new Map(), hourMs))).toEqual([]);
  });

  test('of a longer interval are the same from shorter candles as from ticks', () => {
    checkProperty([anyTicks, fc.array(anyCoverage, { maxLength: 4 })], 100, (ticks, windows) => {
      const coverage = new Map([...ticks.keys()].flatMap((symbol, i) => (windows[i] ? [[symbol, windows[i]]] : [])));
      const part = partOf(ticks);
      for (const [short, long] of [
        [hourMs, 24 * hourMs],
        [hourMs / 4, hourMs],
        [hourMs, 6 * hourMs],
      ] as const) {
        const shorter = computeCandles(part, coverage, short);
        expect(aggregateCandles(shorter, coverage, long)).toEqual(computeCandles(part, coverage, long));
      }
      const intervals = [24 * hourMs, hourMs, hourMs * 1.5];
      expect(computeAllCandles(part, coverage, intervals)).toEqual(
        intervals.map((ms) => computeCandles(part, coverage, ms)),
      );
    });
    expect(computeAllCandles(partOf(new Map()), new Map(), [])).toEqual([]);
  });
});
