import { lstatSync, readFileSync, rmSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { verifyArchive } from '../../src/archive/integrity/verify.ts';
import { readRowGroups } from '../../src/archive/journal/published-files.ts';
import { listRemovedPaths } from '../../src/archive/publish/prune-files.ts';
import { flip, repairNow } from './damaged.ts';
import { alien, mine, minutes, others, published } from './parted.ts';
import { answer, append, day0, hashes, now, opened, publishedTicks, publishNow } from './scratch.ts';

const at = (archive: Archive, path: string): string => join(archive.layout.root, path);
const ticks0 = toDayPath('ticks', day0, 0);
const coverage0 = toDayPath('coverage', day0, 0);
const groupsOf = (archive: Archive, path: string) => {
  const file = listManifestFiles(archive.readManifest()).find((one) => one.path === path)!;
  return readRowGroups(archive.state.db, path, file.sha256)!.groups;
};
const sorted = [...mine].sort();

test('repairs what an earlier repair wrote', async () => {
  const archive = await published();
  flip(at(archive, ticks0), groupsOf(archive, ticks0)[0]!.start + 5);
  await repairNow(archive);
  const before = hashes(archive.layout.root, '{*,*/**/*.parquet}');
  for (const path of [ticks0, coverage0, 'symbols/part-00.parquet']) flip(at(archive, path), 1);
  const { repaired, generation } = await repairNow(archive);
  expect(repaired.map(({ outcome }) => outcome)).toEqual(['restored', 'restored', 'restored']);
  expect(generation).toBe(2);
  expect(hashes(archive.layout.root, '{*,*/**/*.parquet}')).toEqual(before);
});

test('counts lost ticks of one symbol by its row group if coverage and candles are damaged', async () => {
  const archive = await published();
  const [group] = groupsOf(archive, ticks0);
  expect([group!.first[0], group!.last[0]]).toEqual([sorted[0], sorted[0]]);
  flip(at(archive, ticks0), group!.start + 5);
  for (const path of [coverage0, toDayPath('candles_1d', day0, 0)]) rmSync(at(archive, path));
  const { lost } = await repairNow(archive);
  const window = { from: group!.first[1], to: (group!.last[1] as number) + 1 };
  expect(lost).toEqual([{ dataset: 'ticks', symbol: sorted[0], ...window, ticks: group!.rows }]);
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
});

test('assumes one lost tick for each symbol of a shared row group', async () => {
  const archive = await published();
  const group = groupsOf(archive, ticks0)[1]!;
  expect([group.first[0], group.last[0]]).toEqual(sorted.slice(0, 2));
  flip(at(archive, ticks0), group.start + 5);
  for (const path of [coverage0, toDayPath('candles_1d', day0, 0)]) rmSync(at(archive, path));
  const { lost } = await repairNow(archive);
  expect(lost.map(({ symbol, ticks }) => [symbol, ticks])).toEqual(sorted.slice(0, 2).map((symbol) => [symbol, 1]));
});

test('lost ticks outside coverage are unrecoverable, whatever is lost in other parts', async () => {
  const archive = await published();
  rmSync(at(archive, toDayPath('ticks', day0, 1)));
  const { lost } = await repairNow(archive);
  expect(lost.map(({ symbol }) => symbol)).toEqual([...others].sort());
  append(archive, answer(alien, [[day0 + 7, 0.5]], { windows: [] }));
  await publishNow(archive, now + 7);
  rmSync(at(archive, ticks0));
  const again = await repairNow(archive);
  expect(again.unrecoverable).toEqual([expect.objectContaining({ dataset: 'ticks', path: ticks0, rows: 1 })]);
  expect(again.lost.map(({ ticks }) => ticks)).toEqual(mine.map(() => minutes));
});

test('does not report parts that never existed as removed', async () => {
  const archive = opened({ parts: 4, mends: true });
  append(archive, answer('AAA', [[day0, 0.5]]));
  await publishNow(archive);
  writeFileSync(at(archive, coverage0), 'PAR1');
  await repairNow(archive);
  expect(listRemovedPaths(archive.readManifest(), 0)).toEqual([]);
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
});

test('removes the coverage file of a day without ticks and coverage', async () => {
  const archive = opened({ parts: 1, mends: true });
  append(archive, answer('AAA', [[day0, 0.5]]));
  await publishNow(archive);
  rmSync(at(archive, ticks0));
  const { lost } = await repairNow(archive);
  expect(lost.map(({ ticks }) => ticks)).toEqual([1]);
  expect(archive.readManifest().datasets.coverage.files).toEqual([]);
  expect(listRemovedPaths(archive.readManifest(), 0)).toContain(coverage0);
  expect((await verifyArchive(archive, null)).findings).toEqual([]);
});

test('quarantines a broken link as a link', async () => {
  const archive = await published();
  symlinkSync('nowhere', at(archive, 'ticks/link'));
  const { repaired, generation } = await repairNow(archive);
  const setAside = '.oddslake/damaged/1/ticks/link';
  expect(repaired).toEqual([
    { path: 'ticks/link', kind: 'orphan', outcome: 'quarantined', moved_to: setAside, rows: null, rows_lost: null },
  ]);
  expect(lstatSync(at(archive, setAside)).isSymbolicLink()).toBe(true);
  expect(generation).toBe(1);
});

test('restores a file from another path, although its own path has another file', async () => {
  const archive = await published();
  const bytes = readFileSync(at(archive, ticks0));
  const lines = publishedTicks(archive.layout.root);
  writeFileSync(at(archive, 'ticks/copy'), bytes);
  writeFileSync(at(archive, ticks0), Buffer.alloc(bytes.length));
  archive.state.db.run('delete from row_groups');
  const { repaired } = await repairNow(archive);
  expect(repaired.map(({ path, outcome, rows, rows_lost }) => [path, outcome, rows, rows_lost])).toEqual([
    [ticks0, 'restored', 3 * minutes, 0],
    ['ticks/copy', 'quarantined', null, null],
  ]);
  expect(publishedTicks(archive.layout.root)).toEqual(lines);
});
