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
