import { expect, test } from 'vitest';
import { createEmptyManifest, type Manifest } from '../../src/archive/format/manifest.ts';
import { planRangeSteps } from '../../src/server/history/scan-plan.ts';

const names = Array.from({ length: 100 }, (_, i) => `KX-${String(i).padStart(2, '0')}`);
const page = { symbols: [], from: null, to: null, after: null, limit: 1000 };

/** A manifest with one file of a dataset. */
function listRows(dataset: 'ticks' | 'quotes', rows: number): Manifest {
  const manifest = createEmptyManifest('oddslake test', 'box');
  const path = `${dataset}/date=2026-06-01/part-00.parquet`;
  const file = {
    path,
    date: '2026-06-01',
    rows,
    bytes: rows,
    sha256: '',
    t_min: 0,
    t_max: 1,
    symbols: 100,
    generation: 1,
  };
  return { ...manifest, datasets: { ...manifest.datasets, [dataset]: { files: [file] } } };
}

/** The last symbol of each range; null for the open end of the last one. */
const listEnds = (dataset: 'ticks' | 'quotes', rows: number, ticks: number) =>
  [
    ...planRangeSteps(
      listRows(dataset, rows),
      dataset,
      page,
      names.map((symbol) => ({ symbol, ticks })),
    ),
  ].map(({ slice: { condition } }) => (condition!.sql.includes('<=') ? condition!.values.at(-1) : null));

test('a page of all symbols first reads few of them, by their ticks', () => {
  expect(listEnds('ticks', 1_000_000, 10_000)).toEqual(['KX-19', null]);
  expect(listEnds('ticks', 1_000_000, 0)).toEqual([null]);
});

test('symbols with quotes and no ticks count as average ones', () => {
  expect(listEnds('quotes', 1_000_000, 0)).toEqual(['KX-19', null]);
  expect(listEnds('quotes', 10_000_000, 0)).toEqual(['KX-01', 'KX-09', 'KX-41', null]);
  expect(listEnds('quotes', 1_000_000, 100_000)).toEqual(['KX-01', 'KX-09', 'KX-41', null]);
  expect(listEnds('quotes', 0, 0)).toEqual([null]);
});
