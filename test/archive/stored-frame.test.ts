import { constants, zstdCompressSync, zstdDecompressSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { copyStoredFrame } from '../../src/archive/parquet/stored-frame.ts';
import { checkProperty } from '../harness/properties.ts';

const compress = (content: Uint8Array): Uint8Array =>
  zstdCompressSync(content, {
    pledgedSrcSize: content.length,
    params: { [constants.ZSTD_c_contentSizeFlag]: 1, [constants.ZSTD_c_compressionLevel]: 1 },
  });

/** Bytes without repetitions, which zstd does not compress. */
const drawNoise = (length: number): Uint8Array => {
  let state = length + 1;
  return Uint8Array.from({ length }, () => {
    state = Math.imul(state ^ (state >>> 15), 0x2c1b3c6d) + 0x9e3779b9;
    return (state >>> 24) & 255;
  });
};

test('copies incompressible content of any size class', () => {
  for (const length of [1, 14, 255, 256, 257, 65_791, 65_792, 100_000, 128 * 1024]) {
    const content = drawNoise(length);
    const frame = compress(content);
    const copy = copyStoredFrame(frame, 0, frame.length, length);
    expect(copy, `${length} bytes`).toEqual(content);
    frame.fill(0);
    expect(copy, 'is a copy').toEqual(content);
  }
});

test('leaves compressed, checked and larger frames to zstd', () => {
  const content = drawNoise(5000);
  const checked = zstdCompressSync(content, { params: { [constants.ZSTD_c_checksumFlag]: 1 } });
  const large = drawNoise(128 * 1024 + 1);
  for (const [frame, length] of [
    [compress(new Uint8Array(5000)), 5000],
    [checked, content.length],
    [compress(large), large.length],
    [compress(content), content.length - 1],
    [new Uint8Array(0), 0],
  ] as const)
    expect(copyStoredFrame(frame, 0, frame.length, length)).toBeUndefined();
});

test('gives what zstd gives, or nothing, if any two bits of a header are flipped', () => {
  for (const length of [3, 300]) {
    const frame = compress(drawNoise(length));
    const bits = 8 * (frame.length - length);
    for (let a = 0; a < bits; a++)
      for (let b = a; b < bits; b++) {
        const changed = Uint8Array.from(frame);
        for (const bit of new Set([a, b])) changed[bit >> 3]! ^= 1 << (bit & 7);
        for (const more of [-4, -1, 0, 1]) {
          const copy = copyStoredFrame(changed, 0, changed.length, length + more);
          if (copy !== undefined)
            expect(copy, `bits ${a} and ${b}`).toEqual(new Uint8Array(zstdDecompressSync(changed)));
        }
      }
  }
});

test('gives what zstd gives, or nothing, for changed frames', () => {
  checkProperty(
    [
      fc.integer({ min: 0, max: 700 }),
      fc.array(fc.tuple(fc.nat(20), fc.nat(255)), { maxLength: 3 }),
      fc.integer({ min: -2, max: 2 }),
      fc.integer({ min: -2, max: 2 }),
    ],
    5000,
    (length, changes, more, shift) => {
      const frame = new Uint8Array([...compress(drawNoise(length)), 7, 7]);
      for (const [at, value] of changes) if (at < frame.length) frame[at] = value;
      const end = Math.max(0, frame.length - 2 + shift);
      const copy = copyStoredFrame(frame, 0, end, Math.max(0, length + more));
      if (copy === undefined) return;
      expect(copy).toEqual(new Uint8Array(zstdDecompressSync(frame.subarray(0, end))));
    },
  );
});
