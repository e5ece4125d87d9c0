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

const csv = `symbol,t,p\n${'A,1783771200000,0.5\n'.repeat(20_000)}`;

test.each<[string, string | Buffer, RegExp]>([
  ['CSV', csv, /It looks like CSV\. Use --format csv$/],
  ['gzip', gzipSync(csv), /It looks like CSV, compressed with gzip\. Use --format csv$/],
  ['zstd', zstdCompressSync(csv), /It looks like CSV, compressed with zstd\. Use --format csv$/],
  ['JSON lines', '{"a":1}\n{"a":2}\n', /It looks like JSON lines\. Use --format ndjson$/],
  ['a saved page', '{\n  "ticks": []\n}\n', /It looks like a saved page\. Use --format pages$/],
  ['text', 'symbol t p\nA 1 2\n', /\. Use --format\.$/],
  ['a table of one column', 'symbol\nA\n', /\. Use --format\.$/],
  ['bytes', Buffer.from([1, 0, 44, 10, 0, 44]), /\. Use --format\.$/],
  ['nothing', '', /\. Use --format\.$/],
  ['a damaged gzip', Buffer.from([0x1f, 0x8b, 1, 2, 3, 4]), /\. Use --format\.$/],
])('says what a file of unknown type looks like: %s', (_, bytes, sentence) => {
  const path = join(scratchFolder(), 'feed');
  writeFileSync(path, bytes);
  expect(() => listImportFiles([path], null, Date.now())).toThrow(sentence);
});
