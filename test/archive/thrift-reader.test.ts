import { describe, expect, test } from 'vitest';
import {
  binary,
  bool,
  encodeStruct,
  i16,
  i32,
  i64,
  list,
  optional,
  readStruct,
  required,
  struct,
  type ThriftType,
  text,
} from '../../src/archive/parquet/thrift.ts';

// Written by hand from the protocol's description, independently of this project's writer.

const types = { yes: 1, no: 2, byte: 3, i16: 4, i32: 5, i64: 6, double: 7, binary: 8, list: 9, set: 10, struct: 12 };
const read = <T>(type: ThriftType<T>, ...bytes: number[]) => readStruct(type, Uint8Array.from(bytes), 0);
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

/** A field after whatever is to be skipped. Bytes that were not skipped exactly would be taken for it. */
const afterSkipped = struct({ last: required(1000, i32) });
const lastField = [head(0, types.i32), ...zigzag(1000), ...zigzag(77), stop];
const readSkipping = (...bytes: number[]) => read(afterSkipped, ...bytes, ...lastField);

describe('a struct', () => {
  test('has fields with short and long IDs', () => {
    const type = struct({
      two: required(2, bool),
      three: required(3, bool),
      five: required(5, i32),
      six: required(6, i32),
      eighteen: required(18, i32),
      absent: optional(19, i32),
    });
    const { value, end } = read(
      type,
      head(2, types.yes),
      head(1, types.no),
      head(15, types.i32),
      ...zigzag(200),
      head(0, types.i32),
      ...zigzag(5),
      ...zigzag(7),
      head(1, types.i32),
      ...zigzag(8),
      stop,
      99,
    );
    expect(value).toEqual({ two: true, three: false, five: 7, six: 8, eighteen: 200 });
    expect(end).toBe(11);
  });

  test.each([
    [types.i16, i16],
    [types.i32, i32],
    [types.i64, i64],
  ])('has integers of type %i, none of them negative', (number, type) => {
    const one = struct({ one: required(1, type) });
    for (const n of [0, 1, 63, 64, 8191, 2 ** 31, 2 ** 45 + 3, 2 ** 51])
      expect(read(one, head(1, number), ...zigzag(n), stop).value).toEqual({ one: n });
    for (const n of [-1, -64, -(2 ** 31), -(2 ** 51)])
      expect(() => read(one, head(1, number), ...zigzag(n), stop)).toThrow('a number in a header is negative');
  });

  test('is read from its offset', () => {
    const bytes = Uint8Array.of(255, 255, head(2, types.i32), ...zigzag(9), stop);
    expect(readStruct(struct({ two: required(2, i32) }), bytes, 2)).toEqual({ value: { two: 9 }, end: bytes.length });
  });

  test('has bytes, texts and nested structs', () => {
    const type = struct({
      bytes: required(1, binary),
      words: required(2, text),
      inner: required(3, struct({ empty: required(1, binary) })),
    });
    const { value } = read(
      type,
      head(1, types.binary),
      3,
      65,
      66,
      67,
      head(1, types.binary),
      4,
      ...Buffer.from('🚀'),
      head(1, types.struct),
      head(1, types.binary),
      0,
      stop,
      stop,
    );
    expect(value).toEqual({ bytes: Uint8Array.of(65, 66, 67), words: '🚀', inner: { empty: new Uint8Array() } });
  });

  test('has lists of any length', () => {
    const type = struct({ all: required(1, list(i32)) });
    const numbers = (n: number) => Array.from({ length: n }, (_, i) => i);
    for (const [length, ...header] of [
      [0, head(0, types.i32)],
      [14, head(14, types.i32)],
      [15, head(15, types.i32), 15],
      [300, head(15, types.i32), ...varint(300)],
    ] as const)
      expect(read(type, head(1, types.list), ...header, ...numbers(length).flatMap(zigzag), stop).value).toEqual({
        all: numbers(length),
      });
  });
});

describe('a field that is not in the table is skipped', () => {
  test.each([
    ['true', [types.yes]],
    ['false', [types.no]],
    ['a byte', [types.byte, 200]],
    ['a number', [types.i64, ...zigzag(-(2 ** 51))]],
    ['a double', [types.double, 1, 2, 3, 4, 5, 6, 7, 8]],
    ['a string', [types.binary, 3, 65, 66, 67]],
    ['an empty list', [types.list, head(0, types.i32)]],
    ['a list of bytes', [types.list, head(3, types.byte), 1, 2, 3]],
    ['a long list', [types.list, head(15, types.byte), ...varint(300), ...Array<number>(300).fill(1)]],
    ['a set', [types.set, head(2, types.binary), 1, 65, 0]],
    // In a list booleans are a byte each.
    ['a list of true', [types.list, head(3, types.yes), 1, 2, 1]],
    ['a list of false', [types.list, head(3, types.no), 1, 2, 1]],
    ['a struct', [types.struct, head(2, types.list), head(1, types.struct), stop, head(1, types.yes), stop]],
  ])('%s', (_, [type, ...bytes]) => {
    expect(readSkipping(head(1, type!), ...bytes).value).toEqual({ last: 77 });
    // Neither is a field of another type than the table says.
    const other = struct({ one: optional(1, i32), last: required(1000, i32) });
    expect(read(other, head(1, type!), ...bytes, ...lastField).value).toEqual({ last: 77 });
  });
});

describe('an invalid struct', () => {
  test('is rejected without a required field, or with one of another type', () => {
    const type = struct({ one: required(1, i32), name: required(2, text), maybe: optional(3, bool) });
    const one = [head(1, types.i32), ...zigzag(3)];
    expect(read(type, ...one, head(1, types.binary), 1, 65, stop).value).toEqual({ one: 3, name: 'A' });
    expect(() => read(type, ...one, stop)).toThrow('the field name is missing in a header');
    expect(() => read(type, ...one, head(1, types.yes), stop)).toThrow('the field name is missing in a header');
    expect(() => read(type, stop)).toThrow('the field one is missing in a header');
    expect(() => read(struct({ inner: required(1, type) }), head(1, types.struct), stop, stop)).toThrow(
      'one is missing',
    );
    const numbers = struct({ all: required(1, list(i32)) });
    expect(() => read(numbers, head(1, types.list), head(1, types.byte), 1, stop)).toThrow('elements of another type');
  });

  test.each([0, 11, 13, 14, 15])('is rejected with a field of type %i', (type) => {
    // In a struct type 0 is the end. In a list it is as unknown as the others.
    expect(() => readSkipping(head(1, types.list), head(1, type), 0)).toThrow(`unknown type ${type}`);
  });

  test('is rejected if truncated anywhere', () => {
    const type = struct({
      name: required(1, binary),
      sizes: required(2, list(i64)),
      inner: required(3, struct({ yes: required(1, bool) })),
    });
    const whole = Uint8Array.of(
      head(1, types.binary),
      3,
      65,
      66,
      67,
      head(1, types.list),
      head(2, types.i64),
      ...zigzag(1e6),
      ...zigzag(1),
      head(1, types.struct),
      head(1, types.yes),
      stop,
      stop,
    );
    for (const one of [type, struct({})]) {
      expect(readStruct(one, whole, 0).end).toBe(whole.length);
      for (let length = 0; length < whole.length; length++)
        expect(() => readStruct(one, whole.subarray(0, length), 0), `${length} bytes`).toThrow(/is truncated/);
    }
  });

  test('is rejected with a field ID below 0 or above 1000', () => {
    const numbered = (n: number) => read(struct({ yes: required(n, bool) }), head(0, types.yes), ...zigzag(n), stop);
    expect([numbered(0).value, numbered(1000).value]).toEqual([{ yes: true }, { yes: true }]);
    expect(() => numbered(-1)).toThrow('the invalid field ID -1');
    expect(() => numbered(1001)).toThrow('the invalid field ID 1001');
  });

  test('is rejected if structs or lists nest deeper than sixteen', () => {
    expect(read(struct({}), ...nested(16)).end).toBe(34);
    expect(() => read(struct({}), ...nested(17))).toThrow('nested too deeply');
    const lists = (depth: number) => [
      head(1, types.list),
      ...Array<number>(depth - 1).fill(head(1, types.list)),
      head(1, types.byte),
      5,
    ];
    expect(readSkipping(...lists(16)).value).toEqual({ last: 77 });
    expect(() => readSkipping(...lists(17))).toThrow('nested too deeply');
  });

  test.each([
    ['of the table', struct({ size: optional(1, i64), all: optional(2, list(i32)) })],
    ['that is skipped', struct({})],
  ])('is rejected with an endless number or list %s', (_, type) => {
    const long = (n: number) => read(type, head(1, types.i64), ...Array<number>(n).fill(128), 0, stop);
    expect(long(8).end).toBe(11);
    expect(() => long(9)).toThrow('a number in a header is too long');
    const listed = (n: number) => read(type, head(2, types.list), head(15, types.i32), ...varint(n), stop);
    expect(() => listed(10_000_000)).toThrow('is truncated');
    expect(() => listed(10_000_001)).toThrow('a list in a header is too long');
  });
});

describe('the writer', () => {
  const type = struct({
    short: required(1, i16),
    absent: optional(2, i32),
    int: required(3, i32),
    yes: required(4, bool),
    no: required(5, bool),
    long: required(6, i64),
    name: required(7, text),
    all: required(8, list(i32)),
    inner: required(9, list(struct({ bytes: optional(2, binary) }))),
    // The largest ID difference of a short header.
    none: required(24, list(text)),
  });

  test('is the inverse of the reader', () => {
    const value = {
      short: 3,
      int: 2 ** 31 - 1,
      yes: true,
      no: false,
      long: 2 ** 51,
      name: '🚀',
      all: Array.from({ length: 300 }, (_, i) => i),
      inner: [{ bytes: new Uint8Array(200).fill(7) }, {}],
      none: [],
    };
    const bytes = encodeStruct(type, value);
    expect(readStruct(type, Uint8Array.from([9, ...bytes]), 1)).toEqual({ value, end: bytes.length + 1 });
    expect(encodeStruct(type, { ...value, absent: undefined })).toEqual(bytes);
  });

  test('writes short field headers and a final zero', () => {
    const short = struct({
      one: required(1, i32),
      name: required(3, text),
      yes: required(4, bool),
      no: required(6, bool),
    });
    expect([...encodeStruct(short, { one: 1, name: 'A', yes: true, no: false })]).toEqual([
      head(1, types.i32),
      2,
      head(2, types.binary),
      1,
      65,
      head(1, types.yes),
      head(2, types.no),
      stop,
    ]);
    const listed = (length: number) => [
      ...encodeStruct(struct({ all: required(1, list(i32)) }), { all: Array<number>(length).fill(0) }),
    ];
    expect(listed(0).slice(1)).toEqual([types.i32, stop]);
    expect(listed(14)[1]).toBe((14 << 4) | types.i32);
    expect(listed(15).slice(1, 3)).toEqual([0xf0 | types.i32, 15]);
  });
});
