import { globSync, mkdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { createDisk, systemDisk } from '../../src/archive/disk/file-system.ts';
import { type DatasetDefinition, type DatasetName, datasetNames, datasets } from '../../src/archive/format/datasets.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { recordMarkets } from '../../src/archive/journal/symbol-store.ts';
import { archiveExists } from '../../src/archive/open-archive.ts';
import { decodeRows } from '../../src/archive/parquet/rows.ts';
import { countPublishedTicks } from '../../src/archive/publish/count-ticks.ts';
import { locateFile, readFileNow, readPublishedFile } from '../../src/archive/read-published-file.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';
import { powerModel } from '../faults/power-loss.ts';
import { quarantineLines } from '../harness/quarantine.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hashes,
  hourMs,
  market,
  now,
  opened,
  publishNow,
  scratchFolder,
} from './scratch.ts';

/** Two days of three symbols with conflicts, and two polls of markets, published. */
async function filled(archive: Archive): Promise<void> {
  for (const [i, symbol] of ['AAA', 'BBB', 'DDD'].entries()) {
    const pairs = [0, 1].map((day) => [day0 + day * dayMs + i * hourMs, 0.5] as const);
    const other = pairs.map(([t]) => [t, 0.6] as const);
    append(archive, answer(symbol, pairs), answer(symbol, other, { observedAt: now + 1 + i }));
  }
  const markets = ['AAA', 'BBB'].map((symbol) => market(symbol));
  for (const at of [day0 + hourMs, day0 + 2 * hourMs]) {
    appendMarkets(archive.state, { runId: 'run', observedAt: at, markets }, []);
    recordMarkets(archive.state.db, markets, at, true);
  }
  await publishNow(archive);
}

/** The columns of a dataset's first and last moment, where it is not `t` alone. */
const spans: Partial<Record<DatasetName, readonly [from: string, to: string]>> = {
  coverage: ['t_from', 't_to'],
  markets: ['first_seen', 'last_seen'],
  symbols: ['first_seen', 'last_seen'],
};

const sortSymbols = (symbols: readonly unknown[]): string[] => (symbols as string[]).toSorted(compareUtf8);

test('the manifest tells of each file its day, rows, bytes, span and symbols, as the file has them', async () => {
  const archive = opened({ parts: 1 });
  await filled(archive);
  const { root } = archive.layout;
  const files = listManifestFiles(archive.readManifest());
  expect(files.map(({ path }) => path).sort()).toEqual(globSync('*/**/*.parquet', { cwd: root }).sort());
  expect(new Set(files.map(({ path }) => path.split('/')[0])).size).toBe(datasetNames.length);
  for (const file of files) {
    const dataset = file.path.split('/')[0] as DatasetName;
    const { columns }: DatasetDefinition = datasets[dataset];
    const bytes = readFileSync(join(root, file.path));
    const rows = decodeRows(columns, bytes);
    const column = (name: string): unknown[] => rows.map((row) => row[columns.findIndex((c) => c.name === name)]);
    const [from, to] = spans[dataset] ?? ['t', 't'];
    expect(file).toEqual({
      path: file.path,
      date: /date=([^/]+)/.exec(file.path)?.[1] ?? null,
      rows: rows.length,
      generation: 1,
      bytes: bytes.length,
      sha256: hashes(root, file.path)[file.path],
      t_min: rows.length === 0 ? null : Math.min(...(column(from) as number[])),
      // A window's end is the first moment that it does not hold.
      t_max: rows.length === 0 ? null : Math.max(...(column(to) as number[])) - (dataset === 'coverage' ? 1 : 0),
      symbols: new Set(column('symbol')).size,
      symbol_from: sortSymbols(column('symbol'))[0] ?? null,
      symbol_to: sortSymbols(column('symbol')).at(-1) ?? null,
    });
  }
});

test('files of earlier days that come later stand in the manifest before those of later days', async () => {
  const archive = opened({ parts: 1 });
  for (const day of [1, 0, 2]) {
    append(archive, answer('AAA', [[day0 + day * dayMs, 0.5]]));
    await publishNow(archive);
  }
  for (const { files } of Object.values(archive.readManifest().datasets)) {
    const paths = files.map(({ path }) => path);
    expect(paths).toEqual([...paths].sort());
  }
  expect(archive.readManifest().datasets.ticks.files.map(({ generation }) => generation)).toEqual([2, 1, 3]);
});

test('files change in an order that a reader can rely on: ticks, then what follows of them, coverage, the manifest', async () => {
  const archive = opened({ parts: 1 });
  const { root } = archive.layout;
  const renamed: string[] = [];
  const rename = (from: string, to: string): void => {
    renamed.push(relative(root, to).split('/')[0]!);
    systemDisk.rename(from, to);
  };
  await filled({ ...archive, disk: { ...systemDisk, rename } });
  const last = ['coverage', 'coverage', 'SHA256SUMS', 'README.md', 'views.sql', 'manifest.json'];
  expect(renamed.slice(0, 2)).toEqual(['ticks', 'ticks']);
  expect(renamed.slice(-last.length)).toEqual(last);
  expect(renamed.slice(2, -last.length).sort()).toEqual(
    ['candles_1d', 'candles_1h', 'conflicts']
      .flatMap((name) => [name, name])
      .concat('markets', 'symbols')
      // Without rows.
      .concat('orderbooks', 'quotes', 'trades', 'quote_conflicts', 'trade_conflicts')
      .sort(),
  );
  expect(systemDisk.isFolder(archive.layout.stagingFolder)).toBe(false);
});

test('a power cut leaves all that is staged once it is committed, and all that is published once a publish is over', async () => {
  const root = scratchFolder();
  const plain = opened({ root, parts: 1 });
  const power = powerModel(root);
  const disk = createDisk(power.calls);
  const left = (pattern: string) => {
    const after = join(scratchFolder(), 'after');
    power.cut(after, 'vanished');
    return hashes(after, pattern);
  };
  let committed: object[] = [];
  const rename = (from: string, to: string): void => {
    const staged = '.oddslake/staging/**/*.parquet';
    if (committed.length === 0) committed = [left(staged), hashes(root, staged)];
    disk.rename(from, to);
  };
  for (const day of [0, 1, 1]) {
    append(plain, answer('AAA', [[day0 + day * dayMs + plain.readManifest().generation, 0.5]]));
    committed = [];
    await publishNow({ ...plain, disk: { ...disk, rename } });
    expect(Object.keys(committed[1]!).length).toBeGreaterThan(3);
    expect(committed[0]).toEqual(committed[1]);
    const published = '{*,[!.]*/**/*}';
    expect(left(published)).toEqual(hashes(root, published));
  }
});

test('a power cut leaves the folders of an archive that was opened: what is journaled is in them', () => {
  const parent = scratchFolder();
  const power = powerModel(parent);
  opened({ root: join(parent, 'new/lake'), disk: createDisk(power.calls) });
  const after = join(scratchFolder(), 'after');
  power.cut(after, 'vanished');
  expect(systemDisk.isFolder(join(after, 'new/lake/.oddslake'))).toBe(true);
});

test('what a broken publish left staged goes with the next one', async () => {
  const archive = opened();
  mkdirSync(join(archive.layout.stagingFolder, '1/ticks'), { recursive: true });
  writeFileSync(join(archive.layout.stagingFolder, '1/ticks/x'), 'half of a part');
  // Nothing new: it is the beginning of a publish that clears it.
  await publishNow(archive);
  expect(systemDisk.isFolder(archive.layout.stagingFolder)).toBe(false);
});

test('more unusable input than is held at once is set aside to the last line', async () => {
  const archive = opened();
  const rejected = Array.from({ length: 4096 * 2 + 5 }, (_, i) => ({ reason: 'not finite', raw: `${i}` }));
  append(archive, answer('AAA', [], { rejected }));
  await publishNow(archive);
  const lines = quarantineLines(archive.layout.root);
  expect(lines.map((line) => (JSON.parse(line) as { raw: string }).raw)).toEqual(rejected.map(({ raw }) => raw));
});

test('a publish that is stopped between two days publishes nothing, and the next one all', async () => {
  const archive = opened();
  append(
    archive,
    answer(
      'AAA',
      [0, 1, 2].map((day) => [day0 + day * dayMs, 0.5] as const),
    ),
  );
  const stop = new AbortController();
  const done: [number, number][] = [];
  const onProgress = (...at: [number, number]): void => {
    done.push(at);
    stop.abort();
  };
  await expect(publishNow(archive, now, 'run', { signal: stop.signal, onProgress })).rejects.toThrow();
  expect([done, archive.readManifest().generation]).toEqual([[[1, 3]], 0]);
  done.length = 0;
  // The lock was given back.
  await publishNow(archive, now, 'run', { onProgress: (...at) => done.push(at) });
  expect(done).toEqual([
    [1, 3],
    [2, 3],
    [3, 3],
  ]);
  expect(archive.readManifest()).toMatchObject({ generation: 1, previous_sha256: null });
});

test('a publish commits nothing without the files that it staged, and begins again', async () => {
  const archive = opened({ parts: 1 });
  append(archive, answer('AAA', [[day0, 0.5]]));
  let removed = 0;
  // Another publish clears the stage.
  const syncFolderInBackground = (path: string): Promise<void> => {
    const staged = removed > 0 ? [] : globSync(join(archive.layout.stagingFolder, '*/*/ticks/**/*.parquet'));
    for (const file of staged) rmSync(file);
    removed += staged.length;
    return systemDisk.syncFolderInBackground(path);
  };
  const { manifest } = await publishNow({ ...archive, disk: { ...systemDisk, syncFolderInBackground } });
  expect([removed, manifest.generation]).toEqual([1, 1]);
  expect(readPublishedFile(archive, manifest.datasets.ticks.files[0]!).length).toBeGreaterThan(0);
});

test('a published file is read where it is, and is missing where something else is in its place', async () => {
  const archive = opened({ parts: 1 });
  await filled(archive);
  const [file] = archive.readManifest().datasets.ticks.files;
  const at = join(archive.layout.root, file!.path);
  expect(locateFile(archive, file!.path)).toBe(at);
  expect(readPublishedFile(archive, file!)).toEqual(readFileSync(at));
  rmSync(at);
  expect(readFileNow(archive, file!.path)).toBeNull();
  mkdirSync(at);
  expect(readFileNow(archive, file!.path)).toBeNull();
  expect(() => readPublishedFile(archive, file!)).toThrow(`${file!.path} is missing, although the manifest lists it.`);
  const failing = { ...systemDisk, isFile: () => true };
  expect(() => readFileNow({ ...archive, disk: failing }, file!.path)).toThrow(
    expect.objectContaining({ code: 'EISDIR' }),
  );
});

test('a file that goes from the stage to its place at this moment is found there', async () => {
  const archive = opened({ parts: 1 });
  append(archive, answer('AAA', [[day0, 0.5]]));
  const rename = (): never => {
    throw new Error('cut');
  };
  await expect(publishNow({ ...archive, disk: { ...systemDisk, rename } })).rejects.toThrow('cut');
  const [file] = archive.readManifest().datasets.ticks.files;
  const staged = locateFile(archive, file!.path);
  expect(staged).toContain('/staging/1/');
  const place = join(archive.layout.root, file!.path);
  const read = (path: string): Uint8Array => {
    if (path === staged) {
      systemDisk.makeFolder(join(place, '..'));
      systemDisk.rename(staged, place);
    }
    return systemDisk.read(path);
  };
  expect(readPublishedFile({ ...archive, disk: { ...systemDisk, read } }, file!)).toEqual(readFileSync(place));
  expect(locateFile(archive, file!.path)).toBe(place);
});

test('the ticks that are held of lost windows are counted part by part, in the order of the windows', async () => {
  const archive = opened({ parts: 4 });
  await filled(archive);
  const window = (symbol: string, from: number, to: number) => ({
    dataset: 'ticks' as const,
    symbol,
    from: day0 + from,
    to: day0 + to,
    ticks: 9,
  });
  const lost = [
    window('BBB', dayMs, 2 * dayMs),
    window('AAA', 0, 1),
    window('AAA', 1, hourMs),
    window('DDD', 0, 2 * hourMs),
    window('DDD', 0, 2 * hourMs + 1),
    window('AAA', 9 * dayMs, 9 * dayMs + 1),
  ];
  expect(countPublishedTicks(archive, lost)).toEqual([1, 1, 0, 0, 1, 0]);
  expect(countPublishedTicks(archive, [])).toEqual([]);
});

test('there is an archive where there is a manifest or a state, and none in any other folder', async () => {
  const root = scratchFolder();
  expect(archiveExists(root, systemDisk)).toBe(false);
  const archive = opened({ root });
  expect(archiveExists(root, systemDisk)).toBe(true);
  append(archive, answer('AAA', [[day0, 0.5]]));
  await publishNow(archive);
  archive.close();
  rmSync(join(root, '.oddslake'), { recursive: true });
  expect(archiveExists(root, systemDisk)).toBe(true);
});
