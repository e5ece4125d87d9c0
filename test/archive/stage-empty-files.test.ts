import { describe, expect, test } from 'vitest';
import { type DatasetName, datasetNames, isDated } from '../../src/archive/format/datasets.ts';
import { createEmptyManifest, type Manifest, type PublishedFile } from '../../src/archive/format/manifest.ts';
import { listMissingEmptyFiles } from '../../src/archive/publish/stage-empty-files.ts';

const file = (path: string, rows: number): PublishedFile => ({
  path,
  date: /date=([\d-]+)/.exec(path)?.[1] ?? null,
  rows,
  bytes: 300,
  sha256: `hash of ${path}`,
  t_min: rows === 0 ? null : 0,
  t_max: rows === 0 ? null : 1,
  symbols: rows,
  symbol_from: null,
  symbol_to: null,
  generation: 1,
});

/** A manifest with these files, by path, and their rows. */
function manifestOf(rows: Readonly<Record<string, number>>): Manifest {
  const empty = createEmptyManifest('oddslake test', 'https://box.test');
  const byDataset = Map.groupBy(Object.entries(rows), ([path]) => path.split('/')[0] as DatasetName);
  const listed = [...byDataset].map(([name, of]) => [name, { files: of.map(([path, count]) => file(path, count)) }]);
  return { ...empty, datasets: { ...empty.datasets, ...Object.fromEntries(listed) } };
}

const emptyPath = (dataset: DatasetName, date: string): string =>
  isDated(dataset) ? `${dataset}/date=${date}/part-00.parquet` : `${dataset}/part-00.parquet`;

const others = (...names: DatasetName[]): DatasetName[] => datasetNames.filter((name) => !names.includes(name));

const first = 'ticks/date=2026-06-01/part-02.parquet';
const second = 'ticks/date=2026-06-02/part-01.parquet';

describe('a dataset without files', () => {
  test('gets one on the earliest day with rows of any dataset', () => {
    const missing = listMissingEmptyFiles(
      manifestOf({ [second]: 3, 'coverage/date=2026-06-01/part-00.parquet': 1, 'symbols/part-00.parquet': 1 }),
    );
    expect(missing.map(({ dataset }) => dataset)).toEqual(others('ticks', 'coverage', 'symbols'));
    for (const { dataset, path, date } of missing)
      expect([path, date], dataset).toEqual([emptyPath(dataset, '2026-06-01'), '2026-06-01']);
  });

  test('gets its usual file if it is not split by day', () => {
    const missing = listMissingEmptyFiles(manifestOf({ [first]: 3 }));
    expect(missing).toContainEqual({ dataset: 'symbols', path: 'symbols/part-00.parquet', date: null });
    expect(missing.map(({ dataset }) => dataset)).toEqual(others('ticks'));
  });
});

describe('a dataset with a file without rows', () => {
  const rows = Object.fromEntries(others('ticks').map((name) => [emptyPath(name, '2026-06-02'), 0]));

  test('needs no other', () => {
    expect(listMissingEmptyFiles(manifestOf({ ...rows, [second]: 3 }))).toEqual([]);
  });

  test('needs none on an earlier day that has rows now', () => {
    expect(listMissingEmptyFiles(manifestOf({ ...rows, [second]: 3, [first]: 3 }))).toEqual([]);
  });
});

test('the day of a file without rows has no rows by it', () => {
  const empty = { 'quotes/date=2026-05-01/part-00.parquet': 0 };
  const missing = listMissingEmptyFiles(manifestOf({ ...empty, [first]: 3 }));
  expect(missing.map(({ dataset }) => dataset)).toEqual(others('ticks', 'quotes'));
  expect(new Set(missing.map(({ date }) => date))).toEqual(new Set(['2026-06-01', null]));
});

test('without any day with rows there are none', () => {
  for (const rows of [{}, { 'symbols/part-00.parquet': 2 }, { 'quotes/date=2026-06-01/part-00.parquet': 0 }])
    expect(listMissingEmptyFiles(manifestOf(rows))).toEqual([]);
});
