import { expect, test } from 'vitest';
import type { PublishedFile } from '../../src/archive/format/manifest.ts';
import { createFileFilter } from '../../src/archive/publish/prune-files.ts';
import { computePartNumber } from '../../src/base/symbol-name.ts';
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
  generation: 1,
});

const open = { from: null, to: null };

test('only files whose times may lie in the half-open window are looked at', () => {
  const at = file('ticks/date=2026-06-01/part-00.parquet', day0 + 10, day0 + 20);
  const held = (from: number | null, to: number | null) =>
    createFileFilter({ parts: 4 }, 'ticks', [], { from, to })(at);
  expect(held(null, null)).toBe(true);
  expect(held(day0 + 20, null)).toBe(true);
  expect(held(day0 + 21, null)).toBe(false);
  expect(held(null, day0 + 11)).toBe(true);
  expect(held(null, day0 + 10)).toBe(false);
  expect(held(day0, day0 + dayMs)).toBe(true);
  expect(
    createFileFilter({ parts: 4 }, 'symbols', [], { from: 0, to: 1 })(file('symbols/part-00.parquet', null, null)),
  ).toBe(true);
});

test('a file without rows is never looked at', () => {
  const empty = { ...file('quotes/date=2026-06-01/part-00.parquet', null, null), rows: 0, symbols: 0 };
  expect(createFileFilter({ parts: 4 }, 'quotes', [], open)(empty)).toBe(false);
});

test('a symbol is looked for in its part alone, where days are split by symbol', () => {
  const parts = 16;
  const [a, b] = ['KXBTC-1', 'KXRAIN'].map((symbol) => computePartNumber(symbol, parts));
  const kept = (
    dataset: 'ticks' | 'candles_1h' | 'coverage' | 'markets' | 'orderbooks' | 'quotes',
    symbols: string[],
  ) =>
    Array.from({ length: parts }, (_, part) => part).filter((part) =>
      createFileFilter(
        { parts },
        dataset,
        symbols,
        open,
      )(file(`${dataset}/date=2026-06-01/part-${String(part).padStart(2, '0')}.parquet`, 1, 2)),
    );
  expect(kept('ticks', ['KXBTC-1', 'KXRAIN'])).toEqual([...new Set([a!, b!])].sort((x, y) => x - y));
  expect(kept('candles_1h', ['KXBTC-1'])).toEqual([a]);
  expect(kept('ticks', [])).toHaveLength(parts);
  expect(kept('markets', ['KXBTC-1'])).toHaveLength(parts);
  for (const dataset of ['orderbooks', 'quotes', 'coverage'] as const) expect(kept(dataset, ['KXBTC-1'])).toEqual([a]);
});
