import { constants, zstdCompressSync } from 'node:zlib';
import type { BySymbol } from './column-data.ts';
import { type Distinct, distinctMax, distinctOf } from './distinct-values.ts';
import { encodings, pageTypes } from './format.ts';
import { binary, bool, i32, i64, struct, type Written } from './thrift-write.ts';
import { deltaPage, indexPage, type Physical, plainPage, runsPage, spanMax, textsPage } from './value-bytes.ts';

/** A row group's values of one column as they stand in a file: its pages, with their headers, one after another. */
export interface Chunk {
  readonly pieces: readonly Uint8Array[];
  /** Bytes of the pieces, and of what they are once decompressed. */
  readonly size: number;
  readonly plainSize: number;
  /** Bytes of the dictionary page, which comes first; 0 where there is none. */
  readonly dictionarySize: number;
  readonly encodings: readonly number[];
  readonly statistics: Written;
}

/** Rows `from` to `to`. */
export type Rows = readonly [from: number, to: number];

/**
 * zstd's levels, by measuring: indexes of prices become 3 % smaller at level 3 than at 1 for the same time, and another
 * 7 % at level 6 for three times as much; differences are packed too tightly for any level to make much of them.
 */
const levels = { indexes: 3, deltas: 1, plain: 3 };

class ChunkBuilder {
  private readonly pieces: Uint8Array[] = [];
  private size = 0;
  private plainSize = 0;
  private dictionarySize = 0;
  private readonly used = new Set<number>([encodings.rle]);

  addDictionary(bytes: Uint8Array, values: number): this {
    this.used.add(encodings.plain);
    this.add(bytes, levels.plain, pageTypes.dictionary, {
      7: struct({ 1: i32(values), 2: i32(encodings.plain), 3: bool(false) }),
    });
    this.dictionarySize = this.size;
    return this;
  }

  addData(bytes: Uint8Array, level: number, rows: number, encoding: number): this {
    this.used.add(encoding);
    const header = struct({ 1: i32(rows), 2: i32(encoding), 3: i32(encodings.rle), 4: i32(encodings.rle) });
    return this.add(bytes, level, pageTypes.data, { 5: header });
  }

  private add(bytes: Uint8Array, level: number, type: number, header: Record<number, Written>): this {
    const packed = compress(bytes, level);
    const head = struct({ 1: i32(type), 2: i32(bytes.length), 3: i32(packed.length), ...header }).bytes;
    this.pieces.push(Uint8Array.from(head), packed);
    this.size += head.length + packed.length;
    this.plainSize += head.length + bytes.length;
    return this;
  }

  done(statistics: Written): Chunk {
    const { pieces, size, plainSize, dictionarySize } = this;
    return { pieces, size, plainSize, dictionarySize, encodings: [...this.used], statistics };
  }
}

function compress(bytes: Uint8Array, level: number): Uint8Array {
  // Room for what cannot be made smaller, so that it comes in one piece.
  const chunkSize = bytes.length + (bytes.length >> 8) + 64;
  return zstdCompressSync(bytes, { chunkSize, params: { [constants.ZSTD_c_compressionLevel]: level } });
}

/** Symbols by a dictionary and runs. */
export function symbolChunk({ symbols, offsets }: BySymbol, pages: readonly Rows[]): Chunk {
  const builder = new ChunkBuilder();
  const [from, to] = [pages[0]![0], pages.at(-1)![1]];
  const first = symbolAt(offsets, from);
  const last = symbolAt(offsets, to - 1);
  const texts = symbols.slice(first, last + 1).map((symbol) => Buffer.from(symbol, 'utf8'));
  builder.addDictionary(textsPage(texts), texts.length);
  let symbol = first;
  for (const [a, b] of pages) {
    const indexes: number[] = [];
    const counts: number[] = [];
    for (let row = a; row < b; row += counts.at(-1)!) {
      while (offsets[symbol + 1]! <= row) symbol++;
      indexes.push(symbol - first);
      counts.push(Math.min(b, offsets[symbol + 1]!) - row);
    }
    builder.addData(runsPage(indexes, counts, texts.length), levels.indexes, b - a, encodings.rleDictionary);
  }
  // They should be sorted, but a reader would take it for certain.
  const least = texts.reduce((a, b) => (Buffer.compare(a, b) <= 0 ? a : b));
  const most = texts.reduce((a, b) => (Buffer.compare(a, b) >= 0 ? a : b));
  return builder.done(statisticsOf(least, most));
}

/** The symbol that holds a row, by bisection. */
export function symbolAt(offsets: Float64Array, row: number): number {
  let low = 0;
  let high = offsets.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (offsets[middle]! <= row) low = middle;
    else high = middle - 1;
  }
  return low;
}

/**
 * Numbers by a dictionary where enough of them are the same. Times are stored as differences too, and what becomes smaller
 * is taken: polled at fixed moments the times of all symbols are the same, otherwise nearly all differ.
 */
export function numberChunk(values: Float64Array, physical: Physical, pages: readonly Rows[]): Chunk {
  const [from, to] = [pages[0]![0], pages.at(-1)![1]];
  const rows = values.subarray(from, to);
  const { least, most } = boundsOf(rows);
  const deltas = physical === 'int64' && most - least <= spanMax && Math.max(most, -least) <= spanMax;
  const distinct = distinctOf(rows, Math.min(distinctMax, Math.ceil(rows.length / (deltas ? 4 : 2))));
  const statistics = least > most ? struct({ 3: i64(0) }) : numberStatistics(least, most, physical);
  const ofPages = (builder: ChunkBuilder, add: (a: number, b: number) => void): Chunk => {
    for (const [a, b] of pages) add(a - from, b - from);
    return builder.done(statistics);
  };
  const chunks: Chunk[] = [];
  if (distinct !== undefined) chunks.push(distinctChunk(distinct, physical, ofPages));
  if (deltas) {
    const builder = new ChunkBuilder();
    chunks.push(
      ofPages(builder, (a, b) =>
        builder.addData(deltaPage(rows.subarray(a, b)), levels.deltas, b - a, encodings.deltaBinaryPacked),
      ),
    );
  }
  if (chunks.length === 0) {
    const builder = new ChunkBuilder();
    chunks.push(
      ofPages(builder, (a, b) =>
        builder.addData(plainPage(rows.subarray(a, b), physical), levels.plain, b - a, encodings.plain),
      ),
    );
  }
  return chunks.reduce((a, b) => (a.size <= b.size ? a : b));
}

function distinctChunk(
  { values, indexes }: Distinct,
  physical: Physical,
  ofPages: (builder: ChunkBuilder, add: (a: number, b: number) => void) => Chunk,
): Chunk {
  const builder = new ChunkBuilder().addDictionary(plainPage(values, physical), values.length);
  return ofPages(builder, (a, b) =>
    builder.addData(indexPage(indexes.subarray(a, b), values.length), levels.indexes, b - a, encodings.rleDictionary),
  );
}

/** The least and the greatest, NaN aside; the least above the greatest where there is none. */
function boundsOf(values: Float64Array): { readonly least: number; readonly most: number } {
  let least = Number.POSITIVE_INFINITY;
  let most = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return { least, most };
}

function numberStatistics(least: number, most: number, physical: Physical): Written {
  // Zeros of either sign are equal, so that bounds have to take in both.
  const bounds = Float64Array.of(least === 0 ? -0 : least, most === 0 ? 0 : most);
  const bytes = plainPage(bounds, physical);
  const half = bytes.length / 2;
  return statisticsOf(bytes.slice(0, half), bytes.slice(half));
}

const statisticsOf = (least: Uint8Array, most: Uint8Array): Written =>
  struct({ 3: i64(0), 5: binary(most), 6: binary(least), 7: bool(true), 8: bool(true) });
