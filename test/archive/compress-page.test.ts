import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { compressPage, rememberedPagesMax } from '../../src/archive/parquet/compress-page.ts';

/** Without a memory. */
const compressOnce = (bytes: Uint8Array, level: number): Uint8Array =>
  zstdCompressSync(bytes, { params: { [constants.ZSTD_c_compressionLevel]: level } });

test('a page has the bytes of zstd at its level, however often and in whatever order pages are compressed', () => {
  // More pages than are remembered, around the largest that are; some differ by their level or length only.
  const pages = Array.from({ length: rememberedPagesMax + 500 }, (_, i) => ({
    bytes: Uint8Array.from({ length: i % 140 }, (_, at) => (at * (i % 11)) ** 2 + (at === 0 ? i : 0)),
    level: [-5, 1, 4, 5, 6][i % 5]!,
  }));
  const repeated = pages.slice(0, 40).flatMap((page) => [page, { ...page, level: 6 }, { ...page, level: -5 }]);
  for (const { bytes, level } of [...pages, ...pages.toReversed(), ...repeated, ...repeated]) {
    const packed = compressPage(bytes, level);
    expect(Buffer.compare(packed, compressOnce(bytes, level))).toBe(0);
    // zstd gives no bytes for no bytes.
    if (bytes.length > 0) expect(Buffer.compare(zstdDecompressSync(packed), bytes)).toBe(0);
  }
});

test('a buffer that is used again does not change the page of its earlier content', () => {
  const buffer = new Uint8Array(20);
  const zeros = compressPage(buffer.subarray(4, 12), 4);
  buffer.fill(7);
  expect(compressPage(buffer.subarray(4, 12), 4)).not.toEqual(zeros);
  expect(compressPage(new Uint8Array(8), 4)).toEqual(zeros);
});
