import { expect, test } from 'vitest';
import type { PublishedFile } from '../../src/archive/format/manifest.ts';
import { createFileFilter } from '../../src/archive/publish/prune-files.ts';
import { day0, dayMs } from './scratch.ts';

const file = (path: string, t_min: number | null, t_max: number | null): PublishedFile => ({
  path,
  date: '2026-06-01',
  rows: 1,
  bytes: 1,
  sha256: '',
  t_min,
  t_max,
  symbols: 1,
  symbol_from: 'AAA',
  symbol_to: 'ZZZ',
  generation: 1,
});

const open = { from: null, to: null };

test('only files whose times may lie in the half-open window are looked at', () => {
  const at = file('ticks/date=2026-06-01/part-00.parquet', day0 + 10, day0 + 20);
  const held = (from: number | null, to: number | null) => createFileFilter('ticks', [], { from, to })(at);
  expect(held(null, null)).toBe(true);
  expect(held(day0 + 20, null)).toBe(true);
  expect(held(day0 + 21, null)).toBe(false);
  expect(held(null, day0 + 11)).toBe(true);
  expect(held(null, day0 + 10)).toBe(false);
  expect(held(day0, day0 + dayMs)).toBe(true);
  expect(createFileFilter('symbols', [], { from: 0, to: 1 })(file('symbols/part-00.parquet', null, null))).toBe(true);
});

test('a file without rows is never looked at', () => {
  const empty = { ...file('quotes/date=2026-06-01/part-00.parquet', null, null), rows: 0, symbols: 0 };
  expect(createFileFilter('quotes', [], open)(empty)).toBe(false);
});

test('a symbol is looked for in the files whose range it is in, where days are split by symbol', () => {
  const ranges = [
    ['A', 'KXBTC-1'],
    ['KXBTC-2', 'KXRA'],
    ['KXRAIN', '｡'],
    ['😀', '😀'],
  ] as const;
  const kept = (
    dataset: 'ticks' | 'candles_1h' | 'coverage' | 'markets' | 'orderbooks' | 'quotes',
    symbols: string[],
  ) =>
    [0, 1, 2, 3].filter((part) => {
      const [symbol_from, symbol_to] = ranges[part]!;
      const one = file(`${dataset}/date=2026-06-01/part-0${part}.parquet`, 1, 2);
      return createFileFilter(dataset, symbols, open)({ ...one, symbol_from, symbol_to });
    });
  expect(kept('ticks', ['KXRAIN', 'KXBTC-1'])).toEqual([0, 2]);
  expect(kept('ticks', ['KXBTC-10', '', '😀'])).toEqual([3]);
  expect(kept('candles_1h', ['KXBTC-1'])).toEqual([0]);
  expect(kept('ticks', [])).toHaveLength(4);
  expect(kept('markets', ['KXBTC-1'])).toHaveLength(4);
  for (const dataset of ['orderbooks', 'quotes', 'coverage'] as const) expect(kept(dataset, ['😀'])).toEqual([3]);
});
