import { execFileSync } from 'node:child_process';
import { zstdCompressSync } from 'node:zlib';
import fc from 'fast-check';
import { expect, test } from 'vitest';
import { encodeRawPiece, isRawFile, type RawPiece, readRawFile } from '../../src/archive/raw/raw-file.ts';
import { decodeRawPages, encodeRawPages, type RawPage } from '../../src/contract/raw-page.ts';
import { drawFrom } from '../faults/seeds.ts';
import { needsCommands } from '../harness/needs.ts';
import { checkProperty } from '../harness/properties.ts';
import { share } from '../harness/share.ts';

const page = (n: number, rest: Partial<RawPage> = {}): RawPage => ({
  run: 'run',
  askedAt: 1000 + n,
  receivedAt: 2000 + n,
  servedAt: null,
  status: 200,
  redacted: false,
  asked: { route: 'orderbook', symbol: `S "${n}"\n😀` },
  body: Buffer.from(`{"n":${n}}\n\n`),
  ...rest,
});
const asked = { from: 5, to: 9 };
const parent = { count: 7, first: 1, last: 2, observedAt: 3 };
const meaning = { origin: 'backfill', asked, kind: 'low', parent } as const;
const every: readonly RawPage[] = [
  page(0),
  page(1, { asked: { route: 'ticks', symbol: 'x', from: -1, to: 10, limit: 5000, meaning } }),
  page(2, { asked: { route: 'ticks', symbol: 'x', from: 4, to: 10, limit: 1, meaning: null } }),
  page(3, { asked: { route: 'markets', view: 'matched', source: null, limit: null }, body: Buffer.alloc(0) }),
  page(4, { body: Buffer.from([0xff, 0x00, 0x0a, 0x0a]), redacted: true }),
];

const bytesMax = 1 << 20;
const fileOf = async (...pieces: (readonly RawPage[])[]): Promise<Buffer> =>
  Buffer.concat((await Promise.all(pieces.map(encodeRawPiece))).flat());

async function read(file: Buffer): Promise<RawPiece[]> {
  const out: RawPiece[] = [];
  for await (const piece of readRawFile(file, bytesMax)) out.push(piece);
  return out;
}
const pagesOf = (pieces: readonly RawPiece[]): string[] =>
  pieces.flatMap((piece) => (piece.kind === 'pages' ? piece.pages.map((p) => JSON.stringify(p)) : []));
const texts = (pages: readonly RawPage[]): string[] => pages.map((p) => JSON.stringify(p));

test('reads responses back byte for byte', async () => {
  const file = await fileOf(every.slice(0, 2), every.slice(2));
  expect(isRawFile(file.subarray(0, 16))).toBe(true);
  expect(pagesOf(await read(file))).toEqual(texts(every));
  checkProperty([fc.array(fc.uint8Array())], 100, (bodies) => {
    const pages = bodies.map((body, n) => page(n, { body }));
    expect(texts(decodeRawPages(encodeRawPages(pages)))).toEqual(
      texts(pages.map((p) => ({ ...p, body: Buffer.from(p.body) }))),
    );
  });
});

test('reads the complete pieces of a truncated file, and reports the rest', async () => {
  const [one, two] = [await fileOf(every.slice(0, 2)), await fileOf(every.slice(2))];
  const file = Buffer.concat([one, two]);
  for (let length = 0; length < file.length; length++) {
    const pieces = await read(file.subarray(0, length));
    const whole = length < one.length ? 0 : 2;
    expect(pagesOf(pieces), `${length}`).toEqual(texts(every.slice(0, whole)));
    const rest = length - (whole === 0 ? 0 : one.length);
    expect(pieces.slice(whole === 0 ? 0 : 1)).toEqual(rest === 0 ? [] : [{ kind: 'torn', bytes: rest }]);
  }
});

test('detects flipped bits, and reads the pieces after the damage', async () => {
  const file = await fileOf([every[0]!], [every[1]!], [every[2]!]);
  const expected = texts(every.slice(0, 3));
  // One random bit in each such range.
  const draw = drawFrom(6);
  const bitsPerFlip = Math.round(1 / share);
  for (let from = 0; from < file.length * 8; from += bitsPerFlip) {
    const bit = Math.min(from + draw.below(bitsPerFlip), file.length * 8 - 1);
    const flipped = Buffer.from(file);
    flipped[bit >> 3]! ^= 1 << (bit & 7);
    const pieces = await read(flipped);
    const found = pagesOf(pieces);
    expect(found.every((text) => expected.includes(text))).toBe(true);
    expect(found.length).toBeGreaterThanOrEqual(2);
    const lost = pieces.reduce((sum, piece) => sum + (piece.kind === 'pages' ? 0 : piece.bytes), 0);
    if (found.length < 3) expect(lost).toBeGreaterThan(0);
  }
});

test('finds the next piece after a damaged length', async () => {
  const file = await fileOf(every.slice(0, 2), every.slice(2));
  // The highest byte of the length of the first frame.
  file[8 + 8 + 3]! ^= 4;
  expect((await read(file)).map(({ kind }) => kind)).toEqual(['damaged', 'pages']);
});

test('reports random bytes, foreign frames, a bomb and invalid pages as damage', async () => {
  const draw = drawFrom(5);
  const noise = Buffer.from(Array.from({ length: 5000 }, () => draw.below(256)));
  expect(await read(noise)).toEqual([{ kind: 'damaged', bytes: 5000 }]);
  const mine = await fileOf(every);
  const around = await read(Buffer.concat([noise, mine, noise]));
  expect(around.map(({ kind }) => kind)).toEqual(['damaged', 'pages', 'damaged']);
  const foreign = zstdCompressSync(Buffer.from('{}'));
  expect((await read(foreign)).map(({ kind }) => kind)).toEqual(['damaged']);
  const bomb = await fileOf([page(0, { body: Buffer.alloc(2 * bytesMax) })]);
  expect((await read(bomb)).map(({ kind }) => kind)).toEqual(['damaged']);
  for (const head of ['{}', '[]', 'null', '{"run":1', JSON.stringify({ ...page(0), body: undefined, bytes: -1 })]) {
    expect(() => decodeRawPages(Buffer.from(`${head}\n\n`)), head).toThrow(SyntaxError);
  }
  const odd = {
    ...page(0),
    body: undefined,
    bytes: 0,
    asked: { route: 'ticks', symbol: 'a', from: 1, to: 2, limit: 3 },
  };
  for (const wrong of [{ meaning: 5 }, { meaning: { kind: 'x' } }, { from: 'a', meaning: null }, { route: 'other' }])
    expect(() =>
      decodeRawPages(Buffer.from(`${JSON.stringify({ ...odd, asked: { ...odd.asked, ...wrong } })}\n\n`)),
    ).toThrow(SyntaxError);
});

test('the file is readable with zstd tools', needsCommands('zstd'), async () => {
  const file = await fileOf(every.slice(0, 2), every.slice(2));
  const shown = Buffer.concat([encodeRawPages(every.slice(0, 2)), encodeRawPages(every.slice(2))]);
  expect(execFileSync('zstd', ['-dcq'], { input: file, stdio: ['pipe', 'pipe', 'pipe'] })).toEqual(shown);
});
