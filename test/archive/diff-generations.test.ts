import { rmSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { toDayPath } from '../../src/archive/format/layout.ts';
import { listChangedFiles, listRemovedPaths } from '../../src/archive/publish/prune-files.ts';
import { repairNow } from './damaged.ts';
import { answer, append, day0, dayMs, hashes, opened, publishNow } from './scratch.ts';

test('changes since a generation are what a copy of it lacks, byte for byte', async () => {
  const archive = opened();
  append(archive, answer('AAA', [[day0, 0.5]]), answer('AAA', [[day0 + dayMs, 0.5]]));
  await publishNow(archive);
  const before = hashes(archive.layout.root, '*/**/*.parquet');
  append(archive, answer('AAA', [[day0 + dayMs + 1, 0.6]]));
  const { manifest } = await publishNow(archive);
  const after = hashes(archive.layout.root, '*/**/*.parquet');
  const differing = Object.keys(after).filter((path) => after[path] !== before[path]);
  const changed = listChangedFiles(manifest, 1);
  expect(changed.map((file) => file.path).sort()).toEqual(differing.sort());
  expect(changed.map((file) => file.sha256).sort()).toEqual(differing.map((path) => after[path]).sort());
  expect(new Set(changed.map((file) => file.dataset))).toEqual(
    new Set(['ticks', 'candles_1h', 'candles_1d', 'symbols', 'coverage']),
  );
  expect(listChangedFiles(manifest, 2)).toEqual([]);
  expect(listChangedFiles(manifest, 0)).toHaveLength(Object.keys(after).length);
  expect(() => listChangedFiles(manifest, 3)).toThrow(expect.objectContaining({ exitCode: 2 }));
});

test('a file that a repair had to take out is reported to copies, until it is there again', async () => {
  const archive = opened({ parts: 1, mends: true });
  append(archive, answer('AAA', [[day0, 0.5]]));
  await publishNow(archive);
  const path = toDayPath('ticks', day0, 0);
  const before = Object.keys(hashes(archive.layout.root, '*/**/*.parquet'));
  rmSync(join(archive.layout.root, path));
  await repairNow(archive);
  const after = Object.keys(hashes(archive.layout.root, '*/**/*.parquet'));
  const gone = before.filter((one) => !after.includes(one));
  expect(gone).toContain(path);
  expect(listRemovedPaths(archive.readManifest(), 1).sort()).toEqual(gone.sort());
  expect(listRemovedPaths(archive.readManifest(), 2)).toEqual([]);
  append(archive, answer('BBB', [[day0 + dayMs, 0.5]]));
  await publishNow(archive);
  expect(listRemovedPaths(archive.readManifest(), 1)).toContain(path);
  append(archive, answer('AAA', [[day0, 0.5]]));
  const { manifest } = await publishNow(archive);
  expect(listRemovedPaths(manifest, 1)).toEqual([]);
  expect(manifest).not.toHaveProperty('removed');
});
