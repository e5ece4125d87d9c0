/*
 * Reads Thrift's compact protocol, as far as Parquet footers and page headers need it:
 * https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
 */

/** The fields of a struct by field ID; undefined if absent. */
export type ThriftStruct = readonly (ThriftField | undefined)[];
export type ThriftField = number | boolean | Uint8Array | readonly ThriftField[] | ThriftStruct;

/** Limits for headers of our files. */
const depthMax = 16;
const elementsMax = 10_000_000;

/** Reads the struct at `at`. @throws Error if there is none */
export function readThriftStruct(
  bytes: Uint8Array,
  at: number,
): { readonly value: ThriftStruct; readonly end: number } {
  let position = at;

  const byte = (): number => {
    const value = bytes[position++];
    if (value === undefined) throw new Error('a header is truncated');
    return value;
  };

  const varint = (): number => {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const next = byte();
      value += (next & 127) * scale;
      if (next < 128) return value;
      if (scale > Number.MAX_SAFE_INTEGER) throw new Error('a number in a header is too long');
    }
  };

  const zigzag = (): number => {
    const value = varint();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  };

  const binary = (): Uint8Array => {
    const length = varint();
    const from = position;
    position += length;
    // A binary past the end of the bytes is detected by the next read.
    return bytes.subarray(from, position);
  };

  const list = (depth: number): ThriftField[] => {
    const head = byte();
    const length = head >> 4 === 15 ? varint() : head >> 4;
    if (length > elementsMax) throw new Error('a list in a header is too long');
    return Array.from({ length }, () => field(head & 15, depth, true));
  };

  const field = (type: number, depth: number, inList: boolean): ThriftField => {
    if (depth > depthMax) throw new Error('a header is nested too deeply');
    switch (type) {
      case 1:
      case 2:
        return inList ? byte() === 1 : type === 1;
      case 3:
        return byte();
      case 4:
      case 5:
      case 6:
        return zigzag();
      case 7:
        position += 8;
        return 0;
      case 8:
        return binary();
      case 9:
      case 10:
        return list(depth + 1);
      case 12:
        return struct(depth + 1);
      default:
        throw new Error(`a header has a field of unknown type ${type}`);
    }
  };

  const struct = (depth: number): ThriftStruct => {
    const out: (ThriftField | undefined)[] = [];
    let id = 0;
    for (;;) {
      const head = byte();
      if (head === 0) return out;
      id = head >> 4 === 0 ? zigzag() : id + (head >> 4);
      if (id < 0 || id > 1000) throw new Error(`a header has the invalid field ID ${id}`);
      out[id] = field(head & 15, depth, false);
    }
  };

  const value = struct(0);
  return { value, end: position };
}

/* Writes Thrift's compact protocol, as far as Parquet footers and page headers need it. */

/** An encoded value with its type number. */
export interface ThriftValue {
  readonly type: number;
  readonly bytes: readonly number[];
}

/** Encodes an integer from 0 to 2^53. */
function encodeVarint(value: number): number[] {
  const out: number[] = [];
  let remaining = value;
  for (; remaining >= 128; remaining = Math.floor(remaining / 128)) out.push((remaining % 128) | 128);
  out.push(remaining);
  return out;
}

const encodeZigzag = (value: number): number[] => encodeVarint(value < 0 ? -2 * value - 1 : 2 * value);

export const i32 = (value: number): ThriftValue => ({ type: 5, bytes: encodeZigzag(value) });
/** From -2^52 to 2^52. */
export const i64 = (value: number): ThriftValue => ({ type: 6, bytes: encodeZigzag(value) });
export const i16 = (value: number): ThriftValue => ({ type: 4, bytes: encodeZigzag(value) });

/** A boolean field of a struct: its type is its value. */
export const bool = (value: boolean): ThriftValue => ({ type: value ? 1 : 2, bytes: [] });

export const binary = (value: Uint8Array): ThriftValue => ({
  type: 8,
  bytes: [...encodeVarint(value.length), ...value],
});

export const text = (value: string): ThriftValue => binary(Buffer.from(value, 'utf8'));

/** A list of values of one type; an empty list is of structs. Lists of booleans are not supported. */
export function list(values: readonly ThriftValue[]): ThriftValue {
  const type = values[0]?.type ?? 12;
  const head = values.length < 15 ? [(values.length << 4) | type] : [0xf0 | type, ...encodeVarint(values.length)];
  return { type: 9, bytes: [...head, ...values.flatMap(({ bytes }) => bytes)] };
}

/** A struct of fields by ID, at most 15 apart. Undefined fields are omitted. */
export function struct(fields: Readonly<Record<number, ThriftValue | undefined>>): ThriftValue {
  const bytes: number[] = [];
  let previousId = 0;
  // Integer keys of an object are iterated in ascending order.
  for (const [key, field] of Object.entries(fields)) {
    if (field === undefined) continue;
    bytes.push(((Number(key) - previousId) << 4) | field.type);
    for (const byte of field.bytes) bytes.push(byte);
    previousId = Number(key);
  }
  bytes.push(0);
  return { type: 12, bytes };
}

/*
 * Constants of the Parquet format that our files use:
 * https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
 */

/** A Parquet file begins and ends with these four bytes. */
export const magic: Uint8Array = Buffer.from('PAR1');

export const physicalTypes = { boolean: 0, int32: 1, int64: 2, double: 5, text: 6 } as const;
export const convertedTypes = { utf8: 0, timestampMillis: 9 } as const;
export const repetitions = { required: 0, optional: 1 } as const;
export const codecs = { zstd: 6 } as const;
export const pageTypes = { data: 0, dictionary: 2 } as const;
/** https://github.com/apache/parquet-format/blob/master/Encodings.md */
export const encodings = { plain: 0, plainDictionary: 2, rle: 3, deltaBinaryPacked: 5, rleDictionary: 8 } as const;
