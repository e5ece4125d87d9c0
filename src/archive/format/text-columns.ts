/**
 * Texts as UTF-8 bytes, one text after another, so that no string exists for a row until it is needed. An unpaired surrogate is
 * U+FFFD, as in files.
 */
export interface TextColumn {
  readonly bytes: Uint8Array;
  /** Where the bytes of each text start. */
  readonly starts: Uint32Array;
  /** The number of bytes of each text; -1 for null, which has none. */
  readonly lengths: Int32Array;
}

const nullLength = -1;

/** Most text columns have no text. Those of up to this many rows share their arrays. */
const sharedNulls = 1 << 19;
const noBytes = new Uint8Array(0);
let shared: TextColumn | undefined;

export function createNullTexts(rows: number): TextColumn {
  const create = (count: number): TextColumn => ({
    bytes: noBytes,
    starts: new Uint32Array(count),
    lengths: new Int32Array(count).fill(nullLength),
  });
  if (rows > sharedNulls) return create(rows);
  shared ??= create(sharedNulls);
  return sliceTexts(shared, 0, rows);
}

/** Whether a column is known to be of nulls. False proves nothing. */
const isNullColumn = ({ bytes, lengths }: TextColumn): boolean =>
  bytes === noBytes && lengths.buffer === shared?.lengths.buffer;

/** Encodes texts, all together if they are ASCII, which takes a fifth of the time. */
export function encodeTexts(texts: readonly (string | null)[]): TextColumn {
  const lengths = new Int32Array(texts.length);
  let units = 0;
  let nulls = 0;
  for (let i = 0; i < texts.length; i++) {
    const length = texts[i]?.length ?? nullLength;
    lengths[i] = length;
    if (length === nullLength) nulls++;
    else units += length;
  }
  if (nulls === texts.length) return createNullTexts(nulls);
  // Array.join writes null as nothing.
  const bytes = Buffer.from(texts.join(''), 'utf8');
  // As many bytes as code units: all are ASCII.
  if (bytes.length === units) return toTextColumn(bytes, lengths);
  const encoded = texts.map((text) => Buffer.from(text ?? '', 'utf8'));
  for (let i = 0; i < texts.length; i++) if (texts[i] !== null) lengths[i] = encoded[i]!.length;
  return toTextColumn(Buffer.concat(encoded), lengths);
}

/** The column of texts with these lengths, whose bytes are `bytes`. */
export function toTextColumn(bytes: Uint8Array, lengths: Int32Array): TextColumn {
  const starts = new Uint32Array(lengths.length);
  let at = 0;
  for (let i = 0; i < lengths.length; i++) {
    starts[i] = at;
    at += Math.max(0, lengths[i]!);
  }
  return { bytes, starts, lengths };
}

export function readText({ bytes, starts, lengths }: TextColumn, row: number): string | null {
  const length = lengths[row]!;
  return length === nullLength
    ? null
    : Buffer.from(bytes.buffer, bytes.byteOffset + starts[row]!, length).toString('utf8');
}

/** Rows `from` to `to` as a view. */
export const sliceTexts = ({ bytes, starts, lengths }: TextColumn, from: number, to: number): TextColumn => ({
  bytes,
  starts: starts.subarray(from, to),
  lengths: lengths.subarray(from, to),
});

export function viewTextBytes({ bytes, starts, lengths }: TextColumn): Uint8Array {
  const last = starts.length - 1;
  return last < 0 ? bytes.subarray(0, 0) : bytes.subarray(starts[0]!, starts[last]! + Math.max(0, lengths[last]!));
}

export function concatTexts(columns: readonly TextColumn[]): TextColumn {
  const rows = columns.reduce((sum, column) => sum + column.lengths.length, 0);
  if (columns.every(isNullColumn)) return createNullTexts(rows);
  const views = columns.map(viewTextBytes);
  const lengths = new Int32Array(rows);
  let row = 0;
  for (const column of columns) {
    lengths.set(column.lengths, row);
    row += column.lengths.length;
  }
  return toTextColumn(Buffer.concat(views), lengths);
}

/** Copies rows `from` to `to`, so that the others can be released. */
export const copyTexts = (column: TextColumn, from: number, to: number): TextColumn =>
  concatTexts([sliceTexts(column, from, to)]);

/** Fewer bytes are copied in a loop, which is faster than a view. */
const viewBytesMin = 64;

/** The texts of these rows, in this order. */
export function pickTexts(column: TextColumn, rows: ArrayLike<number>): TextColumn {
  if (isNullColumn(column)) return createNullTexts(rows.length);
  const { bytes, starts, lengths } = column;
  const picked = new Int32Array(rows.length);
  let size = 0;
  for (let i = 0; i < rows.length; i++) {
    picked[i] = lengths[rows[i]!]!;
    size += Math.max(0, picked[i]!);
  }
  const out = new Uint8Array(size);
  let at = 0;
  for (let i = 0; i < rows.length && at < size; ) {
    const from = starts[rows[i]!]!;
    let to = from + Math.max(0, picked[i]!);
    // Rows that stay in their order are copied together.
    for (i++; i < rows.length && rows[i] === rows[i - 1]! + 1; i++) to += Math.max(0, picked[i]!);
    if (to - from >= viewBytesMin) {
      out.set(bytes.subarray(from, to), at);
      at += to - from;
    } else for (let b = from; b < to; b++) out[at++] = bytes[b]!;
  }
  return toTextColumn(out, picked);
}

/** The texts that are not null, of which there are `count`. */
export function dropNullTexts(column: TextColumn, count: number): TextColumn {
  if (count === column.lengths.length) return column;
  const lengths = new Int32Array(count);
  let at = 0;
  for (let i = 0; at < count; i++) if (column.lengths[i] !== nullLength) lengths[at++] = column.lengths[i]!;
  return toTextColumn(viewTextBytes(column), lengths);
}

export const isNullText = ({ lengths }: TextColumn, row: number): boolean => lengths[row] === nullLength;

/** Orders the texts of two rows by their bytes. Null is less than any text. */
export function compareTexts({ bytes, starts, lengths }: TextColumn, a: number, b: number): number {
  const startA = starts[a]!;
  const startB = starts[b]!;
  const lengthA = lengths[a]!;
  const lengthB = lengths[b]!;
  const length = Math.min(lengthA, lengthB);
  for (let i = 0; i < length; i++) {
    const order = bytes[startA + i]! - bytes[startB + i]!;
    if (order !== 0) return order;
  }
  return lengthA - lengthB;
}

/** The least and the greatest text by `compareTexts`, as copies of their bytes. None if there are no rows. */
export function findTextBounds(column: TextColumn): Uint8Array[] {
  const { bytes, starts, lengths } = column;
  if (lengths.length === 0) return [];
  let min = 0;
  let max = 0;
  for (let i = 1; i < lengths.length; i++) {
    if (compareTexts(column, i, min) < 0) min = i;
    if (compareTexts(column, i, max) > 0) max = i;
  }
  return [min, max].map((i) => Uint8Array.from(bytes.subarray(starts[i]!, starts[i]! + lengths[i]!)));
}

/** Equal texts have one number. */
interface NumberedTexts {
  /** The number of each row, in the order of first appearance from 0. */
  readonly numbers: Uint32Array;
  /** The first row of each number, as an index of `rows`. */
  readonly firsts: readonly number[];
}

/** A hash table that is reused: allocating one would take most of a call. Larger ones are not kept. */
const keptSlots = new Int32Array(1 << 18);

/** Numbers the texts of the rows with these indexes. Undefined if there are more than `max` different ones. */
export function numberTexts(
  { bytes, starts, lengths }: TextColumn,
  rows: ArrayLike<number>,
  max = rows.length,
): NumberedTexts | undefined {
  const distinctMax = Math.min(rows.length, Math.floor(max));
  let size = 16;
  // At most half full.
  while (size < 2 * distinctMax) size *= 2;
  const slots = size <= keptSlots.length ? keptSlots.fill(0, 0, size) : new Int32Array(size);
  const mask = size - 1;
  const numbers = new Uint32Array(rows.length);
  const firsts: number[] = [];
  for (let i = 0; i < rows.length; i++) {
    const row = rows[i]!;
    const start = starts[row]!;
    const length = lengths[row]!;
    // FNV-1a, with the finalizer of MurmurHash3: http://www.isthe.com/chongo/tech/comp/fnv/
    let hash = length ^ 0x811c9dc5;
    for (let b = start; b < start + length; b++) hash = Math.imul(hash ^ bytes[b]!, 0x01000193);
    hash = Math.imul(hash ^ (hash >>> 16), 0x85ebca6b);
    hash ^= hash >>> 13;
    let slot = hash & mask;
    let number = slots[slot]! - 1;
    while (number >= 0 && !isEqual(rows[firsts[number]!]!, start, length)) {
      slot = (slot + 1) & mask;
      number = slots[slot]! - 1;
    }
    if (number < 0) {
      if (firsts.length === distinctMax) return undefined;
      number = firsts.push(i) - 1;
      slots[slot] = number + 1;
    }
    numbers[i] = number;
  }
  return { numbers, firsts };

  function isEqual(other: number, start: number, length: number): boolean {
    if (lengths[other] !== length) return false;
    const from = starts[other]!;
    for (let i = 0; i < length; i++) if (bytes[from + i] !== bytes[start + i]) return false;
    return true;
  }
}
