import type { DuckDBVarCharVector, DuckDBVector } from '@duckdb/node-api';

/** Internals of the library's vectors. Their public interface returns values one by one, which takes many times as long. */
interface VectorInternals {
  /** The numbers. */
  readonly items?: unknown;
  /**
   * A `duckdb_string_t` of 16 bytes for each text: its length in bytes and, if it has at most 12, the bytes; otherwise the
   * first four of them and their address.
   */
  readonly dataView?: unknown;
  /** One bit for each value, which is not set for NULL. `data` is null if there is no NULL. */
  readonly validity?: { readonly data?: unknown; readonly offset?: unknown };
  readonly vector?: unknown;
}

/** Reads the values of a vector of doubles or of integers of at most 32 bits; null for NULL. */
export function readNumberVector(vector: DuckDBVector): (number | null)[] {
  const count = vector.itemCount;
  const { items, validity } = vector as unknown as VectorInternals;
  const bits = validity?.offset === 0 ? viewBits(validity.data) : undefined;
  if (!ArrayBuffer.isView(items) || bits === undefined)
    return Array.from({ length: count }, (_, i) => vector.getItem(i) as number | null);
  const numbers = items as Float64Array | Uint8Array | Uint16Array | Uint32Array;
  const out = new Array<number | null>(count);
  for (let i = 0; i < count; i++) out[i] = isValid(bits, i) ? numbers[i]! : null;
  return out;
}

const isValid = (bits: Uint32Array | null, i: number): boolean =>
  bits === null || ((bits[i >> 5]! >>> (i & 31)) & 1) !== 0;

const wordsPerText = 4;
const bytesPerText = 16;
const inlineBytesMax = 12;

/** Maximum number of bytes that are decoded together. */
const runBytesMax = 1 << 16;

/**
 * Reads the texts of a vector; null for NULL. DuckDB stores longer texts one after another, so they are decoded in runs. Only
 * adjacent bytes are read together: each of them is a byte of a text of this vector. As long as a text is used, all texts of its
 * run stay in memory.
 */
export function readTextVector(vector: DuckDBVarCharVector): (string | null)[] {
  const count = vector.itemCount;
  const { dataView, validity, vector: raw } = vector as unknown as VectorInternals;
  const bits = validity?.offset === 0 ? viewBits(validity.data) : undefined;
  if (!(dataView instanceof DataView) || dataView.byteLength !== bytesPerText * count || bits === undefined)
    return Array.from({ length: count }, (_, i) => vector.getItem(i));
  const out = new Array<string | null>(count).fill(null);
  if (bits?.every((word) => word === 0)) return out;
  // A copy, because the length of the first text of a run is replaced.
  const copy = dataView.buffer.slice(dataView.byteOffset, dataView.byteOffset + dataView.byteLength) as ArrayBuffer;
  const words = new Uint32Array(copy);
  const bytes = Buffer.from(copy);
  const Vector = vector.constructor as new (
    view: DataView,
    validity: unknown,
    raw: unknown,
    offset: number,
    count: number,
  ) => DuckDBVarCharVector;
  const joined = new Vector(new DataView(copy), validity, raw, 0, count);
  /** The texts of the current run. */
  let run: number[] = [];
  let runBytes = 0;
  let runEnd = 0;
  const endRun = (): void => {
    const [first] = run;
    if (first === undefined) return;
    const firstLength = words[wordsPerText * first]!;
    words[wordsPerText * first] = runBytes;
    const text = joined.getItem(first)!;
    words[wordsPerText * first] = firstLength;
    // As many characters as bytes: they are ASCII. Others are decoded one by one.
    if (text.length !== runBytes) for (const i of run) out[i] = vector.getItem(i);
    else {
      let at = 0;
      for (const i of run) {
        const length = words[wordsPerText * i]!;
        out[i] = text.slice(at, at + length);
        at += length;
      }
    }
    run = [];
    runBytes = 0;
  };
  for (let i = 0; i < count; i++) {
    if (!isValid(bits, i)) continue;
    const at = wordsPerText * i;
    const length = words[at]!;
    if (length <= inlineBytesMax) out[i] = readInlineText(words, bytes, i) ?? vector.getItem(i);
    else {
      const address = words[at + 2]! + words[at + 3]! * 2 ** 32;
      if (address !== runEnd || runBytes + length > runBytesMax) endRun();
      run.push(i);
      runBytes += length;
      runEnd = address + length;
    }
  }
  endRun();
  return out;
}

/** The validity of a vector as 32-bit words; null if there is no NULL, undefined if it is not what is expected. */
function viewBits(data: unknown): Uint32Array | null | undefined {
  if (data === null) return null;
  return data instanceof BigUint64Array ? new Uint32Array(data.buffer, data.byteOffset, 2 * data.length) : undefined;
}

/** The latest short texts, by a hash of their bytes. Texts that are repeated are decoded once, and are one object. */
const recentMax = 1024;
const recentWords = new Uint32Array(recentMax * wordsPerText);
const recentTexts: string[] = new Array(recentMax).fill('');

/** Reads a text of at most 12 bytes; null if it is not ASCII. */
function readInlineText(words: Uint32Array, bytes: Buffer, i: number): string | null {
  const at = wordsPerText * i;
  const length = words[at]!;
  const a = words[at + 1]!;
  const b = words[at + 2]!;
  const c = words[at + 3]!;
  if (((a | b | c) & 0x80808080) !== 0) return null;
  const hash = Math.imul(Math.imul(Math.imul(a, 0x85ebca6b) ^ b, 0xc2b2ae35) ^ c ^ length, 0x27d4eb2f) >>> 22;
  const slot = wordsPerText * hash;
  const isRecent =
    recentWords[slot] === length &&
    recentWords[slot + 1] === a &&
    recentWords[slot + 2] === b &&
    recentWords[slot + 3] === c;
  if (isRecent) return recentTexts[hash]!;
  const from = bytesPerText * i + 4;
  const text = bytes.toString('latin1', from, from + length);
  recentWords[slot] = length;
  recentWords[slot + 1] = a;
  recentWords[slot + 2] = b;
  recentWords[slot + 3] = c;
  recentTexts[hash] = text;
  return text;
}
