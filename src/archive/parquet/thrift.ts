/*
 * Thrift's compact protocol, as far as Parquet footers and page headers need it:
 * https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md
 */

/** How the values of one type are read and written. */
export interface ThriftType<T> {
  /** The number of the type in the header of a field or list. */
  readonly number: number;
  /** @throws Error if the bytes do not hold such a value */
  read(reader: ThriftReader, depth: number): T;
  /** Appends the encoded value. */
  write(value: T, out: number[]): void;
}

export type ValueOf<Type> = Type extends ThriftType<infer T> ? T : never;

/** Limits for headers of our files. */
const depthMax = 16;
const elementsMax = 10_000_000;
const fieldIdMax = 1000;

const typeNumbers = { true: 1, false: 2, byte: 3, i16: 4, i32: 5, i64: 6, double: 7, binary: 8, list: 9, set: 10 };
const structNumber = 12;

class ThriftReader {
  private readonly bytes: Uint8Array;
  at: number;

  constructor(bytes: Uint8Array, at: number) {
    this.bytes = bytes;
    this.at = at;
  }

  readByte(): number {
    const value = this.bytes[this.at++];
    if (value === undefined) throw new Error('a header is truncated');
    return value;
  }

  readVarint(): number {
    let value = 0;
    for (let scale = 1; ; scale *= 128) {
      const next = this.readByte();
      value += (next & 127) * scale;
      if (next < 128) return value;
      if (scale > Number.MAX_SAFE_INTEGER) throw new Error('a number in a header is too long');
    }
  }

  readZigzag(): number {
    const value = this.readVarint();
    return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
  }

  /**
   * Bytes past the end are missing from the result; the next read detects this, because every struct has an end marker.
   */
  readBinary(): Uint8Array {
    const length = this.readVarint();
    const from = this.at;
    this.at += length;
    return this.bytes.subarray(from, this.at);
  }

  /** Reads the header of a list and then each element with `readElement`, which receives the type number. */
  readList<T>(readElement: (type: number) => T): T[] {
    const head = this.readByte();
    const length = head >> 4 === 15 ? this.readVarint() : head >> 4;
    if (length > elementsMax) throw new Error('a list in a header is too long');
    const elements: T[] = [];
    for (let i = 0; i < length; i++) elements.push(readElement(head & 15));
    return elements;
  }

  /** Skips a value of a field or list element that is not in our tables. */
  skip(type: number, depth: number, isElement = false): void {
    switch (type) {
      case typeNumbers.true:
      case typeNumbers.false:
        // The type number of a boolean field is its value; a list element takes one byte.
        if (isElement) this.readByte();
        return;
      case typeNumbers.byte:
        this.readByte();
        return;
      case typeNumbers.i16:
      case typeNumbers.i32:
      case typeNumbers.i64:
        this.readVarint();
        return;
      case typeNumbers.double:
        this.at += 8;
        return;
      case typeNumbers.binary:
        this.readBinary();
        return;
      case typeNumbers.list:
      case typeNumbers.set:
        if (depth >= depthMax) throw new Error('a header is nested too deeply');
        this.readList((element) => this.skip(element, depth + 1, true));
        return;
      case structNumber:
        emptyStruct.read(this, depth + 1);
        return;
      default:
        throw new Error(`a header has a field of unknown type ${type}`);
    }
  }
}

/** Appends an integer from 0 to 2^53. */
function writeVarint(value: number, out: number[]): void {
  let remaining = value;
  for (; remaining >= 128; remaining = Math.floor(remaining / 128)) out.push((remaining % 128) | 128);
  out.push(remaining);
}

/** Integers from 0 to 2^52: sizes, offsets, counts and enumerations of Parquet are never negative. */
const createCountType = (number: number): ThriftType<number> => ({
  number,
  read(reader) {
    const value = reader.readZigzag();
    if (value < 0) throw new Error('a number in a header is negative');
    return value;
  },
  write: (value, out) => writeVarint(2 * value, out),
});

export const i16 = createCountType(typeNumbers.i16);
export const i32 = createCountType(typeNumbers.i32);
export const i64 = createCountType(typeNumbers.i64);

/** A boolean field of a struct. Its type number is its value, which the struct reads and writes. */
export const bool: ThriftType<boolean> = { number: typeNumbers.true, read: () => true, write() {} };

export const binary: ThriftType<Uint8Array> = {
  number: typeNumbers.binary,
  read: (reader) => reader.readBinary(),
  write(value, out) {
    writeVarint(value.length, out);
    for (const byte of value) out.push(byte);
  },
};

export const text: ThriftType<string> = {
  number: typeNumbers.binary,
  read: (reader) => Buffer.from(reader.readBinary()).toString('utf8'),
  write: (value, out) => binary.write(Buffer.from(value, 'utf8'), out),
};

/** Lists of booleans are not supported. */
export const list = <T>(type: ThriftType<T>): ThriftType<readonly T[]> => ({
  number: typeNumbers.list,
  read: (reader, depth) =>
    reader.readList((number) => {
      if (number !== type.number) throw new Error('a list in a header has elements of another type');
      return type.read(reader, depth + 1);
    }),
  write(values, out) {
    if (values.length < 15) out.push((values.length << 4) | type.number);
    else {
      out.push(0xf0 | type.number);
      writeVarint(values.length, out);
    }
    for (const value of values) type.write(value, out);
  },
});

interface Field<T, IsRequired extends boolean> {
  readonly id: number;
  readonly type: ThriftType<T>;
  readonly isRequired: IsRequired;
}

export const required = <T>(id: number, type: ThriftType<T>): Field<T, true> => ({ id, type, isRequired: true });
export const optional = <T>(id: number, type: ThriftType<T>): Field<T, false> => ({ id, type, isRequired: false });

type Fields = Readonly<Record<string, Field<unknown, boolean>>>;
type FieldValue<F> = F extends Field<infer T, boolean> ? T : never;
type StructValue<F extends Fields> = {
  readonly [K in keyof F as F[K]['isRequired'] extends true ? K : never]: FieldValue<F[K]>;
} & {
  readonly [K in keyof F as F[K]['isRequired'] extends true ? never : K]?: FieldValue<F[K]> | undefined;
};

/**
 * A struct of named fields, in ascending order of their IDs, which are at most 15 apart. Other fields are skipped when
 * reading. Reading fails if a required field is missing or has another type.
 */
export function struct<F extends Fields>(fields: F): ThriftType<StructValue<F>> {
  const named = Object.entries(fields).map(([name, field]) => ({ name, ...field }));
  const byId: ((typeof named)[number] | undefined)[] = [];
  for (const field of named) byId[field.id] = field;
  const requiredNames = named.filter(({ isRequired }) => isRequired).map(({ name }) => name);
  return {
    number: structNumber,
    read(reader, depth) {
      if (depth > depthMax) throw new Error('a header is nested too deeply');
      const value: Record<string, unknown> = {};
      for (let id = 0; ; ) {
        const head = reader.readByte();
        if (head === 0) break;
        id = head >> 4 === 0 ? reader.readZigzag() : id + (head >> 4);
        if (id < 0 || id > fieldIdMax) throw new Error(`a header has the invalid field ID ${id}`);
        const number = head & 15;
        const field = byId[id];
        if (field?.type.number === number) value[field.name] = field.type.read(reader, depth + 1);
        else if (field?.type === bool && number === typeNumbers.false) value[field.name] = false;
        else reader.skip(number, depth);
      }
      for (const name of requiredNames)
        if (value[name] === undefined) throw new Error(`the field ${name} is missing in a header`);
      return value as StructValue<F>;
    },
    write(value, out) {
      let previousId = 0;
      for (const { name, id, type } of named) {
        const field: unknown = value[name as keyof typeof value];
        if (field === undefined) continue;
        out.push(((id - previousId) << 4) | (field === false ? typeNumbers.false : type.number));
        type.write(field, out);
        previousId = id;
      }
      out.push(0);
    },
  };
}

/** A struct without fields, also used to skip unknown structs. */
export const emptyStruct = struct({});

/** Reads the struct at `at`. @throws Error if there is none */
export function readStruct<T>(
  type: ThriftType<T>,
  bytes: Uint8Array,
  at: number,
): { readonly value: T; readonly end: number } {
  const reader = new ThriftReader(bytes, at);
  const value = type.read(reader, 0);
  return { value, end: reader.at };
}

export function encodeStruct<T>(type: ThriftType<T>, value: T): Uint8Array {
  const out: number[] = [];
  type.write(value, out);
  return Uint8Array.from(out);
}
