import { constants, zstdCompressSync } from 'node:zlib';
import {
  buildDictionary,
  computeBitWidth,
  type Dictionary,
  deltaSpanMax,
  dictionaryValuesMax,
  encodeDeltaPage,
  encodeIndexPage,
  encodeIndexRuns,
  encodePlainBooleans,
  encodePlainByteArrays,
  encodePlainNumbers,
  type PhysicalNumberType,
} from './encodings.ts';
import { findSymbolIndex, type SymbolOffsets } from './symbol-offsets.ts';
import { binary, bool, encodings, i32, i64, pageTypes, struct, type ThriftValue } from './thrift.ts';

/**
 * Numbers by a dictionary where enough of them are the same, else plainly. Times are stored as differences, or by a
 * dictionary where that becomes smaller: polled at fixed moments the times of all symbols are the same, otherwise nearly
 * all differ.
 */
export function encodeNumberChunk(
  values: Float64Array,
  physical: PhysicalNumberType,
  pages: readonly PageRange[],
): ColumnChunk {
  const nulls = countNulls(pages);
  const statisticsFor = (bounds: NumberBounds): ThriftValue => encodeNumberStatistics(bounds, physical, nulls);
  if (values.length === 0) return encodePlainChunk(values, physical, pages, encodeStatistics(nulls));
  if (physical === 'int64') {
    const bounds = computeBounds(values);
    if (bounds.max - bounds.min <= deltaSpanMax && Math.max(bounds.max, -bounds.min) <= deltaSpanMax) {
      const distinct = buildDictionary(values, computeDistinctMax(values, 8));
      const statistics = statisticsFor(bounds);
      if (distinct === undefined) return encodeDeltaChunk(values, pages, statistics);
      const indexed = encodeDictionaryChunk(distinct, physical, pairPages(pages), statistics);
      // One page's differences tell what all of them would take.
      const sample = pages[pages.length >> 1]!;
      const deltaSize =
        (encodeDeltaChunk(values, [sample], statistics).compressedBytes * values.length) / (sample.to - sample.from);
      return indexed.compressedBytes < deltaSize ? indexed : encodeDeltaChunk(values, pages, statistics);
    }
  }
  const distinct = buildDictionary(values, computeDistinctMax(values, 2));
  return distinct === undefined
    ? encodePlainChunk(values, physical, pages, statisticsFor(computeBounds(values)))
    : encodeDictionaryChunk(distinct, physical, pages, statisticsFor(computeBounds(distinct.values)));
}

/** One of `parts` rows, and what indexes can tell apart at most. */
const computeDistinctMax = (values: Float64Array, parts: number): number =>
  Math.min(dictionaryValuesMax, Math.ceil(values.length / parts));

/** Two pages as one: indexes of times that all symbols share are small only where several symbols stand together. */
function pairPages(pages: readonly PageRange[]): readonly PageRange[] {
  if (pages.some(({ definitionLevels }) => definitionLevels.length > 0)) return pages;
  return pages.flatMap((page, i) => {
    if (i % 2 === 1) return [];
    const to = pages[i + 1]?.to ?? page.to;
    return [{ ...page, to, rows: to - page.from }];
  });
}

function encodeDeltaChunk(values: Float64Array, pages: readonly PageRange[], statistics: ThriftValue): ColumnChunk {
  const builder = new ColumnChunkBuilder();
  const sample = pages[pages.length >> 1]!;
  const level = chooseDeltaLevel(encodeDeltaPage(values.subarray(sample.from, sample.to)));
  for (const page of pages)
    builder.addDataPage(encodeDeltaPage(values.subarray(page.from, page.to)), page, level, encodings.deltaBinaryPacked);
  return builder.finish(statistics);
}

/** A level that packs what does not come again as it is, where the other gains little: readers take it a fifth faster. */
function chooseDeltaLevel(page: Uint8Array): number {
  const { deltas, rawDeltas } = zstdLevels;
  return compressZstd(page, deltas).length < 0.97 * compressZstd(page, rawDeltas).length ? deltas : rawDeltas;
}

function encodePlainChunk(
  values: Float64Array,
  physical: PhysicalNumberType,
  pages: readonly PageRange[],
  statistics: ThriftValue,
): ColumnChunk {
  const builder = new ColumnChunkBuilder();
  for (const page of pages)
    builder.addDataPage(
      encodePlainNumbers(values.subarray(page.from, page.to), physical),
      page,
      zstdLevels.plain,
      encodings.plain,
    );
  return builder.finish(statistics);
}

function encodeDictionaryChunk(
  { values, indexes }: Dictionary,
  physical: PhysicalNumberType,
  pages: readonly PageRange[],
  statistics: ThriftValue,
): ColumnChunk {
  const level = physical === 'int64' ? zstdLevels.times : zstdLevels.prices;
  const builder = new ColumnChunkBuilder();
  builder.addDictionaryPage(encodePlainNumbers(values, physical), zstdLevels.plain, values.length);
  return addIndexPages(builder, indexes, values.length, pages, level).finish(statistics);
}

/** Adds the pages of indexes of a dictionary of `values` values. */
export function addIndexPages(
  builder: ColumnChunkBuilder,
  indexes: Uint16Array,
  values: number,
  pages: readonly PageRange[],
  level: number,
): ColumnChunkBuilder {
  const sample = pages[pages.length >> 1]!;
  const width = chooseIndexWidth(indexes.subarray(sample.from, sample.to), computeBitWidth(values), level);
  for (const page of pages)
    builder.addDataPage(
      encodeIndexPage(indexes.subarray(page.from, page.to), width),
      page,
      level,
      encodings.rleDictionary,
    );
  return builder;
}

/**
 * The width at which one page's indexes take least: `least`, whole bytes or half bytes. In those zstd finds what comes
 * again, a third and a quarter of the bytes of prices as they are; where nothing does it cannot make up for the bits. Whole
 * bytes are for pages of which runs leave little, and for times: of others a reader would unpack them for longer than what
 * others write.
 */
function chooseIndexWidth(indexes: Uint16Array, least: number, level: number): number {
  const whole = Math.ceil(least / 8) * 8;
  const wide = level === zstdLevels.times || encodeIndexPage(indexes, whole).length < indexes.length;
  const other = wide ? whole : Math.ceil(least / 4) * 4;
  if (least === other) return other;
  const sizeAt = (width: number): number => compressZstd(encodeIndexPage(indexes, width), level).length;
  return sizeAt(least) < sizeAt(other) ? least : other;
}

interface NumberBounds {
  readonly min: number;
  readonly max: number;
}

/** The least and the greatest, NaN aside; the least above the greatest where there is none. */
function computeBounds(values: Float64Array): NumberBounds {
  let least = Number.POSITIVE_INFINITY;
  let most = Number.NEGATIVE_INFINITY;
  // Without a branch a value, which takes half the time.
  for (let i = 0; i < values.length; i++) {
    least = Math.min(least, values[i]!);
    most = Math.max(most, values[i]!);
  }
  return Number.isNaN(least)
    ? computeBounds(values.filter((value) => !Number.isNaN(value)))
    : { min: least, max: most };
}

function encodeNumberStatistics({ min, max }: NumberBounds, physical: PhysicalNumberType, nulls: number): ThriftValue {
  if (min > max) return encodeStatistics(nulls);
  // Zeros of either sign are equal, so that bounds have to take in both.
  const bounds = Float64Array.of(min === 0 ? -0 : min, max === 0 ? 0 : max);
  const bytes = encodePlainNumbers(bounds, physical);
  const half = bytes.length / 2;
  return encodeStatistics(nulls, { least: bytes.slice(0, half), most: bytes.slice(half) });
}

/** Texts by a dictionary where half of them or more are there already, else plainly. */
export function encodeStringChunk(values: readonly string[], pages: readonly PageRange[]): ColumnChunk {
  const nulls = countNulls(pages);
  const builder = new ColumnChunkBuilder();
  const numbers = new Map<string, number>();
  const indexes = new Uint16Array(values.length);
  values.forEach((value, i) => {
    const index = numbers.get(value) ?? numbers.size;
    if (index === numbers.size) numbers.set(value, index);
    indexes[i] = index;
  });
  const texts = [...numbers.keys()].map((value) => Buffer.from(value, 'utf8'));
  const statistics = encodeStringStatistics(texts, nulls);
  if (texts.length > 0 && texts.length <= Math.min(dictionaryValuesMax, values.length / 2)) {
    builder.addDictionaryPage(encodePlainByteArrays(texts), zstdLevels.texts, texts.length);
    return addIndexPages(builder, indexes, texts.length, pages, zstdLevels.texts).finish(statistics);
  }
  for (const page of pages) {
    const plain = values.slice(page.from, page.to).map((value) => Buffer.from(value, 'utf8'));
    builder.addDataPage(encodePlainByteArrays(plain), page, zstdLevels.texts, encodings.plain);
  }
  return builder.finish(statistics);
}

/** Truths, one bit each. */
export function encodeBooleanChunk(values: readonly boolean[], pages: readonly PageRange[]): ColumnChunk {
  const builder = new ColumnChunkBuilder();
  for (const page of pages)
    builder.addDataPage(encodePlainBooleans(values.slice(page.from, page.to)), page, zstdLevels.plain, encodings.plain);
  const bound = (value: boolean): Uint8Array => Uint8Array.of(value ? 1 : 0);
  return builder.finish(
    values.length === 0
      ? encodeStatistics(countNulls(pages))
      : encodeStatistics(countNulls(pages), {
          least: bound(!values.includes(false)),
          most: bound(values.includes(true)),
        }),
  );
}

/** Bounds of texts, which are ordered by their bytes. */
export function encodeStringStatistics(texts: readonly Uint8Array[], nulls: number): ThriftValue {
  if (texts.length === 0) return encodeStatistics(nulls);
  const least = texts.reduce((a, b) => (Buffer.compare(a, b) <= 0 ? a : b));
  const most = texts.reduce((a, b) => (Buffer.compare(a, b) >= 0 ? a : b));
  const short = Math.max(least.length, most.length) <= boundBytesMax;
  return encodeStatistics(nulls, short ? { least, most } : undefined);
}

/** Bounds longer than this would make footers large and leave out little more. */
const boundBytesMax = 256;

/** The symbols of rows `from` to `to`, which `pages` count from `from` on, by a dictionary and runs. */
export function encodeSymbolChunk(
  { symbols, offsets }: SymbolOffsets,
  from: number,
  to: number,
  pages: readonly PageRange[],
): ColumnChunk {
  const builder = new ColumnChunkBuilder();
  const first = findSymbolIndex(offsets, from);
  const last = findSymbolIndex(offsets, to - 1);
  const texts = symbols.slice(first, last + 1).map((symbol) => Buffer.from(symbol, 'utf8'));
  builder.addDictionaryPage(encodePlainByteArrays(texts), zstdLevels.texts, texts.length);
  let symbol = first;
  for (const page of pages) {
    const [a, b] = [from + page.from, from + page.to];
    const indexes: number[] = [];
    const counts: number[] = [];
    for (let row = a; row < b; row += counts.at(-1)!) {
      while (offsets[symbol + 1]! <= row) symbol++;
      indexes.push(symbol - first);
      counts.push(Math.min(b, offsets[symbol + 1]!) - row);
    }
    builder.addDataPage(
      encodeIndexRuns(indexes, counts, computeBitWidth(texts.length)),
      page,
      zstdLevels.texts,
      encodings.rleDictionary,
    );
  }
  // They should be sorted, but a reader would take it for certain.
  return builder.finish(encodeStringStatistics(texts, 0));
}

/** A row group's values of one column as they stand in a file: its pages, with their headers, one after another. */
export interface ColumnChunk {
  readonly pieces: readonly Uint8Array[];
  /** Bytes of the pieces, and of what they are once decompressed. */
  readonly compressedBytes: number;
  readonly uncompressedBytes: number;
  /** Bytes of the dictionary page, which comes first; 0 where there is none. */
  readonly dictionaryPageBytes: number;
  readonly encodings: readonly number[];
  readonly statistics: ThriftValue;
}

/** A page's values, `from` to `to` of those that a chunk is made of, and its rows: more than those where some are null. */
export interface PageRange {
  readonly from: number;
  readonly to: number;
  readonly rows: number;
  /** Definition levels, which say where values are missing; none where none can be. */
  readonly definitionLevels: Uint8Array;
}

export const noDefinitionLevels = new Uint8Array(0);

export const countNulls = (pages: readonly PageRange[]): number =>
  pages.reduce((sum, { from, to, rows }) => sum + rows - (to - from), 0);

/** zstd's levels, by measuring what a level more takes of time and saves of bytes. Below 0 only what comes again is packed. */
export const zstdLevels = { prices: 5, times: 6, deltas: 1, rawDeltas: -5, plain: 4, texts: 6 } as const;

export class ColumnChunkBuilder {
  private readonly pieces: Uint8Array[] = [];
  private size = 0;
  private plainSize = 0;
  private dictionarySize = 0;
  private readonly usedEncodings = new Set<number>([encodings.rle]);

  addDictionaryPage(bytes: Uint8Array, level: number, values: number): this {
    this.usedEncodings.add(encodings.plain);
    this.addPage(bytes, level, pageTypes.dictionary, {
      7: struct({ 1: i32(values), 2: i32(encodings.plain), 3: bool(false) }),
    });
    this.dictionarySize = this.size;
    return this;
  }

  addDataPage(values: Uint8Array, { rows, definitionLevels }: PageRange, level: number, encoding: number): this {
    this.usedEncodings.add(encoding);
    const bytes = definitionLevels.length === 0 ? values : Buffer.concat([definitionLevels, values]);
    const header = struct({ 1: i32(rows), 2: i32(encoding), 3: i32(encodings.rle), 4: i32(encodings.rle) });
    return this.addPage(bytes, level, pageTypes.data, { 5: header });
  }

  private addPage(bytes: Uint8Array, level: number, type: number, header: Record<number, ThriftValue>): this {
    const packed = compressZstd(bytes, level);
    const head = struct({ 1: i32(type), 2: i32(bytes.length), 3: i32(packed.length), ...header }).bytes;
    this.pieces.push(Uint8Array.from(head), packed);
    this.size += head.length + packed.length;
    this.plainSize += head.length + bytes.length;
    return this;
  }

  finish(statistics: ThriftValue): ColumnChunk {
    const { pieces, size, plainSize, dictionarySize } = this;
    return {
      pieces,
      compressedBytes: size,
      uncompressedBytes: plainSize,
      dictionaryPageBytes: dictionarySize,
      encodings: [...this.usedEncodings],
      statistics,
    };
  }
}

/** The bytes packed with zstd. */
export function compressZstd(bytes: Uint8Array, level: number): Uint8Array {
  // Room for what cannot be made smaller, so that it comes in one piece.
  const chunkSize = bytes.length + (bytes.length >> 8) + 64;
  const packed = zstdCompressSync(bytes, { chunkSize, params: { [constants.ZSTD_c_compressionLevel]: level } });
  // It is held until the file is made, and with it all of its room.
  return 2 * packed.length < packed.buffer.byteLength ? new Uint8Array(packed) : packed;
}

/** @param bounds the least and the greatest value as they are stored plainly; undefined where there is none */
export const encodeStatistics = (
  nulls: number,
  bounds?: { readonly least: Uint8Array; readonly most: Uint8Array } | undefined,
): ThriftValue =>
  bounds === undefined
    ? struct({ 3: i64(nulls) })
    : struct({ 3: i64(nulls), 5: binary(bounds.most), 6: binary(bounds.least), 7: bool(true), 8: bool(true) });
