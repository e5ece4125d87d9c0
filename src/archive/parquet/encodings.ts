import { sliceTexts, type TextColumn, viewTextBytes } from '../format/text-columns.ts';

/*
 * Page values before compression, in the encodings that our writer uses:
 * https://github.com/apache/parquet-format/blob/master/Encodings.md
 */

/** An output buffer that is reused from page to page. */
interface OutputBuffer {
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

let outputBuffer: OutputBuffer = createOutputBuffer(0);

function createOutputBuffer(size: number): OutputBuffer {
  const bytes = new Uint8Array(size);
  return { bytes, view: new DataView(bytes.buffer) };
}

/** Returns a buffer of at least `size` bytes. The contents of the previous one are overwritten. */
function reserveOutput(size: number): OutputBuffer {
  if (outputBuffer.bytes.length < size) outputBuffer = createOutputBuffer(2 * size);
  return outputBuffer;
}

/** The longest varint of a number up to 2^53, in bytes. */
const varintBytesMax = 8;

function writeVarint(bytes: Uint8Array, at: number, value: number): number {
  let position = at;
  let remaining = value;
  for (; remaining >= 128; remaining = Math.floor(remaining / 128)) bytes[position++] = (remaining % 128) | 128;
  bytes[position++] = remaining;
  return position;
}

function countVarintBytes(value: number): number {
  let size = 1;
  for (let remaining = value; remaining >= 128; remaining = Math.floor(remaining / 128)) size++;
  return size;
}

const encodeZigzag = (value: number): number => (value < 0 ? -2 * value - 1 : 2 * value);

/** Physical types of number columns. */
export type PhysicalNumberType = 'int32' | 'int64' | 'double';

/** PLAIN: values in sequence, little endian. Integers are below 2^53. */
export function encodePlainNumbers(values: Float64Array, physical: PhysicalNumberType): Uint8Array {
  const size = values.length * (physical === 'int32' ? 4 : 8);
  const { bytes, view } = reserveOutput(size);
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    if (physical === 'double') view.setFloat64(8 * i, value, true);
    else if (physical === 'int32') view.setInt32(4 * i, value, true);
    else {
      const high = Math.floor(value / 4_294_967_296);
      view.setInt32(8 * i, value - high * 4_294_967_296, true);
      view.setInt32(8 * i + 4, high, true);
    }
  }
  return bytes.subarray(0, size);
}

/** PLAIN byte arrays: each is preceded by its length in four bytes. */
export function encodePlainByteArrays(texts: readonly Uint8Array[]): Uint8Array {
  const size = texts.reduce((sum, text) => sum + 4 + text.length, 0);
  const { bytes, view } = reserveOutput(size);
  let at = 0;
  for (const text of texts) {
    view.setInt32(at, text.length, true);
    bytes.set(text, at + 4);
    at += 4 + text.length;
  }
  return bytes.subarray(0, size);
}

/** The same from the texts `from` to `to` of a column without nulls. */
export function encodePlainTexts({ bytes: source, starts, lengths }: TextColumn, from: number, to: number): Uint8Array {
  const size = viewTextBytes(sliceTexts({ bytes: source, starts, lengths }, from, to)).length + 4 * (to - from);
  const { bytes, view } = reserveOutput(size);
  let at = 0;
  for (let i = from; i < to; i++) {
    const start = starts[i]!;
    const end = start + lengths[i]!;
    view.setInt32(at, end - start, true);
    at += 4;
    // Most texts are short: a loop is faster than a view.
    for (let b = start; b < end; b++) bytes[at++] = source[b]!;
  }
  return bytes.subarray(0, size);
}

/** PLAIN booleans: one bit each, least significant bit first. */
export function encodePlainBooleans(values: readonly boolean[]): Uint8Array {
  const bytes = new Uint8Array(Math.ceil(values.length / 8));
  values.forEach((value, i) => {
    if (value) bytes[i >> 3]! |= 1 << (i & 7);
  });
  return bytes;
}

/**
 * Definition levels of a page: RLE preceded by its length in bytes. One bit-packed run; a bit is set if the value is
 * not null, least significant bit first.
 */
export function encodeDefinitionBits(bits: Uint8Array): Uint8Array {
  const levels = new Uint8Array(4 + countVarintBytes(bits.length * 2 + 1) + bits.length);
  new DataView(levels.buffer).setUint32(0, levels.length - 4, true);
  levels.set(bits, writeVarint(levels, 4, bits.length * 2 + 1));
  return levels;
}

/** The number of bits needed to index `values` values. */
export const computeBitWidth = (values: number): number => Math.max(1, 32 - Math.clz32(values - 1));

const bitPackGroupRows = 8;
/**
 * The shortest sequence of equal rows that is stored as a run. zstd compresses shorter runs better than extra run
 * headers.
 */
const runRowsMin = 64;

/**
 * RLE_DICTIONARY: indexes of `width` bits, 1 to 16, bit-packed or as runs of equal indexes. Every run has a multiple of
 * eight rows, so that batch readers never start inside a byte.
 */
export function encodeIndexPage(indexes: Uint16Array, width: number): Uint8Array {
  const rows = indexes.length;
  const groups = Math.ceil(rows / bitPackGroupRows);
  const { bytes } = reserveOutput(1 + 2 * varintBytesMax + groups * (width + varintBytesMax));
  bytes[0] = width;
  let at = 1;
  /** Rows from here on are not packed yet. */
  let packed = 0;
  const packUpTo = (to: number): void => {
    if (to === packed) return;
    at = writeVarint(bytes, at, Math.ceil((to - packed) / bitPackGroupRows) * 2 + 1);
    at = packIndexes(indexes, packed, to, width, bytes, at);
  };
  for (let row = 0; row + bitPackGroupRows <= rows; ) {
    const end = findRunEnd(indexes, row);
    if (end - row >= runRowsMin) {
      packUpTo(row);
      at = writeVarint(bytes, at, (end - row) * 2);
      for (let bit = 0; bit < width; bit += 8) bytes[at++] = indexes[row]! >>> bit;
      packed = end;
    }
    row = Math.max(end, row + bitPackGroupRows);
  }
  packUpTo(rows);
  return bytes.subarray(0, at);
}

/** Finds the end of the rows equal to `row`, in whole groups; `row` itself if its own group is not uniform. */
function findRunEnd(indexes: Uint16Array, row: number): number {
  const index = indexes[row]!;
  // The last row of a group is checked first, because it is the most likely to differ.
  let end = row;
  while (end + bitPackGroupRows <= indexes.length && indexes[end + bitPackGroupRows - 1] === index) {
    for (let i = end; i < end + bitPackGroupRows - 1; i++) if (indexes[i] !== index) return end;
    end += bitPackGroupRows;
  }
  return end;
}

/** Packs rows `from` to `to`, padded with zeros to a whole group. Returns the offset after them. */
function packIndexes(
  indexes: Uint16Array,
  from: number,
  to: number,
  width: number,
  bytes: Uint8Array,
  start: number,
): number {
  const end = start + Math.ceil((to - from) / bitPackGroupRows) * width;
  let at = start;
  let word = 0;
  let filled = 0;
  for (let i = from; i < to; i++) {
    word |= indexes[i]! << filled;
    for (filled += width; filled >= 8; filled -= 8) {
      bytes[at++] = word;
      word >>>= 8;
    }
  }
  if (filled > 0) bytes[at++] = word;
  bytes.fill(0, at, end);
  return end;
}

/** RLE_DICTIONARY as runs of equal indexes of `width` bits. Run i has counts[i] rows. */
export function encodeIndexRuns(indexes: readonly number[], counts: readonly number[], width: number): Uint8Array {
  const { bytes } = reserveOutput(1 + indexes.length * (varintBytesMax + 4));
  bytes[0] = width;
  let at = 1;
  indexes.forEach((index, i) => {
    at = writeVarint(bytes, at, counts[i]! * 2);
    for (let bit = 0; bit < width; bit += 8) bytes[at++] = index >>> bit;
  });
  return bytes.subarray(0, at);
}

/** The smallest block that the format allows. A jump from one symbol to the next widens only one block. */
const blockValues = 128;
const miniblocksPerBlock = 4;
const miniblockValues = blockValues / miniblocksPerBlock;

/** Larger deltas may not be exact. */
export const deltaSpanMax = 2 ** 48;

const deltas = new Float64Array(blockValues);
/** Deltas minus the minimum of their block, if they fit in 32 bits. */
const relativeDeltas = new Int32Array(blockValues);

/** DELTA_BINARY_PACKED: integers as deltas. The maximum and the minimum differ by at most `deltaSpanMax`. */
export function encodeDeltaPage(values: Float64Array): Uint8Array {
  const length = values.length;
  const blocks = Math.ceil(length / blockValues);
  const { bytes, view } = reserveOutput(
    4 * varintBytesMax + blocks * (varintBytesMax + miniblocksPerBlock + 8 * blockValues),
  );
  let at = writeVarint(bytes, 0, blockValues);
  at = writeVarint(bytes, at, miniblocksPerBlock);
  at = writeVarint(bytes, at, length);
  // A page of nulls has no value.
  let value = values[0] ?? 0;
  at = writeVarint(bytes, at, encodeZigzag(value));
  for (let row = 1; row < length; row += blockValues) {
    const count = Math.min(blockValues, length - row);
    let min = Number.POSITIVE_INFINITY;
    let max = Number.NEGATIVE_INFINITY;
    for (let i = 0; i < count; i++) {
      const next = values[row + i]!;
      const delta = next - value;
      value = next;
      deltas[i] = delta;
      if (delta < min) min = delta;
      if (delta > max) max = delta;
    }
    // Padding with the minimum does not widen the last miniblock.
    deltas.fill(min, count);
    at = writeVarint(bytes, at, encodeZigzag(min));
    const widths = at;
    at += miniblocksPerBlock;
    for (let mini = 0; mini < miniblocksPerBlock; mini++) {
      const from = mini * miniblockValues;
      const width = max - min < 2 ** 31 ? computeNarrowWidth(from, min) : computeWideWidth(from, min);
      bytes[widths + mini] = width;
      // Miniblocks without values are omitted.
      if (from < count && width > 0)
        at = width < 32 ? packMiniblock(view, at, from, width) : packWideMiniblock(view, at, from, width);
    }
  }
  return bytes.subarray(0, at);
}

/**
 * Subtracts `min` from the deltas of a miniblock and returns the number of bits that the largest result needs, up to
 * 31.
 */
function computeNarrowWidth(from: number, min: number): number {
  let all = 0;
  for (let i = from; i < from + miniblockValues; i++) {
    const relative = (deltas[i]! - min) | 0;
    relativeDeltas[i] = relative;
    all |= relative;
  }
  return 32 - Math.clz32(all);
}

/** The same for results of more than 31 bits. */
function computeWideWidth(from: number, min: number): number {
  let max = 0;
  for (let i = from; i < from + miniblockValues; i++) {
    deltas[i]! -= min;
    relativeDeltas[i] = deltas[i]!;
    max = Math.max(max, deltas[i]!);
  }
  return max < 2 ** 32 ? 32 - Math.clz32(max) : 64 - Math.clz32(Math.floor(max / 2 ** 32));
}

/**
 * Packs the deltas of a miniblock into `width` bits each, 1 to 31, least significant bit first. Returns the offset
 * after them.
 */
function packMiniblock(view: DataView, start: number, from: number, width: number): number {
  let at = start;
  let word = 0;
  let filled = 0;
  for (let i = from; i < from + miniblockValues; i++) {
    const value = relativeDeltas[i]!;
    word |= value << filled;
    filled += width;
    if (filled >= 32) {
      view.setInt32(at, word, true);
      at += 4;
      filled -= 32;
      word = filled === 0 ? 0 : value >>> (width - filled);
    }
  }
  return at;
}

/** The same for 32 bits and more. */
function packWideMiniblock(view: DataView, start: number, from: number, width: number): number {
  let at = start;
  let word = 0;
  let filled = 0;
  for (let i = from; i < from + miniblockValues; i++) {
    let remaining = deltas[i]!;
    for (let left = width; left > 0; ) {
      const bits = Math.min(left, 8 - filled);
      word |= (remaining % 2 ** bits) << filled;
      remaining = Math.floor(remaining / 2 ** bits);
      left -= bits;
      filled += bits;
      if (filled < 8) continue;
      view.setUint8(at++, word);
      word = 0;
      filled = 0;
    }
  }
  return at;
}

/** The distinct values of a column in order of first appearance, and the index of each row's value. */
export interface Dictionary {
  readonly values: Float64Array;
  readonly indexes: Uint16Array;
}

/** The most values that 16-bit indexes can address. */
export const dictionaryValuesMax = 65_536;

/** Initial hash table size, enough for the prices of most parts. The table grows fourfold when half full. */
const slotsMin = 4096;

// Reused between calls and grown to the largest row group, since allocating them would take most of a call.
let slots = new Int32Array(slotsMin);
let slotValues = new Float64Array(slotsMin / 2);
let indexes = new Uint16Array(0);

/**
 * Builds the dictionary of some rows, comparing values by their bits. Returns undefined if there are more than `max`
 * distinct values; `max` is at most `dictionaryValuesMax`. The result is valid until the next call.
 */
export function buildDictionary(values: Float64Array, max: number): Dictionary | undefined {
  const rows = values.length;
  if (indexes.length < rows) indexes = new Uint16Array(rows);
  const bits = new Int32Array(values.buffer, values.byteOffset, 2 * rows);
  const out = indexes;
  let table = slots;
  let takenBits = new Int32Array(slotValues.buffer);
  let mask = slotsMin - 1;
  table.fill(0, 0, mask + 1);
  let count = 0;
  // Rows are not compared with the previous row: that branch would be unpredictable and cost more than it saves.
  for (let row = 0; row < rows; row++) {
    const low = bits[2 * row]!;
    const high = bits[2 * row + 1]!;
    let slot = hashToSlot(low, high, mask);
    let index = table[slot]! - 1;
    while (index >= 0 && (takenBits[2 * index] !== low || takenBits[2 * index + 1] !== high)) {
      slot = (slot + 1) & mask;
      index = table[slot]! - 1;
    }
    if (index < 0) {
      if (count === max) return undefined;
      index = count++;
      takenBits[2 * index] = low;
      takenBits[2 * index + 1] = high;
      table[slot] = count;
      if (2 * count > mask) {
        mask = 4 * (mask + 1) - 1;
        growTable(count, mask);
        table = slots;
        takenBits = new Int32Array(slotValues.buffer);
      }
    }
    out[row] = index;
  }
  return { values: slotValues.subarray(0, count), indexes: out.subarray(0, rows) };
}

/** The first slot to probe: the halves of the bits, mixed as in the finalizer of MurmurHash3. */
function hashToSlot(low: number, high: number, mask: number): number {
  let hash = Math.imul(low ^ Math.imul(high, 0x85ebca6b), 0xc2b2ae35);
  hash ^= hash >>> 15;
  return (Math.imul(hash, 0x27d4eb2f) >>> 12) & mask;
}

/** Rehashes the first `count` values into a table of `mask` + 1 slots. */
function growTable(count: number, mask: number): void {
  if (slots.length <= mask) {
    slots = new Int32Array(mask + 1);
    const grown = new Float64Array((mask + 1) / 2);
    grown.set(slotValues);
    slotValues = grown;
  } else slots.fill(0, 0, mask + 1);
  const bits = new Int32Array(slotValues.buffer);
  for (let index = 0; index < count; index++) {
    let slot = hashToSlot(bits[2 * index]!, bits[2 * index + 1]!, mask);
    while (slots[slot] !== 0) slot = (slot + 1) & mask;
    slots[slot] = index + 1;
  }
}
