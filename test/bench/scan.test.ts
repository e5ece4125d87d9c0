import { expect, test } from 'vitest';
import { compare, type Times } from '../../bench/scan.ts';

/** Polars takes the same time for every folder. */
const times = (by: Readonly<Record<string, readonly number[]>>): Times => {
  const same = Object.fromEntries(Object.keys(by).map((name) => [name, [8, 8, 8]]));
  const each = { duckdb: by, polars: same };
  return { day: each, file: each, all: each };
};
const ms = times({ oddslake: [10, 20, 10], slow: [90, 90, 90], quick: [20, 10, 30] });

test('compares round by round with the files that are read fastest', () => {
  const [byDuckdb, byPolars] = compare('pages', ms, true);
  expect(byDuckdb).toMatchObject({ ours: '2.00 ms', value: 2, missing: null });
  expect(byDuckdb!.peer).toEqual({ name: "quick's files, the fastest of 2", figure: '4.00 ms' });
  expect(byDuckdb!.ratio).toEqual({ median: 2, min: 0.5, max: 3 });
  expect(byPolars).toMatchObject({ ours: '1.60 ms', value: 1 });
});

test('a symbol’s day has to be faster, a scan only not slower', () => {
  const outcomes = compare('pages', ms, true)
    .filter(({ what }) => what.endsWith('polars'))
    .map(({ goal, value }) => goal.met(value!));
  expect(outcomes).toEqual([false, false, true]);
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
