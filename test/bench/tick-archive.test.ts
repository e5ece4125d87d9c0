import { mkdtempSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createBenchArchive } from '../../bench/tick-archive.ts';
import { openArchive } from '../../src/library/archive.ts';

test('the archive of the benchmarks is intact and has the stated ticks', async () => {
  const root = join(mkdtempSync(join(tmpdir(), 'bench-archive-')), 'lake');
  const { ticks } = await createBenchArchive(root, 1);
  const archive = openArchive(root);
  const { findings } = await archive.verify();
  const { datasets } = archive.manifest();
  archive.close();
  expect(findings).toEqual([]);
  const countRows = (files: readonly { readonly rows: number }[]): number =>
    files.reduce((sum, { rows }) => sum + rows, 0);
  expect(countRows(datasets.ticks.files)).toBe(ticks);
  expect(countRows(datasets.coverage.files)).toBeGreaterThan(0);
});
