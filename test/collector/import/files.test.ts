import { existsSync, writeFileSync } from 'node:fs';
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

// Files below /proc state a size of 0 and have content, like a file that grows while it is read.
test('rejects a file that grows while it is read, unless it may grow', ({ skip }) => {
  const growing = { path: '/proc/self/status', compression: 'none' } as const;
  if (!existsSync(growing.path)) skip('needs /proc');
  expect(() => readWholeFile(growing, 1e6)).toThrow('grew while it was read');
  expect(readWholeFile(growing, 1e6, true)).toHaveLength(0);
});
