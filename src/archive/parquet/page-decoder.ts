import { zstdDecompressSync } from 'node:zlib';
import { encodings } from './thrift.ts';

/*
 * Values of Parquet's data pages, of the encodings that our writer uses, without going through Arrow:
 * https://parquet.apache.org/docs/file-format/data-pages/encodings/
 */

/** A page's body in its file: `size` bytes from `at`, `uncompressedBytes` once they are decompressed. */
export interface CompressedPage {
  readonly offset: number;
  readonly compressedBytes: number;
  readonly uncompressedBytes: number;
}

/** A page of `rows` values, the first of them row `first` of the file. `dictionary` where its values are indexes of one. */
export interface DataPage extends CompressedPage {
  readonly firstRow: number;
  readonly rows: number;
  readonly encoding: number;
  readonly dictionary: (CompressedPage & { readonly values: number }) | null;
}

/** Bytes that decompressing takes at a time: zlib's own least, and enough for any page of ours. */
const decompressChunkBytesMin = 64;
const decompressChunkBytesMax = 1 << 20;

/** The bytes of a page packed with zstd. @throws Error where it is cut off, or not of the length that its header says */
export function decompressPage(
  file: Uint8Array,
  { offset, compressedBytes, uncompressedBytes }: CompressedPage,
): Uint8Array {
  if (offset + compressedBytes > file.length) throw new Error('a page ends after its file');
  // By default every call takes a buffer of 128 KiB for what is mostly far less, and the collector runs all the time.
  const chunkSize = Math.min(decompressChunkBytesMax, Math.max(decompressChunkBytesMin, uncompressedBytes));
  const plain = zstdDecompressSync(file.subarray(offset, offset + compressedBytes), {
    maxOutputLength: Math.max(1, uncompressedBytes),
    chunkSize,
  });
  if (plain.length !== uncompressedBytes) throw new Error('a page has another length than its header says');
  return plain;
}

/** Reads values `from` to `to` of differences, at least one, into `out` from `outAt` on. */
function decodeDeltas(bytes: Uint8Array, from: number, to: number, out: Float64Array, outAt: number): void {
  const cursor = { bytes, at: 0 };
  const blockValues = readVarint(cursor);
  const miniblocks = readVarint(cursor);
  const total = readVarint(cursor);
  if (total < to || blockValues % miniblocks !== 0) throw new Error('a page lacks values');
  const miniValues = blockValues / miniblocks;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  /** Up to this bit, four bytes can be read at once. */
  const safe = (bytes.length - 4) * 8;
  let value = readZigzag(cursor);
  // Where it is not asked for, the one that is comes over it.
  out[outAt] = value;
  for (let row = 1; row < to; ) {
    const least = readZigzag(cursor);
    const widths = cursor.at;
    cursor.at += miniblocks;
    for (let mini = 0; mini < miniblocks && row < to; mini++) {
      const width = bytes[widths + mini]!;
      if (!(width <= 50)) throw new Error('a page has differences too wide');
      const end = Math.min(row + miniValues, to);
      let bit = cursor.at * 8;
      // The same as `readBits`, without a call for each value: it is here that the time goes.
      const inline = width > 0 && width <= 25 ? Math.min(end, row + Math.floor((safe - bit) / width)) : row;
      const mask = (1 << width) - 1;
      for (; row < inline; row++, bit += width) {
        value += least + ((view.getInt32(bit >>> 3, true) >>> (bit & 7)) & mask);
        if (row >= from) out[outAt + row - from] = value;
      }
      for (; row < end; row++, bit += width) {
        value += least + (width === 0 ? 0 : readBits(bytes, bit, width));
        if (row >= from) out[outAt + row - from] = value;
      }
      cursor.at += (miniValues * width) / 8;
      if (cursor.at > bytes.length) throw new Error('a page ends too early');
    }
  }
}

/** The doubles, or the 64-bit integers as doubles, stored plainly from value `from` to `to`. */
function decodePlainNumbers(bytes: Uint8Array, type: 'double' | 'int64', from: number, to: number): Float64Array {
  if (to * 8 > bytes.length) throw new Error('a page ends too early');
  const aligned = new Uint8Array(bytes.subarray(from * 8, to * 8)).buffer;
  if (type === 'double') return new Float64Array(aligned);
  const halves = new Int32Array(aligned);
  const values = new Float64Array(to - from);
  for (let i = 0; i < values.length; i++) values[i] = (halves[2 * i]! >>> 0) + halves[2 * i + 1]! * 4_294_967_296;
  return values;
}

/** The values of dictionaries that are small, for as long as somebody holds their pages. */
const cachedDictionaries = new WeakMap<CompressedPage, Float64Array>();

/** Bytes up to which a dictionary, decompressed, is kept with its page. */
export const cachedDictionaryBytesMax = 32_768;

function readDictionary(
  file: Uint8Array,
  dictionary: NonNullable<DataPage['dictionary']>,
  type: 'double' | 'int64',
): Float64Array {
  const held = cachedDictionaries.get(dictionary);
  if (held !== undefined) return held;
  const values = decodePlainNumbers(decompressPage(file, dictionary), type, 0, dictionary.values);
  if (dictionary.uncompressedBytes <= cachedDictionaryBytesMax) cachedDictionaries.set(dictionary, values);
  return values;
}

/** The values of a column's rows `from` to `to`, `pages` being those of the column in order. */
export function readColumnValues(
  file: Uint8Array,
  pages: readonly DataPage[],
  type: 'double' | 'int64',
  from: number,
  to: number,
): Float64Array {
  const out = new Float64Array(to - from);
  let filled = 0;
  let dictionary: { of: CompressedPage; values: Float64Array } | undefined;
  for (const page of pages) {
    const [a, b] = [
      Math.max(from, page.firstRow) - page.firstRow,
      Math.min(to, page.firstRow + page.rows) - page.firstRow,
    ];
    if (a >= b) continue;
    const bytes = decompressPage(file, page);
    const at = page.firstRow + a - from;
    if (page.encoding === encodings.plain) out.set(decodePlainNumbers(bytes, type, a, b), at);
    else if (page.encoding === encodings.deltaBinaryPacked && type === 'int64') decodeDeltas(bytes, a, b, out, at);
    else if (page.dictionary !== null) {
      if (dictionary?.of !== page.dictionary)
        dictionary = { of: page.dictionary, values: readDictionary(file, page.dictionary, type) };
      const { values } = dictionary;
      decodeIndexedValues(bytes, a, b, values, out, at);
    } else throw new Error(`a page has values of the unknown encoding ${page.encoding}`);
    filled += b - a;
  }
  if (filled !== to - from) throw new Error('pages are missing');
  return out;
}

// Numbers in a page that are not of whole bytes, or of as many as they need.

/** The `width` bits, 0 to 50, from bit `at` on, lowest first. What lies after the end counts as zero. */
export function readBits(bytes: Uint8Array, at: number, width: number): number {
  if (width > 25) return readBits(bytes, at, 25) + readBits(bytes, at + 25, width - 25) * 2 ** 25;
  const i = at >>> 3;
  const four = bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24);
  return (four >>> (at & 7)) & ((1 << width) - 1);
}

/** A reader of variable-length integers; `at` moves. */
export interface ByteCursor {
  readonly bytes: Uint8Array;
  at: number;
}

export function readVarint(cursor: ByteCursor): number {
  let value = 0;
  for (let scale = 1; scale <= Number.MAX_SAFE_INTEGER; scale *= 128) {
    const next = cursor.bytes[cursor.at++];
    if (next === undefined) throw new Error('a page ends too early');
    value += (next & 127) * scale;
    if (next < 128) return value;
  }
  throw new Error('a number in a page is too long');
}

export function readZigzag(cursor: ByteCursor): number {
  const value = readVarint(cursor);
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}

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
  // The same as `readBits`, without a call for each value, up to where four bytes can no more be read at once.
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
