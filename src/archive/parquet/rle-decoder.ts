import { readBits, readVarint } from './bit-reader.ts';

/*
 * Indexes of a dictionary, stored as runs of equal ones and of packed ones:
 * https://github.com/apache/parquet-format/blob/master/Encodings.md#RLE
 */

/**
 * Calls `visit` with the indexes of a dictionary page's values `from` to `to`, runs of equal ones at once
 * where they are stored so.
 */
export function visitIndexes(
  bytes: Uint8Array,
  from: number,
  to: number,
  visit: (index: number, count: number) => void,
): void {
  visitRuns(bytes, from, to, (bit, width, count, packed) => {
    if (!packed) visit(readBits(bytes, bit, width), count);
    else for (let i = 0; i < count; i++) visit(readBits(bytes, bit + i * width, width), 1);
  });
}

/** Reads into `out` from `outAt` on the `values` that a page's indexes `from` to `to` name. */
export function decodeIndexedValues(
  bytes: Uint8Array,
  from: number,
  to: number,
  values: Float64Array,
  out: Float64Array,
  outAt: number,
): void {
  let at = outAt;
  visitRuns(bytes, from, to, (bit, width, count, packed) => {
    if (!packed) {
      const index = readBits(bytes, bit, width);
      requireDictionaryIndex(index, values);
      out.fill(values[index]!, at, at + count);
    } else if (width === 16 && bit / 8 + 2 * count <= bytes.length) {
      decodeShortIndexes(bytes, bit / 8, count, values, out, at);
    } else decodePackedIndexes(bytes, bit, width, count, values, out, at);
    at += count;
  });
}

function requireDictionaryIndex(index: number, values: Float64Array): void {
  if (index >= values.length) throw new Error('a page names what its dictionary lacks');
}

/** Those of two bytes: as our writer stores times that repeat. */
function decodeShortIndexes(
  bytes: Uint8Array,
  start: number,
  count: number,
  values: Float64Array,
  out: Float64Array,
  outAt: number,
): void {
  // A copy, as they begin at an odd place.
  const indexes = new Uint16Array(new Uint8Array(bytes.subarray(start, start + 2 * count)).buffer);
  for (let i = 0; i < count; i++) {
    const index = indexes[i]!;
    requireDictionaryIndex(index, values);
    out[outAt + i] = values[index]!;
  }
}

function decodePackedIndexes(
  bytes: Uint8Array,
  start: number,
  width: number,
  count: number,
  values: Float64Array,
  out: Float64Array,
  outAt: number,
): void {
  // The same as `bitsAt`, without a call for each value, up to where four bytes can no more be read at once.
  const inline =
    width > 0 && width <= 25 ? Math.max(0, Math.min(count, Math.floor(((bytes.length - 4) * 8 - start) / width))) : 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const mask = (1 << width) - 1;
  const known = values.length;
  let bit = start;
  let i = 0;
  for (; i < inline; i++, bit += width) {
    const index = (view.getInt32(bit >>> 3, true) >>> (bit & 7)) & mask;
    if (index >= known) break;
    out[outAt + i] = values[index]!;
  }
  for (; i < count; i++, bit += width) {
    const index = readBits(bytes, bit, width);
    requireDictionaryIndex(index, values);
    out[outAt + i] = values[index]!;
  }
}

/** Calls `visit` with each run that has some of the values `from` to `to`: the bit at which those begin, and how many. */
function visitRuns(
  bytes: Uint8Array,
  from: number,
  to: number,
  visit: (bit: number, width: number, count: number, packed: boolean) => void,
): void {
  const width = bytes[0]!;
  if (!(width <= 32)) throw new Error('a page has indexes of an unknown width');
  const cursor = { bytes, at: 1 };
  for (let row = 0; row < to; ) {
    const head = readVarint(cursor);
    const packed = head % 2 === 1;
    const count = packed ? ((head - 1) / 2) * 8 : head / 2;
    if (count === 0 && !packed) throw new Error('a page has an empty run');
    const first = Math.max(row, from);
    const seen = Math.min(row + count, to) - first;
    const bit = cursor.at * 8;
    cursor.at += packed ? (count / 8) * width : (width + 7) >> 3;
    // Before anything is made of what is not there.
    if (cursor.at > bytes.length) throw new Error('a page ends too early');
    if (seen > 0) visit(packed ? bit + (first - row) * width : bit, width, seen, packed);
    row += count;
  }
}
