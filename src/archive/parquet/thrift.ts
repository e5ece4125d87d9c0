/*
 * Thrift's compact protocol, as far as Parquet's footer and page headers need it:
 * https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
 */

/** A struct's fields by their numbers; those that were not written are undefined. */
export type ThriftStruct = readonly (ThriftField | undefined)[];
export type ThriftField = number | boolean | Uint8Array | readonly ThriftField[] | ThriftStruct;

/** What nests deeper, or lists more, is no header of a file of ours. */
const depthMax = 16;
const elementsMax = 10_000_000;

/** Reads the struct that begins at `at`; throws where there is none. */
export function readThriftStruct(
  bytes: Uint8Array,
  at: number,
): { readonly value: ThriftStruct; readonly end: number } {
  let place = at;

  const byte = (): number => {
    const value = bytes[place++];
    if (value === undefined) throw new Error('a header ends too early');
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
    const from = place;
    place += length;
    // One that ends after the bytes is told by what has to follow it.
    return bytes.subarray(from, place);
  };

  const list = (depth: number): ThriftField[] => {
    const head = byte();
    const length = head >> 4 === 15 ? varint() : head >> 4;
    if (length > elementsMax) throw new Error('a list in a header is too long');
    return Array.from({ length }, () => field(head & 15, depth, true));
  };

  const field = (type: number, depth: number, inList: boolean): ThriftField => {
    if (depth > depthMax) throw new Error('a header nests too deep');
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
        place += 8;
        return 0;
      case 8:
        return binary();
      case 9:
      case 10:
        return list(depth + 1);
      case 12:
        return struct(depth + 1);
      default:
        throw new Error(`a header has a field of the unknown type ${type}`);
    }
  };

  const struct = (depth: number): ThriftStruct => {
    const out: (ThriftField | undefined)[] = [];
    let id = 0;
    for (;;) {
      const head = byte();
      if (head === 0) return out;
      id = head >> 4 === 0 ? zigzag() : id + (head >> 4);
      if (id < 0 || id > 1000) throw new Error(`a header has a field numbered ${id}`);
      out[id] = field(head & 15, depth, false);
    }
  };

  const value = struct(0);
  return { value, end: place };
}

/*
 * Writes Thrift's compact protocol, as far as Parquet's footer and page headers need it; `thrift.ts` reads it:
 * https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
 */

/** A value as it is written, with the number of its type. */
export interface ThriftValue {
  readonly type: number;
  readonly bytes: readonly number[];
}

/** A whole number below 2^53, whose sign is its lowest bit when `zigzag` is done with it. */
function encodeVarint(value: number): number[] {
  const out: number[] = [];
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) out.push((rest % 128) | 128);
  out.push(rest);
  return out;
}

const encodeZigzag = (value: number): number[] => encodeVarint(value < 0 ? -2 * value - 1 : 2 * value);

export const i32 = (value: number): ThriftValue => ({ type: 5, bytes: encodeZigzag(value) });
/** Up to 2^52 either way. */
export const i64 = (value: number): ThriftValue => ({ type: 6, bytes: encodeZigzag(value) });
export const i16 = (value: number): ThriftValue => ({ type: 4, bytes: encodeZigzag(value) });

/** A truth as a field of a struct, where its type is its value. */
export const bool = (value: boolean): ThriftValue => ({ type: value ? 1 : 2, bytes: [] });

export const binary = (value: Uint8Array): ThriftValue => ({
  type: 8,
  bytes: [...encodeVarint(value.length), ...value],
});

export const text = (value: string): ThriftValue => binary(Buffer.from(value, 'utf8'));

/** Values of one type, structs where there is none; truths are no part of a list here. */
export function list(values: readonly ThriftValue[]): ThriftValue {
  const type = values[0]?.type ?? 12;
  const head = values.length < 15 ? [(values.length << 4) | type] : [0xf0 | type, ...encodeVarint(values.length)];
  return { type: 9, bytes: [...head, ...values.flatMap(({ bytes }) => bytes)] };
}

/** A struct of fields by their numbers, at most 15 apart; those that are undefined are left out. */
export function struct(fields: Readonly<Record<number, ThriftValue | undefined>>): ThriftValue {
  const bytes: number[] = [];
  let latest = 0;
  // An object's keys that are whole numbers come in their order.
  for (const [key, field] of Object.entries(fields)) {
    if (field === undefined) continue;
    bytes.push(((Number(key) - latest) << 4) | field.type);
    for (const byte of field.bytes) bytes.push(byte);
    latest = Number(key);
  }
  bytes.push(0);
  return { type: 12, bytes };
}

/*
 * Numbers and words of Parquet's format, as far as our files use them:
 * https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
 */

/** A Parquet file begins with these four bytes, and ends with them. */
export const magic: Uint8Array = Buffer.from('PAR1');

export const physicalTypes = { boolean: 0, int32: 1, int64: 2, double: 5, text: 6 } as const;
export const convertedTypes = { utf8: 0, timestampMillis: 9 } as const;
export const repetitions = { required: 0, optional: 1 } as const;
export const codecs = { zstd: 6 } as const;
export const pageTypes = { data: 0, dictionary: 2 } as const;
/** https://github.com/apache/parquet-format/blob/master/Encodings.md */
export const encodings = { plain: 0, plainDictionary: 2, rle: 3, deltaBinaryPacked: 5, rleDictionary: 8 } as const;
