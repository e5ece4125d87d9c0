import fc from 'fast-check';
import { expect, test } from 'vitest';
import { decodeJsonPage, decodeTickPage, extractElementTexts } from '../../src/client/decode.ts';
import { decodeCompactPage } from '../../src/client/fast-page-decoder.ts';
import type { DecodedTickPage } from '../../src/client/upstream.ts';
import { expectSame as expectEqual } from '../harness/expect-same.ts';
import { checkProperty } from '../harness/properties.ts';
import { share } from '../harness/share.ts';

/** Numbers of compact pages: prices and times as serializers write them, and long ones. */
const digits = (max: number) => fc.string({ unit: fc.constantFrom(...'0123456789'), minLength: 1, maxLength: max });
const whole = fc.oneof(
  fc.nat().map(String),
  fc.integer({ min: 1e12, max: 1e13 - 1 }).map(String),
  fc.maxSafeNat().map(String),
  digits(20).map((text) => `1${text}`),
);
const positive = fc.oneof(
  fc.double({ min: 0, max: 1, noNaN: true }).map(String),
  fc.nat(1000).map((n) => String(n / 1000)),
  fc.tuple(whole, digits(30)).map(([left, right]) => `${left}.${right}`),
  digits(30).map((right) => `0.${right}`),
  whole,
);
const plainNumber = positive.filter((text) => !text.includes('e'));
/** Numbers that only the reference decoder accepts, or that are invalid. */
const oddNumber = fc.oneof(
  fc.double().map((n) => JSON.stringify(n)),
  fc.constantFrom('-0', '-1', '1e400', '1E2', '1e-7', '01', '1.', '.5', '-', 'null', '"1"', '[]', 'NaN', '5e-324'),
);

function pageText(
  symbol: string,
  ticks: readonly (readonly [string, string])[],
  count: number,
  tail: readonly string[],
) {
  const items = ticks.map(([t, p]) => `{"t":${t},"p":${p}}`).join();
  return `{"symbol":${symbol},"ticks":[${items}],"count":${count},"from":${tail[0]},"to":${tail[1]},"generated_at":${tail[2]}}`;
}

const asciiSymbol = fc
  .string({ unit: 'grapheme-ascii' })
  .filter((text) => /^[\x20-\x7e]*$/.test(text) && !/["\\]/.test(text));
const ticksOf = (number: fc.Arbitrary<string>) => fc.array(fc.tuple(number, number), { maxLength: 8 });
const times = fc.tuple(fc.maxSafeNat(), fc.maxSafeNat(), fc.maxSafeNat()).map((all) => all.map(String));

const compactPage = fc
  .tuple(asciiSymbol, ticksOf(plainNumber), times)
  .map(([symbol, ticks, tail]) => pageText(`"${symbol}"`, ticks, ticks.length, tail));

const oddPage = fc
  .tuple(
    fc.oneof(fc.string({ unit: 'binary' }), asciiSymbol).map((text) => JSON.stringify(text)),
    ticksOf(fc.oneof({ weight: 3, arbitrary: plainNumber }, { weight: 1, arbitrary: oddNumber })),
    fc.constantFrom(0, 0, 0, 1, -1),
    fc.oneof(times, fc.tuple(oddNumber, plainNumber, oddNumber)),
  )
  .map(([symbol, ticks, off, tail]) => pageText(symbol, ticks, ticks.length + off, tail));

/** One change to the bytes. `at` and `other` are shares of the length. */
const change = fc.record({
  how: fc.constantFrom('flip', 'replace', 'insert', 'delete', 'swap', 'repeat', 'truncate'),
  at: fc.double({ min: 0, max: 0.999999, noNaN: true }),
  other: fc.double({ min: 0, max: 0.999999, noNaN: true }),
  byte: fc.oneof(fc.nat(255), fc.constantFrom(...Buffer.from('{}[]",:0123456789.eE+- \n\\tpu'))),
});

function mutate(
  bytes: Buffer,
  { how, at, other, byte }: { how: string; at: number; other: number; byte: number },
): Buffer {
  const i = Math.floor(at * bytes.length);
  const j = Math.floor(other * bytes.length);
  const copy = Buffer.from(bytes);
  if (how === 'flip') copy[i] = copy[i]! ^ (1 << (byte % 8));
  if (how === 'replace') copy[i] = byte;
  if (how === 'swap') [copy[i], copy[j]] = [bytes[j]!, bytes[i]!];
  if (how === 'insert') return Buffer.concat([bytes.subarray(0, i), Buffer.of(byte), bytes.subarray(i)]);
  if (how === 'delete') return Buffer.concat([bytes.subarray(0, i), bytes.subarray(i + 1 + (byte % 4))]);
  if (how === 'repeat') return Buffer.concat([bytes.subarray(0, Math.max(i, j)), bytes.subarray(Math.min(i, j))]);
  return how === 'truncate' ? copy.subarray(0, i) : copy;
}

/** The decoded page, or the error: without its stack, which takes most of the time of a refusal. */
function outcome(decode: (bytes: Uint8Array) => DecodedTickPage | undefined, bytes: Uint8Array) {
  const { stackTraceLimit } = Error;
  Error.stackTraceLimit = 0;
  try {
    return decode(bytes);
  } catch (error) {
    return String(error);
  } finally {
    Error.stackTraceLimit = stackTraceLimit;
  }
}

const same = (left: Float64Array, right: Float64Array) =>
  left.length === right.length && left.every((value, index) => Object.is(value, right[index]));

/** They hold the ticks of earlier pages. */
const buffers = { t: new Float64Array(0), p: new Float64Array(0) };

function expectSame(bytes: Uint8Array): void {
  const plain = outcome(decodeJsonPage, bytes);
  const page = outcome(decodeTickPage, bytes);
  const compact = decodeCompactPage(bytes);
  const reused = decodeCompactPage(bytes, buffers);
  expectEqual(reused === undefined, compact === undefined);
  for (const fast of compact === undefined ? [page] : [page, compact, reused!]) {
    if (typeof plain !== 'object' || typeof fast !== 'object') {
      expectEqual(fast, plain);
      continue;
    }
    const { t, p, ...rest } = fast;
    expectEqual(same(t, plain.t) && same(p, plain.p), true);
    const { t: _, p: __, ...expected } = plain;
    expectEqual(rest, expected);
  }
}

test('the fast decoder accepts every compact page and agrees with JSON.parse', () => {
  checkProperty([compactPage], share * 5000, (text) => {
    const bytes = Buffer.from(text);
    expect(decodeCompactPage(bytes)).toBeDefined();
    expectSame(bytes);
  });
});

test('both decoders agree on unusual numbers, symbols and counts', () => {
  checkProperty([oddPage], share * 5000, (text) => expectSame(Buffer.from(text)));
});

test('both decoders agree on damaged pages', () => {
  checkProperty([compactPage, fc.array(change, { minLength: 1, maxLength: 3 })], share * 30_000, (text, changes) => {
    expectSame(changes.reduce(mutate, Buffer.from(text)));
  });
});

test('both decoders agree on a usual tick with any byte changed, removed or inserted', () => {
  const ticks = ['{"t":1699999999999,"p":0.123}', '{"t":1699999912345,"p":0.7}', '{"t":1699999999998,"p":0.25}'];
  const page = Buffer.from(
    `{"symbol":"S","ticks":[${ticks.join()}],"count":3,"from":1,"to":2,"generated_at":1700000000000}`,
  );
  const from = page.indexOf('{"t"');
  const to = page.indexOf('],"count"') + 1;
  const every = Array.from({ length: 256 }, (_, byte) => byte);
  const bytes = share === 1 ? every : Buffer.from('{}[]",:0129.eE+- \n\tptu\0\x7f\xff', 'latin1');
  for (let at = from; at < to; at++) {
    const before = page.subarray(0, at);
    expectSame(Buffer.concat([before, page.subarray(at + 1)]));
    for (const byte of bytes) {
      expectSame(Buffer.concat([before, Buffer.of(byte), page.subarray(at + 1)]));
      expectSame(Buffer.concat([before, Buffer.of(byte), page.subarray(at)]));
    }
  }
});

test('the texts of elements parse to the elements', () => {
  checkProperty([fc.array(fc.json()), fc.dictionary(fc.string(), fc.jsonValue())], share * 2000, (elements, others) => {
    const fields = Object.entries({ ...others, ticks: 0 }).filter(([name]) => name !== 'ticks');
    const texts = fields.map(([name, value]) => `${JSON.stringify(name)}: ${JSON.stringify(value, null, 1)}`);
    const text = `{${[...texts, `"ticks":[${elements.join(' ,')}]`].join(',\n')}}`;
    expect(extractElementTexts(text, 'ticks')).toEqual(elements.map((element) => element.trim()));
  });
});
