import { expect, test } from 'vitest';
import { backtestPeers, compare, compareResults, type Played } from '../../bench/backtest.ts';

const played = (ms: number, rest: Partial<Played> = {}): Played => ({ ms, ticks: 40e6, trades: 7, pnl: 1.5, ...rest });
const runs = new Map([
  ['oddslake', [played(1000), played(2000), played(2000)]],
  ['polars', [played(3000), played(4000), played(6000)]],
]);

test('compares with a fixed goal and with each peer round by round', () => {
  const [alone, polars, pandas] = compare('threshold', backtestPeers, 'pages', runs, true);
  expect(alone).toMatchObject({ ours: '20.0 M ticks/s', value: 20, peer: null, missing: null });
  expect(alone!.goal.met(alone!.value!)).toBe(false);
  expect(alone!.goal.met(40)).toBe(true);
  expect(polars).toMatchObject({ peer: { name: 'polars', figure: '10.0 M ticks/s' }, value: 3 });
  expect(polars!.ratio).toEqual({ median: 3, min: 2, max: 3 });
  expect(pandas).toMatchObject({ value: null, missing: 'no result from pandas' });
});

test('judges no goal on a small input', () => {
  for (const { value, missing } of compare('threshold', backtestPeers, 'pages', runs, false).slice(0, 2))
    expect([value, missing]).toEqual([null, 'judged only on 40 M ticks or more']);
  expect(compare('threshold', backtestPeers, 'pages', new Map(), true)[0]).toMatchObject({
    value: null,
    missing: 'oddslake failed',
  });
});

test('excludes a peer with a different result', () => {
  const ours = played(1);
  expect(compareResults(undefined, ours)).toBeNull();
  expect(compareResults(ours, played(9, { pnl: 1.5 + 1e-9 }))).toBeNull();
  expect(compareResults(ours, played(9, { pnl: 1.6 }))).toBe('a P&L of 1.6 instead of 1.5');
  expect(compareResults(ours, played(9, { trades: 8 }))).toBe('8 trades instead of 7');
  expect(compareResults(ours, played(9, { ticks: 1 }))).toBe('1 ticks instead of 40000000');
});
