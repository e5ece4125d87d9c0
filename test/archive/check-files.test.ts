import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import { sha256, systemDisk } from '../../src/archive/disk/file-system.ts';
import type { PublishedFile } from '../../src/archive/format/manifest.ts';
import { checkNextFile, createSharedCheck, type SharedCheck } from '../../src/archive/integrity/check-files.ts';
import { DamageError } from '../../src/base/errors.ts';
import { scratchFolder } from './scratch.ts';

const paths = ['a', 'b', 'c', 'd'];

function createCheck(): SharedCheck {
  const root = scratchFolder();
  const files = paths.map((path) => {
    writeFileSync(join(root, path), path);
    return { path, sha256: sha256(Buffer.from(path)) } as PublishedFile;
  });
  return createSharedCheck(root, files);
}

test('checks each file once, whichever thread takes it', () => {
  const check = createCheck();
  const next = (): boolean => {
    const goesOn = checkNextFile(check, systemDisk);
    // Checked again, it would be missing.
    if (goesOn) rmSync(join(check.root, check.files[check.taken[0]! - 1]!.path));
    return goesOn;
  };
  expect([next(), next(), next(), next(), next(), next()]).toEqual([true, true, true, true, false, false]);
});

test.each(paths)('names the damaged file %s, and ends the check', (damaged) => {
  const check = createCheck();
  writeFileSync(join(check.root, damaged), 'x');
  for (const path of paths.slice(0, paths.indexOf(damaged))) expect(checkNextFile(check, systemDisk), path).toBe(true);
  expect(() => checkNextFile(check, systemDisk)).toThrow(new DamageError(damageOf(damaged)));
  expect(checkNextFile(check, systemDisk)).toBe(false);
});

const damageOf = (path: string): string =>
  `${path} is damaged: its sha256 differs from the manifest's. Run oddslake verify.`;

test('a file that cannot be read is an error that says why', () => {
  const check = createCheck();
  rmSync(join(check.root, 'a'));
  expect(() => checkNextFile(check, systemDisk)).toThrow('ENOENT');
  expect(checkNextFile(check, systemDisk)).toBe(false);
});
