import { expect, test } from 'vitest';
import { mergeRunTotals, type RunPlan, runSeries, tradesMax } from '../../src/backtest/engine/run-series.ts';
import type { SymbolSeries } from '../../src/backtest/engine/symbol-series.ts';
import {
  addCalibration,
  addSeriesCalibration,
  createCalibration,
  decilesCount,
} from '../../src/backtest/engine/trade-totals.ts';
import { createBacktestResult, createGridResult } from '../../src/backtest/result.ts';
import { parseBacktestSpec } from '../../src/contract/backtest-request.ts';
import { at, everything, minute, priced, ruled } from './series.ts';

test('calibration counts prices in the window before settlement', () => {
  const calibration = createCalibration();
  const prices = [0, 0.05, 0.1, 0.95, 1, 1.2, -0.1, 0.5, 0.5];
  const series = priced(prices, { settlement: { at: at(8), outcome: 1 } });
  addSeriesCalibration(calibration, series, { from: at(1), to: at(100) });
  expect([...calibration.ticks]).toEqual([1, 1, 0, 0, 0, 1, 0, 0, 0, 2]);
  expect(calibration.prices[9]).toBeCloseTo(1.95, 12);
  expect(calibration.outcomes[9]).toBe(2);
  expect(calibration.brier[9]).toBeCloseTo(0.05 ** 2, 12);
  addSeriesCalibration(calibration, priced(prices), everything);
  expect(calibration.ticks.reduce((sum, n) => sum + n)).toBe(5);
  const both = createCalibration();
  addCalibration(both, calibration);
  addCalibration(both, calibration);
  expect([...both.ticks]).toEqual([2, 2, 0, 0, 0, 2, 0, 0, 0, 4]);
});

test('a decile includes its exact lower bound', () => {
  const below = (x: number): number => {
    const view = new DataView(new ArrayBuffer(8));
    view.setFloat64(0, x);
    view.setBigUint64(0, view.getBigUint64(0) - 1n);
    return view.getFloat64(0);
  };
  for (let k = 1; k < decilesCount; k++) {
    const calibration = createCalibration();
    const series = priced([k / decilesCount, below(k / decilesCount)], { settlement: { at: at(5), outcome: 0 } });
    addSeriesCalibration(calibration, series, everything);
    expect([calibration.ticks[k - 1], calibration.ticks[k]], `${k}`).toEqual([1, 1]);
  }
});

const span = { from: at(0), to: at(100) };
const plan: RunPlan = { strategies: [ruled({ exit: { all: [] } })], spans: [span], isDetailed: true };
const named = (symbol: string, prices: readonly number[], rest: Partial<SymbolSeries> = {}) =>
  priced(prices, { symbol, ...rest });

test('returns a row per symbol', () => {
  const strategies = [ruled({ exit: { all: [] }, size: { contracts: 2 } }, { fees: { per_contract: 0.01 } })];
  const all = [
    named('A', [0.1, 0.1, 0.3, 0.3, 0.3], { settlement: { at: at(50), outcome: 1 } }),
    named('B', [0.5], { settlement: { at: at(500), outcome: 1 } }),
  ];
  const { symbols, ticks } = runSeries({ ...plan, strategies }, all);
  expect(symbols).toEqual([
    {
      symbol: 'A',
      ticks: 5,
      trades: 2,
      contracts: 4,
      fees: 0.08,
      pnl: expect.closeTo(0.4 - 0.04 - 0.04, 12),
      outcome: 1,
    },
    // Settled after the window, so unknown.
    { symbol: 'B', ticks: 1, trades: 0, contracts: 0, fees: 0, pnl: 0, outcome: null },
  ]);
  expect(ticks).toBe(6);
});

test('keeps the first trades by fill time in any order of symbols', () => {
  const prices = Array.from({ length: 3000 }, (_, i) => (i % 7) / 10);
  const all = ['A', 'B', 'C'].map((symbol, i) => ({
    ...named(symbol, prices),
    t: Float64Array.from(prices, (_, k) => at(0) + k * 1000 + (2 - i)),
  }));
  const both = runSeries(plan, all);
  expect(both.totals[0]![0]!.trades).toBe(4500);
  expect(both.trades).toHaveLength(tradesMax);
  expect(both.trades.slice(0, 4).map(({ symbol, filled_at }) => [symbol, filled_at - at(0)])).toEqual([
    ['C', 1000],
    ['B', 1001],
    ['A', 1002],
    ['C', 3000],
  ]);
  const parts = mergeRunTotals(
    mergeRunTotals(runSeries(plan, [all[0]!]), runSeries(plan, [all[1]!])),
    runSeries(plan, [all[2]!]),
  );
  expect(parts.trades).toEqual(both.trades);
  expect(parts.symbols).toEqual(both.symbols);
  expect(parts.totals[0]![0]!.pnl).toBeCloseTo(both.totals[0]![0]!.pnl, 9);
});

const createSpec = (rest: object = {}) => {
  const read = parseBacktestSpec({ entry_executable: { name: 'x' }, objective: 'total_pnl', ...rest });
  if ('faults' in read) throw new Error(JSON.stringify(read.faults));
  return read.spec;
};

test('chooses the best grid point on the first window only', () => {
  const points = [{ level: 0.2 }, { level: 0.4 }];
  const strategies = points.map(({ level }) =>
    ruled({ entry: { measure: 'price', below: level }, exit: { measure: 'price', above: 0.5 } }),
  );
  const spans = [
    { from: at(0), to: at(4) },
    { from: at(4), to: at(8) },
  ] as const;
  const gridOn = (later: readonly number[]) => {
    const done = runSeries({ strategies, spans, isDetailed: false }, [named('A', [0.3, 0.3, 0.6, 0.6, ...later])]);
    return createGridResult(createSpec(), points, spans, done);
  };
  const [up, down] = [gridOn([0.3, 0.3, 0.6, 0.6]), gridOn([0.3, 0.3, 0, 0])];
  expect(up).toEqual({
    split_at: at(4),
    best: 1,
    points: [
      { parameters: { level: 0.2 }, value: 0, trades: 0, held_out_value: 0, held_out_trades: 0 },
      { parameters: { level: 0.4 }, value: 0.3, trades: 1, held_out_value: 0.3, held_out_trades: 1 },
    ],
  });
  expect(down.best).toBe(1);
  expect(down.points[1]).toMatchObject({ value: 0.3, held_out_value: -0.3 });
});

test('lists symbols by P&L, then by name', () => {
  const all = ['b', 'a', 'd', 'c'].map((symbol, i) => named(symbol, [0.2, 0.2, i === 3 ? 0.9 : 0.4, 0.4]));
  const done = runSeries({ ...plan, strategies: [ruled({})] }, [...all, named('none', [0.5])]);
  const archive = { generation: 1, manifest_sha256: '', files: 0, files_sha256: '' };
  const coverage = { lifetime_ms: 0, gap_ms: 0, gap_share: null };
  const framed = { request: createSpec(), strategy: ruled({}), strategy_version: null, grid: null, coverage, archive };
  const result = createBacktestResult(framed, span, done);
  expect(result.symbols.items.map(({ symbol }) => symbol)).toEqual(['a', 'b', 'c', 'd']);
  expect(result).toMatchObject({
    ...span,
    value: expect.closeTo(0.8, 12),
    summary: {
      symbols: 5,
      symbols_traded: 4,
      ticks: 17,
      trades: 4,
      contracts: 4,
      win_rate: 1,
      brier: null,
      sharpe: null,
    },
    symbols: { count: 4 },
    trades: { count: 4 },
    equity: { step_ms: minute },
  });
  expect(result.equity.t).toHaveLength(100);
  expect(result.equity.value.at(-1)).toBeCloseTo(0.8, 12);
  expect(result.calibration).toHaveLength(10);
  expect(result.calibration[3]).toEqual({
    price_from: 0.3,
    price_to: 0.4,
    ticks: 0,
    mean_price: null,
    mean_outcome: null,
    brier: null,
  });
});

test('lists the 500 best and the 500 worst of many symbols', () => {
  const all = Array.from({ length: 1001 }, (_, i) => named(`S${i}`, [0.5, 0.5, i / 1001, i / 1001]));
  const done = runSeries({ ...plan, strategies: [ruled({})] }, all);
  const archive = { generation: 1, manifest_sha256: '', files: 0, files_sha256: '' };
  const coverage = { lifetime_ms: 0, gap_ms: 0, gap_share: null };
  const framed = { request: createSpec(), strategy: ruled({}), strategy_version: null, grid: null, coverage, archive };
  const { count, items } = createBacktestResult(framed, span, done).symbols;
  const gainedLess = Array.from({ length: 1001 }, (_, i) => `S${1000 - i}`);
  expect(count).toBe(1001);
  expect(items.map(({ symbol }) => symbol)).toEqual([...gainedLess.slice(0, 500), ...gainedLess.slice(501)]);
});
