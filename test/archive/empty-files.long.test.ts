import { existsSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { deflateRawSync } from 'node:zlib';
import { beforeAll, describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { type Column, type DatasetName, datasetNames, datasets, isDated } from '../../src/archive/format/datasets.ts';
import { hasRows, listManifestFiles } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readOpenIntent } from '../../src/archive/journal/intent.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { encodeRows } from '../../src/archive/parquet/rows.ts';
import { listChangedFiles } from '../../src/archive/publish/prune-files.ts';
import { readEmptyMarkets } from '../../src/archive/publish/stage-empty-files.ts';
import { hasDailyCandles } from '../../src/archive/publish/views-sql.ts';
import { readArchiveStatus } from '../../src/archive/read/archive-status.ts';
import { readStatus } from '../../src/archive/read/status.ts';
import { findPublishedCandles } from '../../src/server/history/scan-plan.ts';
import { listFilesOfDay } from '../../src/server/web/client/archive-file.ts';
import { computeTotals } from '../../src/server/web/document.ts';
import { filledArchive, repairNow } from './damaged.ts';
import { appendQuotes, quote } from './quote-records.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hashes,
  judged,
  market,
  now,
  opened,
  publishedRows,
  publishedTicks,
  publishNow,
  rowHashes,
} from './scratch.ts';
import { inFolder } from './views-folder.ts';

const day1 = day0 + dayMs;
const files = '*/**/*.parquet';
const symbol = 'S0';

/** Imported ticks, which cover nothing. */
const importedTick = (t: number) => answer(symbol, [[t, 0.5]], { origin: 'import', windows: [] });

const publishWithoutCandles = (archive: Archive) => publishNow(archive, now, 'run', { candles: [] });

/** An archive as an import of ticks leaves it. */
async function ticksOnly(): Promise<Archive> {
  const archive = opened({ mends: true });
  append(archive, importedTick(day1));
  await publishWithoutCandles(archive);
  return archive;
}

const withoutRows = datasetNames.filter(
  (name): name is Exclude<DatasetName, 'ticks' | 'symbols'> => name !== 'ticks' && name !== 'symbols',
);
const emptyPath = (dataset: DatasetName, date: string): string => `${dataset}/date=${date}/part-00.parquet`;
const quotesPath = emptyPath('quotes', '2026-06-02');

const listEmpty = (archive: Archive) => listManifestFiles(archive.readManifest()).filter((file) => !hasRows(file));
const findingsOf = async (archive: Archive) => (await verifyArchive(archive, null)).findings;

const toGlob = (dataset: DatasetName): string =>
  isDated(dataset) ? `${dataset}/date=*/*.parquet` : `${dataset}/*.parquet`;

describe('an archive of imported ticks', () => {
  test('has one file without rows of each other dataset, on a day with ticks', async () => {
    const archive = await ticksOnly();
    const { datasets } = archive.readManifest();
    for (const name of withoutRows) {
      expect(datasets[name].files, name).toEqual([
        {
          path: emptyPath(name, '2026-06-02'),
          date: '2026-06-02',
          rows: 0,
          bytes: expect.any(Number),
          sha256: expect.any(String),
          t_min: null,
          t_max: null,
          symbols: 0,
          symbol_from: null,
          symbol_to: null,
          generation: 1,
        },
      ]);
      expect(publishedRows(archive.layout.root, name)).toEqual([]);
    }
    for (const name of ['ticks', 'symbols'] as const) expect(datasets[name].files.map(({ rows }) => rows)).toEqual([1]);
    expect(await findingsOf(archive)).toEqual([]);
  });

  test('is read by DuckDB with a glob over any dataset, and with any view', async () => {
    const { root } = (await ticksOnly()).layout;
    const globs = datasetNames.map(
      (name) => `SELECT CAST(count(*) AS INTEGER) AS n FROM read_parquet('${toGlob(name)}', hive_partitioning = true)`,
    );
    const views = datasetNames.map((name) => `SELECT CAST(count(*) AS INTEGER) AS n FROM ${name}`);
    const counts = inFolder(root, [...globs, ...views]).map(([row]) => row);
    const expected = datasetNames.map((name) => ({ n: name === 'ticks' || name === 'symbols' ? 1 : 0 }));
    expect(counts).toEqual([...expected, ...expected]);
  });

  test('does not show datasets without rows, nor days that only they have', async () => {
    const archive = await ticksOnly();
    const manifest = archive.readManifest();
    expect(Object.keys(manifest.days)).toEqual(['2026-06-02']);
    expect(readStatus(archive, judged, now).published).toMatchObject({ ticks: 1, days: 1 });
    const totals = computeTotals(manifest, { nowMs: now, lagMsMax: dayMs, status: readArchiveStatus(archive, now) });
    expect(totals.datasets.map(({ name }) => name)).toEqual(['ticks', 'symbols']);
    expect(listFilesOfDay(manifest, '2026-06-02').map(({ dataset }) => dataset)).toEqual(['ticks']);
    expect(hasDailyCandles(manifest)).toBe(false);
    expect(findPublishedCandles(manifest, '1d')).toBeNull();
    const readme = readFileSync(join(archive.layout.root, 'README.md'), 'utf8');
    expect(readme).toMatch(/^\| quotes \| 0 \| {2}\| .*\(none yet: its file has no rows\) \|$/m);
  });

  test('is rebuilt from its files if the state is lost', async () => {
    const archive = await ticksOnly();
    const { root } = archive.layout;
    archive.close();
    rmSync(join(root, '.oddslake'), { recursive: true });
    const before = hashes(root, files);
    const again = opened({ root, create: false });
    expect(await findingsOf(again)).toEqual([]);
    append(again, importedTick(day1 + 1));
    await publishWithoutCandles(again);
    expect(publishedTicks(root)).toHaveLength(2);
    const after = hashes(root, files);
    for (const name of withoutRows) {
      const path = emptyPath(name, '2026-06-02');
      expect(after[path], path).toBe(before[path]);
    }
    expect(await findingsOf(again)).toEqual([]);
  });
});

test('files without rows of ticks and coverage make no day, and are not counted', async () => {
  const archive = opened();
  appendMarkets(archive.state, { runId: 'run', observedAt: day0, markets: [market('AAA', { symbol: null })] }, []);
  const { files: written, manifest } = await publishWithoutCandles(archive);
  expect(written.map(({ path }) => path)).toEqual([emptyPath('markets', '2026-06-01')]);
  for (const name of ['ticks', 'coverage'] as const) expect(manifest.datasets[name].files).toMatchObject([{ rows: 0 }]);
  expect(manifest.days).toEqual({});
  expect(readStatus(archive, judged, now).published).toMatchObject({ ticks: 0, days: 0 });
});

describe('the columns of a file without rows are those of a file with rows', () => {
  let filled = '';
  beforeAll(async () => {
    filled = await filledArchive();
    return () => rmSync(filled, { recursive: true, force: true });
  });

  const schemas = (root: string, names: readonly DatasetName[]) =>
    inFolder(
      root,
      names.map(
        (name) =>
          `SELECT name, type, type_length, repetition_type, num_children, converted_type, logical_type
           FROM parquet_schema('${toGlob(name)}') WHERE file_name = (SELECT min(file_name) FROM parquet_schema('${toGlob(name)}'))`,
      ),
    );

  test('for the datasets without ticks', async () => {
    const { root } = (await ticksOnly()).layout;
    const found = schemas(root, withoutRows);
    for (const rows of found) expect(rows.length).toBeGreaterThan(4);
    expect(found).toEqual(schemas(filled, withoutRows));
  });

  test('for ticks and symbols', async () => {
    const archive = opened();
    const markets = [market('AAA', { symbol: null })];
    appendMarkets(archive.state, { runId: 'run', observedAt: day0, markets }, []);
    await publishNow(archive);
    const names = ['ticks', 'symbols'] as const;
    for (const name of names) expect(archive.readManifest().datasets[name].files.map(({ rows }) => rows)).toEqual([0]);
    expect(schemas(archive.layout.root, names)).toEqual(schemas(filled, names));
  });
});

describe('a later publish', () => {
  test('without anything new changes no file', async () => {
    const archive = await ticksOnly();
    const empty = listEmpty(archive);
    // The gap around the tick is known only after its publish.
    const { generation } = (await publishWithoutCandles(archive)).manifest;
    expect(listEmpty(archive)).toEqual(empty);
    const before = hashes(archive.layout.root, '**/*');
    const { files: written, manifest } = await publishWithoutCandles(archive);
    expect([written, manifest.generation]).toEqual([[], generation]);
    expect(hashes(archive.layout.root, '**/*')).toEqual(before);
  });

  test('leaves the files without rows as they are, and does not count them', async () => {
    const archive = await ticksOnly();
    const before = listEmpty(archive);
    append(archive, importedTick(day1 + dayMs));
    const { files: written } = await publishWithoutCandles(archive);
    expect(written.map(({ path }) => path)).toEqual([
      'ticks/date=2026-06-03/part-00.parquet',
      'symbols/part-00.parquet',
    ]);
    expect(listEmpty(archive)).toEqual(before);
  });

  test('with rows of the same day and part replaces the file', async () => {
    const archive = await ticksOnly();
    appendQuotes(archive, [quote(symbol, day1, 0.25, 0.5)]);
    await publishWithoutCandles(archive);
    const { datasets, removed } = archive.readManifest();
    expect(datasets.quotes.files).toMatchObject([{ path: quotesPath, rows: 1, generation: 2 }]);
    expect(removed?.map(({ path }) => path) ?? []).not.toContain(quotesPath);
    expect(publishedRows(archive.layout.root, 'quotes')).toHaveLength(1);
    expect(await findingsOf(archive)).toEqual([]);
  });

  test('with rows of another day leaves the file where it is', async () => {
    const archive = await ticksOnly();
    const { root } = archive.layout;
    const before = listEmpty(archive);
    appendQuotes(archive, [quote(symbol, day1 + dayMs, 0.25, 0.5)]);
    await publishWithoutCandles(archive);
    const manifest = archive.readManifest();
    expect(manifest.datasets.quotes.files).toMatchObject([
      { path: quotesPath, rows: 0, generation: 1 },
      { path: emptyPath('quotes', '2026-06-03'), rows: 1, generation: 2 },
    ]);
    expect(listEmpty(archive)).toEqual(before);
    expect(manifest.removed).toBeUndefined();
    expect(listChangedFiles(manifest, 1).map(({ path }) => path)).not.toContain(quotesPath);
    expect(publishedRows(root, 'quotes')).toHaveLength(1);
    const from = ["read_parquet('quotes/date=*/*.parquet')", 'quotes'];
    const counts = inFolder(
      root,
      from.map((source) => `SELECT CAST(count(*) AS INTEGER) AS n FROM ${source}`),
    );
    expect(counts.map(([row]) => row)).toEqual([{ n: 1 }, { n: 1 }]);
    expect(await findingsOf(archive)).toEqual([]);
  });

  test('with rows of an earlier day leaves the files where they are', async () => {
    const archive = await ticksOnly();
    const before = listEmpty(archive);
    append(archive, importedTick(day0));
    await publishWithoutCandles(archive);
    expect(listEmpty(archive)).toEqual(before);
    expect(await findingsOf(archive)).toEqual([]);
  });

  test('deletes no file, so that a reader can open what it has listed', async () => {
    const archive = await ticksOnly();
    const { root } = archive.layout;
    const window = { from: day1, to: day1 + dayMs };
    append(archive, answer(symbol, [[day1 + 1, 0.5]], { windows: [window] }));
    await publishWithoutCandles(archive);
    const listed = Object.keys(hashes(root, files));
    const withdrawal = answer(symbol, [], { requestedWindow: window, windows: [], withdrawn: [window] });
    append(archive, withdrawal, importedTick(day0));
    appendQuotes(archive, [quote(symbol, day1 + dayMs, 0.25, 0.5)]);
    const missing = new Set<string>();
    const rename = (from: string, to: string): void => {
      archive.disk.rename(from, to);
      for (const path of listed) if (!existsSync(join(root, path))) missing.add(path);
    };
    const { manifest } = await publishWithoutCandles({ ...archive, disk: { ...archive.disk, rename } });
    for (const path of listed) if (!existsSync(join(root, path))) missing.add(path);
    expect([...missing]).toEqual([]);
    expect(manifest.datasets.coverage.files).toMatchObject([
      { date: '2026-06-02', rows: 0 },
      { date: '2026-06-03', rows: 1 },
    ]);
    expect(manifest.removed).toBeUndefined();
    expect(await findingsOf(archive)).toEqual([]);
  });

  test('leads to the same files with rows, however the rows were batched', async () => {
    const quotes = [quote(symbol, day1 + dayMs, 0.25, 0.5)];
    const batched = await ticksOnly();
    appendQuotes(batched, quotes);
    await publishWithoutCandles(batched);
    append(batched, importedTick(day0));
    await publishWithoutCandles(batched);
    const atOnce = opened();
    append(atOnce, importedTick(day1), importedTick(day0));
    appendQuotes(atOnce, quotes);
    await publishWithoutCandles(atOnce);
    expect(rowHashes(batched.layout.root, files)).toEqual(rowHashes(atOnce.layout.root, files));
  });

  test('computes candles of all ticks if they are enabled then, and none before', async () => {
    const archive = await ticksOnly();
    append(archive, importedTick(day1 + dayMs));
    await publishWithoutCandles(archive);
    expect(publishedRows(archive.layout.root, 'candles_1h')).toEqual([]);
    await publishNow(archive);
    for (const name of ['candles_1h', 'candles_1d'] as const)
      expect(publishedRows(archive.layout.root, name).map((row) => row[1])).toEqual([day1, day1 + dayMs]);
    expect(await findingsOf(archive)).toEqual([]);
  });

  test('does not need the file without rows to be intact', async () => {
    const archive = await ticksOnly();
    writeFileSync(join(archive.layout.root, quotesPath), 'damage');
    appendQuotes(archive, [quote(symbol, day1, 0.25, 0.5)]);
    const { refused } = await publishWithoutCandles(archive);
    expect(refused).toEqual([]);
    expect(await findingsOf(archive)).toEqual([]);
  });

  test('computes candles although a file without rows of quotes or trades is damaged', async () => {
    const archive = await ticksOnly();
    for (const name of ['quotes', 'trades'] as const)
      writeFileSync(join(archive.layout.root, emptyPath(name, '2026-06-02')), 'damage');
    append(archive, importedTick(day1 + 1));
    expect((await publishNow(archive)).refused).toEqual([]);
    expect(publishedRows(archive.layout.root, 'candles_1d').map((row) => row.slice(0, 2))).toEqual([[symbol, day1]]);
  });
});

describe('a repair', () => {
  test.each([
    ['damaged', (path: string) => writeFileSync(path, 'damage')],
    ['missing', (path: string) => rmSync(path)],
  ])('restores files without rows that are %s, without a new generation', async (_, harm) => {
    const archive = await ticksOnly();
    const { root } = archive.layout;
    const before = hashes(root, files);
    for (const name of withoutRows) harm(join(root, emptyPath(name, '2026-06-02')));
    expect(await findingsOf(archive)).toHaveLength(withoutRows.length);
    const { generation, repaired, unrecoverable } = await repairNow(archive);
    expect([generation, unrecoverable]).toEqual([1, []]);
    expect(repaired.map(({ outcome, rows_lost }) => [outcome, rows_lost])).toEqual(
      withoutRows.map(() => ['restored', 0]),
    );
    expect(hashes(root, files)).toEqual(before);
    expect(await findingsOf(archive)).toEqual([]);
  });

  test('writes them again if their row groups were not recorded', async () => {
    const archive = await ticksOnly();
    const { root } = archive.layout;
    const before = hashes(root, files);
    archive.state.db.run('delete from row_groups');
    for (const name of withoutRows) rmSync(join(root, emptyPath(name, '2026-06-02')));
    const { generation, repaired, unrecoverable, lost, written } = await repairNow(archive);
    expect([generation, unrecoverable, lost, written]).toEqual([2, [], [], []]);
    expect(repaired.map(({ outcome, rows_lost }) => [outcome, rows_lost])).toEqual(
      withoutRows.map(() => ['rebuilt', 0]),
    );
    expect(hashes(root, files)).toEqual(before);
    expect(archive.readManifest().removed).toBeUndefined();
    expect(await findingsOf(archive)).toEqual([]);
  });

  test('writes one again that other files of its dataset are beside', async () => {
    const archive = await ticksOnly();
    const { root } = archive.layout;
    appendQuotes(archive, [quote(symbol, day1 + dayMs, 0.25, 0.5)]);
    await publishWithoutCandles(archive);
    const before = hashes(root, files);
    archive.state.db.run('delete from row_groups');
    writeFileSync(join(root, quotesPath), 'damage');
    const { repaired, unrecoverable } = await repairNow(archive);
    expect(repaired).toMatchObject([{ path: quotesPath, outcome: 'rebuilt', rows_lost: 0 }]);
    expect(unrecoverable).toEqual([]);
    expect(hashes(root, files)).toEqual(before);
    expect(await findingsOf(archive)).toEqual([]);
  });

  test('of coverage does not read a damaged file of ticks without rows', async () => {
    const archive = opened({ mends: true });
    const { root } = archive.layout;
    const window = { from: day0, to: day0 + dayMs };
    append(archive, answer(symbol, [], { requestedWindow: window, windows: [window] }));
    await publishNow(archive);
    const ticks = emptyPath('ticks', '2026-06-01');
    const candles = emptyPath('candles_1h', '2026-06-01');
    const rows = publishedRows(root, 'coverage');
    archive.state.db.run('delete from row_groups');
    for (const path of [ticks, emptyPath('coverage', '2026-06-01')]) writeFileSync(join(root, path), 'damage');
    const { unrecoverable } = await repairNow(archive);
    expect(unrecoverable).toEqual([]);
    expect(publishedRows(root, 'coverage').map((row) => row.slice(0, 5))).toEqual(rows.map((row) => row.slice(0, 5)));
    for (const path of [ticks, candles]) expect(listEmpty(archive).map((file) => file.path)).toContain(path);
    expect(archive.readManifest().removed).toBeUndefined();
    expect(await findingsOf(archive)).toEqual([]);
  });

  test('leaves a file without rows in place of the only file of a dataset', async () => {
    const archive = await ticksOnly();
    const { root } = archive.layout;
    appendQuotes(archive, [quote(symbol, day1, 0.25, 0.5)]);
    await publishWithoutCandles(archive);
    rmSync(join(root, quotesPath));
    const { repaired, unrecoverable } = await repairNow(archive);
    expect(repaired).toMatchObject([{ path: quotesPath, outcome: 'removed', rows: 1, rows_lost: 1 }]);
    expect(unrecoverable).toMatchObject([{ dataset: 'quotes', rows: 1 }]);
    const { datasets, removed } = archive.readManifest();
    expect(datasets.quotes.files).toMatchObject([{ path: quotesPath, rows: 0 }]);
    expect(removed?.map(({ path }) => path) ?? []).not.toContain(quotesPath);
    expect(await findingsOf(archive)).toEqual([]);
  });

  test('that is finished after a crash keeps that file', async () => {
    const archive = await ticksOnly();
    const { root } = archive.layout;
    appendQuotes(archive, [quote(symbol, day1, 0.25, 0.5)]);
    await publishWithoutCandles(archive);
    rmSync(join(root, quotesPath));
    let renames = 0;
    const rename = (from: string, to: string): void => {
      archive.disk.rename(from, to);
      if (to.endsWith('.parquet') && ++renames === 1) throw new Error('killed');
    };
    await expect(repairNow({ ...archive, disk: { ...archive.disk, rename } })).rejects.toThrow('killed');
    expect(readOpenIntent(archive.state.db)).toBeDefined();
    archive.close();
    const again = opened({ root, create: false, mends: true });
    await publishWithoutCandles(again);
    expect(existsSync(join(root, quotesPath))).toBe(true);
    expect(await findingsOf(again)).toEqual([]);
  });
});

test('the stored file without markets is the one that the encoder writes', () => {
  const encoded = encodeRows(datasets.markets.columns, []);
  const renewed = deflateRawSync(encoded, { level: 9 }).toString('base64');
  const hint = `src/archive/publish/stage-empty-files.ts needs: ${renewed}`;
  expect(Buffer.from(readEmptyMarkets()).equals(encoded), hint).toBe(true);
});

test('only these datasets have an encoder that loads Arrow', () => {
  const lists = datasetNames.filter((name) => datasets[name].columns.some(({ type }: Column) => type === 'strings'));
  expect(lists).toEqual(['markets']);
});
