import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync, zstdCompressSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { listImportFiles, readWholeFile } from '../../../src/collector/import/files.ts';
import { scratchFolder } from '../../archive/scratch.ts';

const content = Buffer.from('{"ticks":[]}'.padEnd(5000));

test.each([
  ['plain', content],
  ['gzip', gzipSync(content)],
  ['zstd', zstdCompressSync(content)],
] as const)('reads a %s file up to the limit, whatever its compression', (_, bytes) => {
  const path = join(scratchFolder(), 'page.json');
  writeFileSync(path, bytes);
  const [file] = listImportFiles([path], null, Date.now()).files;
  expect(readWholeFile(file!, content.length).equals(content)).toBe(true);
  expect(() => readWholeFile(file!, content.length - 1)).toThrow(`longer than ${content.length - 1} bytes`);
});
