/*
 * Values as Parquet's pages hold them before they are compressed, of the encodings that our writer uses:
 * https://github.com/apache/parquet-format/blob/master/Encodings.md
 */

/** Bytes that are filled from their start, and kept from page to page. */
export interface Scratch {
  readonly bytes: Uint8Array;
  readonly view: DataView;
}

let scratch: Scratch = scratchOf(0);

function scratchOf(size: number): Scratch {
  const bytes = new Uint8Array(size);
  return { bytes, view: new DataView(bytes.buffer) };
}

/** A scratch of at least `size` bytes; what was in the last one is gone. */
function room(size: number): Scratch {
  if (scratch.bytes.length < size) scratch = scratchOf(2 * size);
  return scratch;
}

/** What a varint of a number up to 2^53 takes at most. */
const varintMax = 8;

function putVarint(bytes: Uint8Array, at: number, value: number): number {
  let place = at;
  let rest = value;
  for (; rest >= 128; rest = Math.floor(rest / 128)) bytes[place++] = (rest % 128) | 128;
  bytes[place++] = rest;
  return place;
}

function varintSize(value: number): number {
  let size = 1;
  for (let rest = value; rest >= 128; rest = Math.floor(rest / 128)) size++;
  return size;
}

const zigzag = (value: number): number => (value < 0 ? -2 * value - 1 : 2 * value);

/** How a column's values are stored where they are stored plainly. */
export type Physical = 'int32' | 'int64' | 'double';

/** PLAIN: values one after another, little endian. Integers are whole numbers below 2^53. */
export function plainPage(values: Float64Array, physical: Physical): Uint8Array {
  const size = values.length * (physical === 'int32' ? 4 : 8);
  const { bytes, view } = room(size);
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

/** PLAIN of byte arrays: each after its length of four bytes. */
export function textsPage(texts: readonly Uint8Array[]): Uint8Array {
  const size = texts.reduce((sum, text) => sum + 4 + text.length, 0);
  const { bytes, view } = room(size);
  let at = 0;
  for (const text of texts) {
    view.setInt32(at, text.length, true);
    bytes.set(text, at + 4);
    at += 4 + text.length;
  }
  return bytes.subarray(0, size);
}

/** PLAIN of truths: a bit each, lowest first. */
export function bitsPage(values: readonly boolean[]): Uint8Array {
  const bytes = new Uint8Array(Math.ceil(values.length / 8));
  values.forEach((value, i) => {
    if (value) bytes[i >> 3]! |= 1 << (i & 7);
  });
  return bytes;
}

/**
 * The definition levels of a page, RLE after their length in bytes: one packed run of bits, set where a value is there.
 */
export function levelsOf(present: readonly boolean[]): Uint8Array {
  const bits = bitsPage(present);
  const levels = new Uint8Array(4 + varintSize(bits.length * 2 + 1) + bits.length);
  new DataView(levels.buffer).setUint32(0, levels.length - 4, true);
  levels.set(bits, putVarint(levels, 4, bits.length * 2 + 1));
  return levels;
}

/** The bits that tell `values` things apart. */
export const widthOf = (values: number): number => Math.max(1, 32 - Math.clz32(values - 1));

/** Rows that are packed together. */
const packedRows = 8;
/** Equal rows that are stored once; fewer of them zstd makes smaller than their ends are. */
const runRowsMin = 64;

/**
 * RLE_DICTIONARY: indexes of `width` bits, 1 to 16, packed, and runs of equal ones. Either has a multiple of eight rows, so
 * that a reader that takes many rows at a time never begins amid a byte.
 */
export function indexPage(indexes: Uint16Array, width: number): Uint8Array {
  const rows = indexes.length;
  const groups = Math.ceil(rows / packedRows);
  const { bytes } = room(1 + 2 * varintMax + groups * (width + varintMax));
  bytes[0] = width;
  let at = 1;
  /** Rows from here on are still to be packed. */
  let packed = 0;
  const packUpTo = (to: number): void => {
    if (to === packed) return;
    at = putVarint(bytes, at, Math.ceil((to - packed) / packedRows) * 2 + 1);
    at = packIndexes(indexes, packed, to, width, bytes, at);
  };
  for (let row = 0; row + packedRows <= rows; ) {
    const end = endOfRun(indexes, row);
    if (end - row >= runRowsMin) {
      packUpTo(row);
      at = putVarint(bytes, at, (end - row) * 2);
      for (let bit = 0; bit < width; bit += 8) bytes[at++] = indexes[row]! >>> bit;
      packed = end;
    }
    row = Math.max(end, row + packedRows);
  }
  packUpTo(rows);
  return bytes.subarray(0, at);
}

/** Up to where rows are all as `row` is, in whole groups; `row` itself where its own group is not. */
function endOfRun(indexes: Uint16Array, row: number): number {
  const index = indexes[row]!;
  // The last of a group is the likeliest to differ.
  let end = row;
  while (end + packedRows <= indexes.length && indexes[end + packedRows - 1] === index) {
    for (let i = end; i < end + packedRows - 1; i++) if (indexes[i] !== index) return end;
    end += packedRows;
  }
  return end;
}

/** Packs rows `from` to `to`, filled up with zeros to a whole group; gives the place after them. */
function packIndexes(
  indexes: Uint16Array,
  from: number,
  to: number,
  width: number,
  bytes: Uint8Array,
  start: number,
): number {
  const end = start + Math.ceil((to - from) / packedRows) * width;
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

/** RLE_DICTIONARY as runs of equal indexes of `width` bits; run i has counts[i] rows. */
export function runsPage(indexes: readonly number[], counts: readonly number[], width: number): Uint8Array {
  const { bytes } = room(1 + indexes.length * (varintMax + 4));
  bytes[0] = width;
  let at = 1;
  indexes.forEach((index, i) => {
    at = putVarint(bytes, at, counts[i]! * 2);
    for (let bit = 0; bit < width; bit += 8) bytes[at++] = index >>> bit;
  });
  return bytes.subarray(0, at);
}

/** Blocks of differences, the least that the format allows: a jump from one symbol to the next makes one of them wide. */
const blockValues = 128;
const miniblocks = 4;
const miniValues = blockValues / miniblocks;

/** Differences above this may not be exact. */
export const spanMax = 2 ** 48;

const deltas = new Float64Array(blockValues);
/** What deltas are above the least of their block, where that takes less than 32 bits. */
const overs = new Int32Array(blockValues);

/** DELTA_BINARY_PACKED: whole numbers by their differences; the greatest and the least are at most `spanMax` apart. */
export function deltaPage(values: Float64Array): Uint8Array {
  const length = values.length;
  const blocks = Math.ceil(length / blockValues);
  const { bytes, view } = room(4 * varintMax + blocks * (varintMax + miniblocks + 8 * blockValues));
  let at = putVarint(bytes, 0, blockValues);
  at = putVarint(bytes, at, miniblocks);
  at = putVarint(bytes, at, length);
  // A page whose rows are all null has no value.
  let value = values[0] ?? 0;
  at = putVarint(bytes, at, zigzag(value));
  for (let row = 1; row < length; row += blockValues) {
    const count = Math.min(blockValues, length - row);
    let least = Number.POSITIVE_INFINITY;
    let most = Number.NEGATIVE_INFINITY;
    for (let i = 0; i < count; i++) {
      const next = values[row + i]!;
      const delta = next - value;
      value = next;
      deltas[i] = delta;
      if (delta < least) least = delta;
      if (delta > most) most = delta;
    }
    // What fills the last miniblock up is of no width.
    deltas.fill(least, count);
    at = putVarint(bytes, at, zigzag(least));
    const widths = at;
    at += miniblocks;
    for (let mini = 0; mini < miniblocks; mini++) {
      const from = mini * miniValues;
      const width = most - least < 2 ** 31 ? narrowWidth(from, least) : wideWidth(from, least);
      bytes[widths + mini] = width;
      // Miniblocks that hold no value are left out.
      if (from < count && width > 0) at = width < 32 ? pack(view, at, from, width) : packWide(view, at, from, width);
    }
  }
  return bytes.subarray(0, at);
}

/** Takes `least` off a miniblock's differences, and gives the bits that the greatest then takes, up to 31. */
function narrowWidth(from: number, least: number): number {
  let all = 0;
  for (let i = from; i < from + miniValues; i++) {
    const over = (deltas[i]! - least) | 0;
    overs[i] = over;
    all |= over;
  }
  return 32 - Math.clz32(all);
}

/** The same where it may take more. */
function wideWidth(from: number, least: number): number {
  let most = 0;
  for (let i = from; i < from + miniValues; i++) {
    deltas[i]! -= least;
    overs[i] = deltas[i]!;
    most = Math.max(most, deltas[i]!);
  }
  return most < 2 ** 32 ? 32 - Math.clz32(most) : 64 - Math.clz32(Math.floor(most / 2 ** 32));
}

/** Packs a miniblock's differences of `width` bits, 1 to 31, lowest first; gives the place after them. */
function pack(view: DataView, start: number, from: number, width: number): number {
  let at = start;
  let word = 0;
  let filled = 0;
  for (let i = from; i < from + miniValues; i++) {
    const value = overs[i]!;
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
function packWide(view: DataView, start: number, from: number, width: number): number {
  let at = start;
  let word = 0;
  let filled = 0;
  for (let i = from; i < from + miniValues; i++) {
    let rest = deltas[i]!;
    for (let left = width; left > 0; ) {
      const bits = Math.min(left, 8 - filled);
      word |= (rest % 2 ** bits) << filled;
      rest = Math.floor(rest / 2 ** bits);
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
