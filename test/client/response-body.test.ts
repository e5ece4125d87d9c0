import { gunzipSync, gzipSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decompressBody, readBody } from '../../src/client/response-body.ts';
import { checkAsyncProperty } from '../harness/properties.ts';

const bytesMax = 100_000;
const bytesOf = (length: number, seed: number): Buffer =>
  Buffer.from(Array.from({ length }, (_, i) => (i * seed) % 251));

/** The decoded bytes, or `refused`. */
async function outcome(work: () => Buffer | Promise<Buffer>): Promise<string> {
  try {
    return (await work()).toString('latin1');
  } catch {
    return 'refused';
  }
}

test('a gzip body is decompressed like gunzip does, with several members and a wrong length too', async () => {
  const lengths = fc.oneof(fc.nat(200), fc.constantFrom(16_383, 16_384, 16_385), fc.nat(120_000));
  const member = fc.tuple(lengths, fc.integer({ min: 1, max: 1000 })).map(([length, seed]) => bytesOf(length, seed));
  const tail = fc.oneof(fc.constant(null), fc.uint8Array({ minLength: 4, maxLength: 4 }));
  await checkAsyncProperty([fc.array(member, { maxLength: 3 }), tail], 200, async (members, statedLength) => {
    const packed = Buffer.concat(members.map((bytes) => gzipSync(bytes, { level: 1 })));
    if (statedLength !== null && packed.length > 4) packed.set(statedLength, packed.length - 4);
    const plain = await outcome(() => gunzipSync(packed, { maxOutputLength: bytesMax }));
    expect(await outcome(() => decompressBody(packed, 'gzip', bytesMax))).toBe(plain);
  });
});

test('a body is joined from its chunks, and rejected if it is too long', async () => {
  async function* chunks(...texts: string[]) {
    for (const text of texts) yield Buffer.from(text);
  }
  expect((await readBody(chunks(), 5)).toString()).toBe('');
  expect((await readBody(chunks('abc'), 5)).toString()).toBe('abc');
  expect((await readBody(chunks('ab', 'c', 'de'), 5)).toString()).toBe('abcde');
  await expect(readBody(chunks('abc', 'def'), 5)).rejects.toThrow('more than 5 bytes');
  await expect(readBody(chunks('abcdef'), 5)).rejects.toThrow('more than 5 bytes');
});
