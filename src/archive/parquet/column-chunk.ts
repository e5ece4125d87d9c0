import { constants, zstdCompressSync } from 'node:zlib';
import type { BySymbol } from './column-data.ts';
import { type Distinct, distinctMax, distinctOf } from './distinct-values.ts';
import { encodings, pageTypes } from './format.ts';
import { binary, bool, i32, i64, struct, type Written } from './thrift-write.ts';
import {
  deltaPage,
  indexPage,
  type Physical,
  plainPage,
  runsPage,
  spanMax,
  textsPage,
  widthOf,
} from './value-bytes.ts';

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
 * zstd's levels, by measuring: indexes of prices become 5 % smaller at level 4 than at 1 for the same time, and another
 * 6 % at level 5 for twice as much; differences are packed too tightly for any level to make much of them.
 */
const levels = { prices: 4, times: 5, deltas: 1, plain: 4, texts: 6 };

class ChunkBuilder {
  private readonly pieces: Uint8Array[] = [];
  private size = 0;
  private plainSize = 0;
  private dictionarySize = 0;
  private readonly used = new Set<number>([encodings.rle]);

  addDictionary(bytes: Uint8Array, level: number, values: number): this {
    this.used.add(encodings.plain);
    this.add(bytes, level, pageTypes.dictionary, {
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
  builder.addDictionary(textsPage(texts), levels.texts, texts.length);
  let symbol = first;
  for (const [a, b] of pages) {
    const indexes: number[] = [];
    const counts: number[] = [];
    for (let row = a; row < b; row += counts.at(-1)!) {
      while (offsets[symbol + 1]! <= row) symbol++;
      indexes.push(symbol - first);
      counts.push(Math.min(b, offsets[symbol + 1]!) - row);
    }
    builder.addData(runsPage(indexes, counts, widthOf(texts.length)), levels.texts, b - a, encodings.rleDictionary);
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
 * Numbers by a dictionary where enough of them are the same, else plainly. Times are stored as differences, or by a
 * dictionary where that becomes smaller: polled at fixed moments the times of all symbols are the same, otherwise nearly
 * all differ.
 */
export function numberChunk(column: Float64Array, physical: Physical, pages: readonly Rows[]): Chunk {
  const first = pages[0]![0];
  const values = column.subarray(first, pages.at(-1)![1]);
  const ofGroup = pages.map(([from, to]): Rows => [from - first, to - first]);
  if (physical === 'int64') {
    const bounds = boundsOf(values);
    const statistics = numberStatistics(bounds, physical);
    if (bounds.most - bounds.least <= spanMax && Math.max(bounds.most, -bounds.least) <= spanMax) {
      const distinct = distinctOf(values, shareOf(values, 8));
      const deltas = deltaChunk(values, ofGroup, statistics);
      if (distinct === undefined) return deltas;
      const indexed = distinctChunk(distinct, physical, inTwos(ofGroup), statistics);
      return indexed.size < deltas.size ? indexed : deltas;
    }
  }
  const distinct = distinctOf(values, shareOf(values, 2));
  return distinct === undefined
    ? plainChunk(values, physical, ofGroup, numberStatistics(boundsOf(values), physical))
    : distinctChunk(distinct, physical, ofGroup, numberStatistics(boundsOf(distinct.values), physical));
}

/** One of `parts` rows, and what indexes can tell apart at most. */
const shareOf = (values: Float64Array, parts: number): number =>
  Math.min(distinctMax, Math.ceil(values.length / parts));

/** Two pages as one: indexes of times that all symbols share are small only where several symbols stand together. */
const inTwos = (pages: readonly Rows[]): Rows[] =>
  pages.flatMap(([from, to], i): Rows[] => (i % 2 === 0 ? [[from, pages[i + 1]?.[1] ?? to]] : []));

function deltaChunk(values: Float64Array, pages: readonly Rows[], statistics: Written): Chunk {
  const builder = new ChunkBuilder();
  for (const [from, to] of pages)
    builder.addData(deltaPage(values.subarray(from, to)), levels.deltas, to - from, encodings.deltaBinaryPacked);
  return builder.done(statistics);
}

function plainChunk(values: Float64Array, physical: Physical, pages: readonly Rows[], statistics: Written): Chunk {
  const builder = new ChunkBuilder();
  for (const [from, to] of pages)
    builder.addData(plainPage(values.subarray(from, to), physical), levels.plain, to - from, encodings.plain);
  return builder.done(statistics);
}

function distinctChunk(
  { values, indexes }: Distinct,
  physical: Physical,
  pages: readonly Rows[],
  statistics: Written,
): Chunk {
  const level = physical === 'int64' ? levels.times : levels.prices;
  const builder = new ChunkBuilder().addDictionary(plainPage(values, physical), levels.plain, values.length);
  const width = bestWidth(indexes.subarray(...pages[pages.length >> 1]!), widthOf(values.length), level);
  for (const [from, to] of pages)
    builder.addData(indexPage(indexes.subarray(from, to), width), level, to - from, encodings.rleDictionary);
  return builder.done(statistics);
}

/**
 * The width at which one page's indexes take least: `least`, or whole bytes. In those zstd finds what comes again, a third
 * of the bytes of prices as they are; where nothing does it cannot make up for the bits.
 */
function bestWidth(indexes: Uint16Array, least: number, level: number): number {
  const whole = least <= 8 ? 8 : 16;
  if (least === whole) return whole;
  const sizeAt = (width: number): number => compress(indexPage(indexes, width), level).length;
  return sizeAt(least) < sizeAt(whole) ? least : whole;
}

interface Bounds {
  readonly least: number;
  readonly most: number;
}

/** The least and the greatest, NaN aside; the least above the greatest where there is none. */
function boundsOf(values: Float64Array): Bounds {
  let least = Number.POSITIVE_INFINITY;
  let most = Number.NEGATIVE_INFINITY;
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    if (value < least) least = value;
    if (value > most) most = value;
  }
  return { least, most };
}

function numberStatistics({ least, most }: Bounds, physical: Physical): Written {
  if (least > most) return struct({ 3: i64(0) });
  // Zeros of either sign are equal, so that bounds have to take in both.
  const bounds = Float64Array.of(least === 0 ? -0 : least, most === 0 ? 0 : most);
  const bytes = plainPage(bounds, physical);
  const half = bytes.length / 2;
  return statisticsOf(bytes.slice(0, half), bytes.slice(half));
}

const statisticsOf = (least: Uint8Array, most: Uint8Array): Written =>
  struct({ 3: i64(0), 5: binary(most), 6: binary(least), 7: bool(true), 8: bool(true) });
