import { describe, expect, test } from 'vitest';
import { binary, bool, i16, i32, i64, list, readThriftStruct, struct, text } from '../../src/archive/parquet/thrift.ts';

// Written by hand from the protocol's description, independently of this project's writer.

const types = { yes: 1, no: 2, byte: 3, i16: 4, i32: 5, i64: 6, double: 7, binary: 8, list: 9, set: 10, struct: 12 };
const read = (...bytes: number[]) => readThriftStruct(Uint8Array.from(bytes), 0);
/** The header of a field whose ID is `delta` above the one before it. */
const head = (delta: number, type: number): number => (delta << 4) | type;
const stop = 0;

/** A number of at most 53 bits, lowest seven first. */
function varint(value: number): number[] {
  return value < 128 ? [value] : [(value % 128) + 128, ...varint(Math.floor(value / 128))];
}
const zigzag = (value: number): number[] => varint(value < 0 ? -2 * value - 1 : 2 * value);

/** Nested structs, the innermost with a field, `depth` levels down. */
const nested = (depth: number): number[] => [
  ...Array<number>(depth).fill(head(1, types.struct)),
  head(1, types.yes),
  stop,
  ...Array<number>(depth).fill(stop),
];

describe('a struct', () => {
  test('has fields with short and long IDs', () => {
    const { value, end } = read(
      head(2, types.yes),
      head(1, types.no),
      head(15, types.byte),
      200,
      head(0, types.byte),
      ...zigzag(5),
      7,
      head(1, types.byte),
      8,
      stop,
      99,
    );
    expect(value).toEqual([undefined, undefined, true, false, undefined, 7, 8, ...Array(11), 200]);
    expect(end).toBe(10);
  });

  test.each([types.i16, types.i32, types.i64])('has signed integers of type %i', (type) => {
    for (const n of [0, 1, -1, 63, -64, 64, 8191, -8192, 2 ** 31, -(2 ** 31), 2 ** 45 + 3, -(2 ** 51)])
      expect(read(head(1, type), ...zigzag(n), stop).value).toEqual([undefined, n]);
  });

  test('is read from its offset, over ignored doubles', () => {
    const bytes = Uint8Array.of(255, 255, head(1, types.double), 1, 2, 3, 4, 5, 6, 7, 8, head(1, types.byte), 9, stop);
    expect(readThriftStruct(bytes, 2)).toEqual({ value: [undefined, 0, 9], end: bytes.length });
  });

  test('has strings as bytes, and nested structs', () => {
    const { value } = read(
      head(1, types.binary),
      3,
      65,
      66,
      67,
      head(1, types.struct),
      head(1, types.binary),
      0,
      stop,
      stop,
    );
    expect(value).toEqual([undefined, Uint8Array.of(65, 66, 67), [undefined, new Uint8Array()]]);
  });

  test.each([types.list, types.set])('has lists of type %i, of any length', (type) => {
    const bytes = (n: number) => Array.from({ length: n }, (_, i) => i);
    expect(read(head(1, type), head(14, types.byte), ...bytes(14), stop).value).toEqual([undefined, bytes(14)]);
    expect(read(head(1, type), head(15, types.byte), ...varint(300), ...bytes(300), stop).value).toEqual([
      undefined,
      bytes(300).map((n) => n % 256),
    ]);
    expect(read(head(1, type), head(0, types.i32), stop).value).toEqual([undefined, []]);
  });

  test.each([types.yes, types.no])('has booleans in a list as a byte each, for element type %i', (type) => {
    expect(read(head(1, types.list), head(3, type), 1, 2, 1, stop).value).toEqual([undefined, [true, false, true]]);
  });
});

describe('an invalid struct', () => {
  test.each([0, 11, 13, 14, 15])('is rejected with a field of type %i', (type) => {
    // In a struct type 0 is the end. In a list it is as unknown as the others.
    expect(() => read(head(1, types.list), head(1, type), 0, stop)).toThrow(`unknown type ${type}`);
  });

  test('is rejected if truncated anywhere', () => {
    const whole = Uint8Array.of(
      head(1, types.binary),
      3,
      65,
      66,
      67,
      head(1, types.list),
      head(2, types.i64),
      ...zigzag(1e6),
      ...zigzag(-1),
      head(1, types.struct),
      head(1, types.yes),
      stop,
      stop,
    );
    expect(readThriftStruct(whole, 0).end).toBe(whole.length);
    for (let length = 0; length < whole.length; length++)
      expect(() => readThriftStruct(whole.subarray(0, length), 0), `${length} bytes`).toThrow(/is truncated/);
  });

  test('is rejected with a field ID below 0 or above 1000', () => {
    const numbered = (n: number) => read(head(0, types.yes), ...zigzag(n), stop).value;
    expect([numbered(0).length, numbered(1000).length]).toEqual([1, 1001]);
    expect(() => numbered(-1)).toThrow('the invalid field ID -1');
    expect(() => numbered(1001)).toThrow('the invalid field ID 1001');
  });

  test('is rejected if structs or lists nest deeper than sixteen', () => {
    expect(JSON.stringify(read(...nested(16)).value)).toBe(`${'[null,'.repeat(17)}true${']'.repeat(17)}`);
    expect(() => read(...nested(17))).toThrow('nested too deeply');
    const lists = (depth: number) => [
      head(1, types.list),
      ...Array<number>(depth - 1).fill(head(1, types.list)),
      head(1, types.byte),
      5,
      stop,
    ];
    expect(read(...lists(16)).value.flat(20)).toEqual([5]);
    expect(() => read(...lists(17))).toThrow('nested too deeply');
  });

  test('is rejected with an endless number or list', () => {
    const long = (n: number) => read(head(1, types.i64), ...Array<number>(n).fill(128), 0, stop).value;
    expect(long(8)).toEqual([undefined, 0]);
    expect(() => long(9)).toThrow('a number in a header is too long');
    const listed = (n: number) => read(head(1, types.list), head(15, types.byte), ...varint(n), stop);
    expect(() => listed(10_000_000)).toThrow('is truncated');
    expect(() => listed(10_000_001)).toThrow('a list in a header is too long');
  });
});

describe('the writer', () => {
  test('is the inverse of the reader', () => {
    const many = Array.from({ length: 300 }, (_, i) => i - 150);
    const written = struct({
      1: i16(-3),
      2: undefined,
      3: i32(2 ** 31 - 1),
      4: bool(true),
      5: bool(false),
      6: i64(-(2 ** 51)),
      7: text('🚀'),
      8: list(many.map(i32)),
      9: list([struct({ 2: binary(new Uint8Array(200).fill(7)) }), struct({})]),
      // The largest ID difference of a short header.
      24: list([]),
    });
    expect(readThriftStruct(Uint8Array.from([9, ...written.bytes]), 1)).toEqual({
      value: [
        undefined,
        -3,
        undefined,
        2 ** 31 - 1,
        true,
        false,
        -(2 ** 51),
        Uint8Array.from(Buffer.from('🚀')),
        many,
        [[undefined, undefined, new Uint8Array(200).fill(7)], []],
        ...Array(14),
        [],
      ],
      end: written.bytes.length + 1,
    });
  });

  test('writes short field headers and a final zero', () => {
    expect(struct({ 1: i32(-1), 3: text('A') }).bytes).toEqual([
      head(1, types.i32),
      1,
      head(2, types.binary),
      1,
      65,
      stop,
    ]);
    expect(list(Array.from({ length: 14 }, () => i32(0))).bytes[0]).toBe((14 << 4) | types.i32);
    expect(list(Array.from({ length: 15 }, () => i32(0))).bytes.slice(0, 2)).toEqual([0xf0 | types.i32, 15]);
  });
});
