import { expect, test } from 'vitest';
import { compare, type ReaderTimes, type Times } from '../../bench/scan.ts';

const times = (by: Readonly<Record<string, readonly number[]>>): Times => ({ day: by, file: by, all: by });
const byDuckdb = times({ oddslake: [10, 20, 10], slow: [90, 90, 90], quick: [20, 10, 30] });
/** Polars takes the same time for every folder. */
const byPolars = times({ oddslake: [8, 8, 8], slow: [8, 8, 8], quick: [8, 8, 8] });
const ms: ReaderTimes = new Map([
  ['duckdb', byDuckdb],
  ['polars', byPolars],
]);

test('compares round by round with the files that are read fastest', () => {
  const [first, second] = compare('pages', ms, true);
  expect(first).toMatchObject({ ours: '2.00 ms', value: 2, missing: null });
  expect(first!.peer).toEqual({ name: "quick's files, the fastest of 2", figure: '4.00 ms' });
  expect(first!.ratio).toEqual({ median: 2, min: 0.5, max: 3 });
  expect(second).toMatchObject({ ours: '1.60 ms', value: 1 });
});

test('a reader must not be slower than with the best files', () => {
  const slower = new Map([['polars', times({ oddslake: [9, 9, 9], slow: [90, 90, 90], quick: [8, 8, 8] })]] as const);
  const outcomes = [ms, slower].map((each) => compare('pages', each, true).map(({ goal, value }) => goal.met(value!)));
  expect(outcomes).toEqual([Array(6).fill(true), Array(3).fill(false)]);
});

test('a reader that cannot run has no figure, with the reason', () => {
  const [first] = compare('pages', new Map([['spark', { missing: 'no Java' }]] as const), true);
  expect(first).toMatchObject({ what: "a symbol's day, by spark", value: null, missing: 'no Java' });
});

test('a scan is timed as a whole, a day per symbol', () => {
  expect(compare('pages', ms, true).map(({ ours }) => ours)).toEqual([
    '2.00 ms',
    '1.60 ms',
    '2.00 ms',
    '1.60 ms',
    '10.0 ms',
    '8.00 ms',
  ]);
});

test('judges no goal on a small input', () => {
  for (const { value, missing, ratio } of compare('pages', ms, false)) {
    expect(ratio).not.toBeNull();
    expect([value, missing]).toEqual([null, 'judged only on 50 M ticks or more']);
  }
});
