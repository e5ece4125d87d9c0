import { zstdDecompressSync } from 'node:zlib';
import { encodings } from './metadata.ts';
import { copyStoredFrame } from './stored-frame.ts';

/*
 * Decodes data pages in the encodings that our writer uses, without Arrow:
 * https://parquet.apache.org/docs/file-format/data-pages/encodings/
 */

/** The location of a page body in its file. */
export interface CompressedPage {
  readonly offset: number;
  readonly compressedBytes: number;
  readonly uncompressedBytes: number;
}

/** A page of `rows` values that starts at row `firstRow` of the file. `dictionary` is set if its values are indexes. */
export interface DataPage extends CompressedPage {
  readonly firstRow: number;
  readonly rows: number;
  readonly encoding: number;
  readonly dictionary: (CompressedPage & { readonly values: number }) | null;
}

/** Bounds of the decompression buffer, in bytes: zlib's minimum, and enough for any of our pages. */
const decompressChunkBytesMin = 64;
const decompressChunkBytesMax = 1 << 20;

export type DecompressPage = (file: Uint8Array, page: CompressedPage) => Uint8Array;

/** Decompresses a page. @throws Error if it is truncated or its length differs from the header */
export function decompressPage(
  file: Uint8Array,
  { offset, compressedBytes, uncompressedBytes }: CompressedPage,
): Uint8Array {
  const end = offset + compressedBytes;
  if (end > file.length) throw new Error('a page extends past the end of its file');
  const stored = copyStoredFrame(file, offset, end, uncompressedBytes);
  if (stored !== undefined) return stored;
  // The default buffer of 128 KiB is usually far too large and keeps the garbage collector busy.
  const chunkSize = Math.min(decompressChunkBytesMax, Math.max(decompressChunkBytesMin, uncompressedBytes));
  const plain = zstdDecompressSync(file.subarray(offset, end), {
    maxOutputLength: Math.max(1, uncompressedBytes),
    chunkSize,
  });
  if (plain.length !== uncompressedBytes) throw new Error('the length of a page differs from its header');
  return plain;
}

/** Decodes values `from` to `to` of a delta page, at least one, into `out` at `outAt`. */
function decodeDeltas(bytes: Uint8Array, from: number, to: number, out: Float64Array, outAt: number): void {
  const cursor = { bytes, at: 0 };
  const blockValues = readVarint(cursor);
  const miniblocks = readVarint(cursor);
  const valueCount = readVarint(cursor);
  if (valueCount < to || blockValues % miniblocks !== 0) throw new Error('a page has too few values');
  const miniValues = blockValues / miniblocks;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  /** Up to this bit, four bytes can be read at once. */
  const safeBits = (bytes.length - 4) * 8;
  let value = readZigzag(cursor);
  // The first value. If it is not in the range, the first one in the range overwrites it.
  out[outAt] = value;
  for (let row = 1; row < to; ) {
    const minDelta = readZigzag(cursor);
    const widths = cursor.at;
    cursor.at += miniblocks;
    for (let mini = 0; mini < miniblocks && row < to; mini++) {
      const width = bytes[widths + mini]!;
      if (!(width <= 50)) throw new Error('a page has deltas that are too wide');
      const end = Math.min(row + miniValues, to);
      const isSmall = width <= smallDeltaBits && Math.abs(minDelta) < 2 ** smallDeltaBits;
      const bit = cursor.at * 8;
      if (isSmall && row >= from && end - row <= smallDeltasMax && bit + width * (end - row) <= safeBits)
        value = addSmallDeltas(view, bit | 0, width, minDelta | 0, value, out, (outAt + row - from) | 0, end - row);
      else {
        for (let k = 0; row + k < end; k++) {
          value += minDelta + (width === 0 ? 0 : readBits(bytes, bit + k * width, width));
          if (row + k >= from) out[outAt + row + k - from] = value;
        }
      }
      row = end;
      cursor.at += (miniValues * width) / 8;
      if (cursor.at > bytes.length) throw new Error('a page is truncated');
    }
  }
}

/** With at most this many deltas of so many bits, and a minimum of as many, their sum is a 32-bit integer. */
const smallDeltaBits = 24;
const smallDeltasMax = 32;

/**
 * Adds deltas to `value`, and returns the last sum. Takes most of the time of reading times: their sum is an integer, because a
 * sum of doubles has to wait for the previous one.
 */
function addSmallDeltas(
  view: DataView,
  start: number,
  width: number,
  minDelta: number,
  value: number,
  out: Float64Array,
  outAt: number,
  count: number,
): number {
  const mask = (1 << width) - 1;
  const end = outAt + count;
  let bit = start;
  let sum = 0;
  for (let at = outAt; at < end; at++, bit += width) {
    sum = (sum + minDelta + ((view.getInt32(bit >>> 3, true) >>> (bit & 7)) & mask)) | 0;
    out[at] = value + sum;
  }
  return value + sum;
}

/** Physical types of numbers. All are decoded as doubles, and booleans as 0 and 1. */
export type NumberType = 'double' | 'int64' | 'int32' | 'boolean';

/** Decodes PLAIN numbers from value `from` to `to`, as doubles. */
function decodePlainNumbers(bytes: Uint8Array, type: NumberType, from: number, to: number): Float64Array {
  const width = type === 'boolean' ? 1 / 8 : type === 'int32' ? 4 : 8;
  if (to * width > bytes.length) throw new Error('a page is truncated');
  if (type === 'boolean') return Float64Array.from(readPackedBits(bytes, from, to));
  if (type === 'int32')
    return Float64Array.from(new Int32Array(new Uint8Array(bytes.subarray(from * width, to * width)).buffer));
  const aligned = new Uint8Array(bytes.subarray(from * 8, to * 8)).buffer;
  if (type === 'double') return new Float64Array(aligned);
  const halves = new Int32Array(aligned);
  const values = new Float64Array(to - from);
  for (let i = 0; i < values.length; i++) values[i] = (halves[2 * i]! >>> 0) + halves[2 * i + 1]! * 4_294_967_296;
  return values;
}

/** Decoded values of small dictionaries, cached as long as their pages are referenced. */
const cachedDictionaries = new WeakMap<CompressedPage, Float64Array>();

/** The largest dictionary that is cached, in bytes after decompression. */
export const cachedDictionaryBytesMax = 32_768;

function readDictionary(
  file: Uint8Array,
  dictionary: NonNullable<DataPage['dictionary']>,
  type: NumberType,
): Float64Array {
  const held = cachedDictionaries.get(dictionary);
  if (held !== undefined) return held;
  const values = decodePlainNumbers(decompressPage(file, dictionary), type, 0, dictionary.values);
  if (dictionary.uncompressedBytes <= cachedDictionaryBytesMax) cachedDictionaries.set(dictionary, values);
  return values;
}

/**
 * Reads rows `from` to `to` of a column.
 * @param pages all pages of the column, in order
 * @param decompress may return bytes that it has kept; they are not modified
 */
export function readColumnValues(
  file: Uint8Array,
  pages: readonly DataPage[],
  type: NumberType,
  from: number,
  to: number,
  decompress: DecompressPage = decompressPage,
): Float64Array {
  const out = new Float64Array(to - from);
  copyColumnRows(file, pages, type, [{ from, to, outAt: 0 }], out, decompress);
  return out;
}

/** Consecutive rows of a column, and the index in the output of the first of them. */
export interface RowRange {
  readonly from: number;
  readonly to: number;
  readonly outAt: number;
}

/**
 * Copies some rows of a column, and decodes each page once.
 * @param pages all pages of the column, in order
 * @param ranges sorted and disjoint
 */
export function copyColumnRows(
  file: Uint8Array,
  pages: readonly DataPage[],
  type: NumberType,
  ranges: readonly RowRange[],
  out: Float64Array,
  decompress: DecompressPage = decompressPage,
): void {
  let missing = ranges.reduce((rows, { from, to }) => rows + to - from, 0);
  let dictionary: PageDictionary | undefined;
  let next = 0;
  for (const page of pages) {
    const pageEnd = page.firstRow + page.rows;
    while (next < ranges.length && ranges[next]!.to <= page.firstRow) next++;
    let end = next;
    while (end < ranges.length && ranges[end]!.from < pageEnd) end++;
    if (next === end) continue;
    const [first, last] = [ranges[next]!, ranges[end - 1]!];
    const from = Math.max(first.from, page.firstRow);
    const to = Math.min(last.to, pageEnd);
    if (from >= to) continue;
    if (page.dictionary !== null && dictionary?.of !== page.dictionary)
      dictionary = { of: page.dictionary, values: readDictionary(file, page.dictionary, type) };
    const bytes = decompress(file, page);
    if (first === last) {
      decodePage(bytes, page, type, from, to, dictionary, out, first.outAt + from - first.from);
      missing -= to - from;
      continue;
    }
    if (pageValues.length < to - from) pageValues = new Float64Array(to - from);
    decodePage(bytes, page, type, from, to, dictionary, pageValues, 0);
    for (let r = next; r < end; r++) {
      const range = ranges[r]!;
      const [a, b] = [Math.max(range.from, from), Math.min(range.to, to)];
      out.set(pageValues.subarray(a - from, b - from), range.outAt + a - range.from);
      missing -= b - a;
    }
  }
  if (missing !== 0) throw new Error('pages are missing');
}

/** Reusable values of one page. */
let pageValues = new Float64Array(0);

interface PageDictionary {
  readonly of: CompressedPage;
  readonly values: Float64Array;
}

/** Decodes rows `from` to `to` of a file, at least one and all in the page, into `out` at `outAt`. */
function decodePage(
  bytes: Uint8Array,
  page: DataPage,
  type: NumberType,
  from: number,
  to: number,
  dictionary: PageDictionary | undefined,
  out: Float64Array,
  outAt: number,
): void {
  const [a, b] = [from - page.firstRow, to - page.firstRow];
  if (page.encoding === encodings.plain) out.set(decodePlainNumbers(bytes, type, a, b), outAt);
  else if (page.encoding === encodings.deltaBinaryPacked && type === 'int64') decodeDeltas(bytes, a, b, out, outAt);
  else if (page.dictionary !== null && dictionary !== undefined)
    decodeIndexedValues(bytes, a, b, dictionary.values, out, outAt);
  else throw new Error(`a page has the unknown encoding ${page.encoding}`);
}

// Bit-packed and variable-length numbers.

/**
 * Reads an unsigned integer of `width` bits, 0 to 50, that starts at bit `at`, least significant bit first. Bits past
 * the end are zero.
 */
function readBits(bytes: Uint8Array, at: number, width: number): number {
  if (width > 25) return readBits(bytes, at, 25) + readBits(bytes, at + 25, width - 25) * 2 ** 25;
  const i = at >>> 3;
  const word = bytes[i]! | (bytes[i + 1]! << 8) | (bytes[i + 2]! << 16) | (bytes[i + 3]! << 24);
  return (word >>> (at & 7)) & ((1 << width) - 1);
}

function readPackedBits(bytes: Uint8Array, from: number, to: number): Uint8Array {
  const out = new Uint8Array(to - from);
  for (let bit = from; bit < to; bit++) out[bit - from] = (bytes[bit >> 3]! >> (bit & 7)) & 1;
  return out;
}

/** A position in bytes, advanced by the readers below. */
interface ByteCursor {
  readonly bytes: Uint8Array;
  at: number;
}

function readVarint(cursor: ByteCursor): number {
  let value = 0;
  for (let scale = 1; scale <= Number.MAX_SAFE_INTEGER; scale *= 128) {
    const next = cursor.bytes[cursor.at++];
    if (next === undefined) throw new Error('a page is truncated');
    value += (next & 127) * scale;
    if (next < 128) return value;
  }
  throw new Error('a number in a page is too long');
}

function readZigzag(cursor: ByteCursor): number {
  const value = readVarint(cursor);
  return value % 2 === 0 ? value / 2 : -(value + 1) / 2;
}

/*
 * Dictionary indexes, stored as runs of equal indexes and of bit-packed indexes:
 * https://github.com/apache/parquet-format/blob/master/Encodings.md#RLE
 */

/**
 * Calls `visit` with the indexes of values `from` to `to` of a dictionary page. A stored run of equal indexes results
 * in one call.
 */
export function visitIndexes(
  bytes: Uint8Array,
  from: number,
  to: number,
  visit: (index: number, count: number) => void,
): void {
  visitRuns(bytes, readIndexWidth(bytes), from, to, (bit, width, count, packed) => {
    if (!packed) visit(readBits(bytes, bit, width), count);
    else for (let i = 0; i < count; i++) visit(readBits(bytes, bit + i * width, width), 1);
  });
}

/** Reads `count` values of one bit, as definition levels are stored. */
export function readLevels(bytes: Uint8Array, count: number): Uint8Array {
  const out = new Uint8Array(count);
  let at = 0;
  visitRuns(bytes, { width: 1, at: 0 }, 0, count, (bit, _, n, packed) => {
    if (packed) out.set(readPackedBits(bytes, bit, bit + n), at);
    else out.fill(bytes[bit >> 3]! & 1, at, at + n);
    at += n;
  });
  return out;
}

/** The width of indexes, in bits, with which their page begins. */
const readIndexWidth = (bytes: Uint8Array): RunStart => ({ width: bytes[0]!, at: 1 });

/** The width of values in bits, and the offset of their first run. */
interface RunStart {
  readonly width: number;
  readonly at: number;
}

/** Decodes values `from` to `to` of a dictionary page into `out` at `outAt`. */
function decodeIndexedValues(
  bytes: Uint8Array,
  from: number,
  to: number,
  values: Float64Array,
  out: Float64Array,
  outAt: number,
): void {
  let at = outAt;
  visitRuns(bytes, readIndexWidth(bytes), from, to, (bit, width, count, packed) => {
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
  if (index >= values.length) throw new Error('a page has an index outside its dictionary');
}

/** Decodes two-byte indexes, which our writer uses for repeated times. */
function decodeShortIndexes(
  bytes: Uint8Array,
  start: number,
  count: number,
  values: Float64Array,
  out: Float64Array,
  outAt: number,
): void {
  // Copied because they are not aligned.
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
  // Up to where four bytes can be read at once.
  const inlineCount =
    width > 0 && width <= 25 ? Math.max(0, Math.min(count, Math.floor(((bytes.length - 4) * 8 - start) / width))) : 0;
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  const decoded = decodeNarrowIndexes(view, start | 0, width, inlineCount | 0, values, out, outAt | 0);
  for (let i = decoded; i < count; i++) {
    const index = readBits(bytes, start + i * width, width);
    requireDictionaryIndex(index, values);
    out[outAt + i] = values[index]!;
  }
}

/** Takes most of the time of reading prices. Returns the number of indexes before the first one outside the dictionary. */
function decodeNarrowIndexes(
  view: DataView,
  start: number,
  width: number,
  count: number,
  values: Float64Array,
  out: Float64Array,
  outAt: number,
): number {
  const mask = (1 << width) - 1;
  const dictionarySize = values.length;
  let bit = start;
  for (let i = 0; i < count; i++, bit += width) {
    const index = (view.getInt32(bit >>> 3, true) >>> (bit & 7)) & mask;
    if (index >= dictionarySize) return i;
    out[outAt + i] = values[index]!;
  }
  return count;
}

/** Calls `visit` for the part of each run that lies within values `from` to `to`, with its first bit and its length. */
function visitRuns(
  bytes: Uint8Array,
  { width, at }: RunStart,
  from: number,
  to: number,
  visit: (bit: number, width: number, count: number, packed: boolean) => void,
): void {
  if (!(width <= 32)) throw new Error('a page has indexes of an invalid width');
  const cursor = { bytes, at };
  for (let row = 0; row < to; ) {
    const header = readVarint(cursor);
    const packed = header % 2 === 1;
    const count = packed ? ((header - 1) / 2) * 8 : header / 2;
    if (count === 0 && !packed) throw new Error('a page has an empty run');
    const first = Math.max(row, from);
    const visited = Math.min(row + count, to) - first;
    const bit = cursor.at * 8;
    cursor.at += packed ? (count / 8) * width : (width + 7) >> 3;
    // Checked before the values are used.
    if (cursor.at > bytes.length) throw new Error('a page is truncated');
    if (visited > 0) visit(packed ? bit + (first - row) * width : bit, width, visited, packed);
    row += count;
  }
}
