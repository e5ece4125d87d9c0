import { describe, expect, test } from 'vitest';
import { type DatasetName, datasetNames, isDated } from '../../../src/archive/format/datasets.ts';
import { planEmptyFiles } from '../../../src/archive/format/empty-files.ts';
import { createEmptyManifest, type Manifest, type PublishedFile } from '../../../src/archive/format/manifest.ts';

const file = (path: string, rows: number): PublishedFile => ({
  path,
  date: /date=([\d-]+)/.exec(path)?.[1] ?? null,
  rows,
  bytes: 300,
  sha256: `hash of ${path}`,
  t_min: rows === 0 ? null : 0,
  t_max: rows === 0 ? null : 1,
  symbols: rows,
  generation: 1,
});

/** A manifest with these files, by path, and their rows. */
function manifestOf(rows: Readonly<Record<string, number>>): Manifest {
  const empty = createEmptyManifest('oddslake test', 'https://box.test', 4);
  const byDataset = Map.groupBy(Object.entries(rows), ([path]) => path.split('/')[0] as DatasetName);
  const listed = [...byDataset].map(([name, of]) => [name, { files: of.map(([path, count]) => file(path, count)) }]);
  return { ...empty, datasets: { ...empty.datasets, ...Object.fromEntries(listed) } };
}

const emptyPath = (dataset: DatasetName, date: string): string =>
  isDated(dataset) ? `${dataset}/date=${date}/part-00.parquet` : `${dataset}/part-00.parquet`;

const others = (...names: DatasetName[]): DatasetName[] => datasetNames.filter((name) => !names.includes(name));

const first = 'ticks/date=2026-06-01/part-02.parquet';
const second = 'ticks/date=2026-06-02/part-01.parquet';

describe('a dataset without rows', () => {
  test('gets a file on the earliest day with rows of any dataset', () => {
    const { added, removed } = planEmptyFiles(
      manifestOf({ [second]: 3, 'coverage/date=2026-06-01/part-00.parquet': 1, 'symbols/part-00.parquet': 1 }),
    );
    const expected = others('ticks', 'coverage', 'symbols');
    expect(added.map(({ dataset }) => dataset)).toEqual(expected);
    for (const { dataset, path, date } of added)
      expect([path, date], dataset).toEqual([emptyPath(dataset, '2026-06-01'), '2026-06-01']);
    expect(removed).toEqual([]);
  });

  test('gets its usual file if it is not split by day', () => {
    const { added } = planEmptyFiles(manifestOf({ [first]: 3 }));
    expect(added).toContainEqual({ dataset: 'symbols', path: 'symbols/part-00.parquet', date: null });
    expect(added.map(({ dataset }) => dataset)).toEqual(others('ticks'));
  });

  test('keeps the file that it has', () => {
    const rows = Object.fromEntries(others('ticks').map((name) => [emptyPath(name, '2026-06-01'), 0]));
    expect(planEmptyFiles(manifestOf({ ...rows, [first]: 3 }))).toEqual({ added: [], removed: [] });
  });

  test('has its file moved if an earlier day gets rows', () => {
    const rows = Object.fromEntries(others('ticks').map((name) => [emptyPath(name, '2026-06-02'), 0]));
    const { added, removed } = planEmptyFiles(manifestOf({ ...rows, [second]: 3, [first]: 3 }));
    const moved = others('ticks').filter(isDated);
    expect(added.map(({ path }) => path)).toEqual(moved.map((name) => emptyPath(name, '2026-06-01')));
    expect(removed).toEqual(moved.map((name) => emptyPath(name, '2026-06-02')));
  });
});

test('a file without rows goes when its dataset has rows elsewhere', () => {
  const rows = Object.fromEntries(others('ticks', 'quotes').map((name) => [emptyPath(name, '2026-06-01'), 0]));
  const quotes = { 'quotes/date=2026-06-01/part-00.parquet': 0, 'quotes/date=2026-06-02/part-00.parquet': 5 };
  expect(planEmptyFiles(manifestOf({ ...rows, ...quotes, [first]: 3 }))).toEqual({
    added: [],
    removed: ['quotes/date=2026-06-01/part-00.parquet'],
  });
});

test('without any day with rows there are no files without rows', () => {
  expect(planEmptyFiles(manifestOf({}))).toEqual({ added: [], removed: [] });
  expect(planEmptyFiles(manifestOf({ 'symbols/part-00.parquet': 2 }))).toEqual({ added: [], removed: [] });
  const left = 'quotes/date=2026-06-01/part-00.parquet';
  expect(planEmptyFiles(manifestOf({ [left]: 0 }))).toEqual({ added: [], removed: [left] });
});
