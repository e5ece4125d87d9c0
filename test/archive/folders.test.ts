import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { createDisk, type FileSystemCalls } from '../../src/archive/disk/file-system.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { powerModel } from '../faults/power-loss.ts';
import { answer, append, day0, opened, publishNow, scratchFolder } from './scratch.ts';

test('a day that a killed publish had made the folder of outlives a power cut once the next run has finished it', async () => {
  const root = scratchFolder();
  const { calls, cut } = powerModel(root);
  let kills = 1;
  const dying: FileSystemCalls = {
    ...calls,
    makeFolder(path) {
      calls.makeFolder(path);
      if (path === join(root, 'ticks', 'date=2026-06-01') && kills-- > 0) throw new Error('killed');
    },
  };
  const killed = opened({ root, disk: createDisk(dying) });
  append(killed, answer('AAA', [[day0, 0.5]]));
  await expect(publishNow(killed)).rejects.toThrow('killed');
  killed.close();

  const next = opened({ root, disk: createDisk(calls) });
  await publishNow(next);
  const files = listManifestFiles(next.readManifest());
  expect(files.length).toBeGreaterThan(0);
  const left = join(scratchFolder(), 'left');
  cut(left, 'vanished');
  expect(files.filter(({ path }) => !existsSync(join(left, path)))).toEqual([]);
});
