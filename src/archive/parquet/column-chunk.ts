import {
  encodeTexts,
  findTextBounds,
  numberTexts,
  sliceTexts,
  type TextColumn,
  viewTextBytes,
} from '../format/text-columns.ts';
import { findSymbolIndex, type SymbolOffsets } from '../format/tick-columns.ts';
import {
  computeBounds,
  encodeNumberStatistics,
  encodeStatistics,
  encodeStringStatistics,
  type NumberBounds,
} from './column-statistics.ts';
import { compressPage } from './compress-page.ts';
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
  encodePlainTexts,
  type PhysicalNumberType,
} from './encodings.ts';
import { encodings, type PageHeader, pageHeader, pageTypes, type Statistics } from './metadata.ts';
import { encodeStruct } from './thrift.ts';

/**
 * Encodes numbers with a dictionary if enough of them repeat, otherwise PLAIN. Times are delta-encoded, or use a
 * dictionary if that is smaller: with polls at fixed times all symbols share their times, otherwise nearly all times
 * differ.
 */
export function encodeNumberChunk(
  values: Float64Array,
  physical: PhysicalNumberType,
  pages: readonly PageRange[],
): ColumnChunk {
  const nulls = countNulls(pages);
  const statisticsFor = (bounds: NumberBounds): Statistics => encodeNumberStatistics(bounds, physical, nulls);
  if (values.length === 0) return encodePlainChunk(values, physical, pages, encodeStatistics(nulls));
  if (physical === 'int64') {
    const bounds = computeBounds(values);
    if (bounds.max - bounds.min <= deltaSpanMax && Math.max(bounds.max, -bounds.min) <= deltaSpanMax) {
      const distinctMax = computeDistinctMax(values, 8);
      const distinct = hasAscendingRun(values, distinctMax + 1) ? undefined : buildDictionary(values, distinctMax);
      const statistics = statisticsFor(bounds);
      if (distinct === undefined) return encodeDeltaChunk(values, pages, statistics);
      const indexed = encodeDictionaryChunk(distinct, physical, pages, statistics);
      // The deltas of one page estimate the size of all of them.
      const sample = getMiddlePage(pages);
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

/** At most one distinct value per `parts` rows, and no more than the indexes can address. */
const computeDistinctMax = (values: Float64Array, parts: number): number =>
  Math.min(dictionaryValuesMax, Math.ceil(values.length / parts));

/** Whether `length` adjacent values ascend, and so are all different. This is much faster than to look each of them up. */
function hasAscendingRun(values: Float64Array, length: number): boolean {
  let start = 0;
  for (let i = 1; i < values.length; i++) {
    if (!(values[i]! > values[i - 1]!)) start = i;
    if (i - start + 1 >= length) return true;
  }
  return false;
}

/**
 * Merges pages in pairs. Indexes of shared times compress well only if a page holds several symbols, and readers take less
 * time to decompress prices in fewer pages.
 */
function pairPages(pages: readonly PageRange[]): readonly PageRange[] {
  if (pages.some(({ definitionLevels }) => definitionLevels.length > 0)) return pages;
  return pages.flatMap((page, i) => {
    if (i % 2 === 1) return [];
    const to = pages[i + 1]?.to ?? page.to;
    return [{ ...page, to, rows: to - page.from }];
  });
}

function encodeDeltaChunk(values: Float64Array, pages: readonly PageRange[], statistics: Statistics): ColumnChunk {
  const builder = new ColumnChunkBuilder();
  const sampled = getMiddlePage(pages);
  const { level, sample } = chooseDeltaLevel(encodeDeltaPage(values.subarray(sampled.from, sampled.to)));
  for (const page of pages) {
    if (page === sampled && hasNoLevels(page)) builder.addCompressedPage(sample, page, encodings.deltaBinaryPacked);
    else
      builder.addDataPage(
        encodeDeltaPage(values.subarray(page.from, page.to)),
        page,
        level,
        encodings.deltaBinaryPacked,
      );
  }
  return builder.finish(statistics);
}

/** The values of a page, which was compressed to choose how the pages of its chunk are stored. */
interface CompressedValues {
  readonly plainBytes: number;
  readonly packed: Uint8Array;
}

const compressValues = (bytes: Uint8Array, level: number): CompressedValues => ({
  plainBytes: bytes.length,
  packed: compressPage(bytes, level),
});

const hasNoLevels = ({ definitionLevels }: PageRange): boolean => definitionLevels.length === 0;

/**
 * Chooses the level that stores incompressible data uncompressed, which readers decode a fifth faster, unless the other
 * level saves more than 3 %.
 */
function chooseDeltaLevel(page: Uint8Array): { readonly level: number; readonly sample: CompressedValues } {
  const { deltas, rawDeltas } = zstdLevels;
  const [small, raw] = [compressValues(page, deltas), compressValues(page, rawDeltas)];
  return small.packed.length < 0.97 * raw.packed.length
    ? { level: deltas, sample: small }
    : { level: rawDeltas, sample: raw };
}

function encodePlainChunk(
  values: Float64Array,
  physical: PhysicalNumberType,
  pages: readonly PageRange[],
  statistics: Statistics,
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
  statistics: Statistics,
): ColumnChunk {
  const level = physical === 'int64' ? zstdLevels.times : zstdLevels.prices;
  const builder = new ColumnChunkBuilder();
  builder.addDictionaryPage(encodePlainNumbers(values, physical), zstdLevels.plain, values.length);
  const pairs = pairPages(pages);
  // The width of prices is chosen by one page of a pair: by a whole pair, files of recorded ticks become larger.
  const sampled = getMiddlePage(level === zstdLevels.times ? pairs : pages);
  return addIndexPages(builder, indexes, values.length, pairs, level, sampled).finish(statistics);
}

const getMiddlePage = (pages: readonly PageRange[]): PageRange => pages[pages.length >> 1]!;

/** Adds the index pages for a dictionary of `values` values. `sampled` has the rows by which their width is chosen. */
function addIndexPages(
  builder: ColumnChunkBuilder,
  indexes: Uint16Array,
  values: number,
  pages: readonly PageRange[],
  level: number,
  sampled: PageRange,
): ColumnChunkBuilder {
  const sampledIndexes = indexes.subarray(sampled.from, sampled.to);
  const { width, sample } = chooseIndexWidth(sampledIndexes, computeBitWidth(values), level);
  for (const page of pages) {
    if (page === sampled && sample !== null && hasNoLevels(page))
      builder.addCompressedPage(sample, page, encodings.rleDictionary);
    else
      builder.addDataPage(
        encodeIndexPage(indexes.subarray(page.from, page.to), width),
        page,
        level,
        encodings.rleDictionary,
      );
  }
  return builder;
}

interface IndexWidth {
  readonly width: number;
  /** The page at this width; null if no width had to be tried. */
  readonly sample: CompressedValues | null;
}

/**
 * Chooses the index width that gives the smallest page: `min` bits, or `min` rounded up to whole or half bytes. At a
 * rounded width zstd finds repetitions, which saves a quarter to a third of the bytes of prices; without repetitions it
 * cannot make up for the extra bits. Whole bytes are used only for times and for pages that consist mostly of runs: in
 * other pages, readers take longer to unpack them.
 */
function chooseIndexWidth(indexes: Uint16Array, min: number, level: number): IndexWidth {
  const wholeBytes = Math.ceil(min / 8) * 8;
  const needsWholeBytes = level === zstdLevels.times || encodeIndexPage(indexes, wholeBytes).length < indexes.length;
  const rounded = needsWholeBytes ? wholeBytes : Math.ceil(min / 4) * 4;
  if (min === rounded) return { width: rounded, sample: null };
  const compressAt = (width: number): CompressedValues => compressValues(encodeIndexPage(indexes, width), level);
  const [narrow, wide] = [compressAt(min), compressAt(rounded)];
  return narrow.packed.length < wide.packed.length ? { width: min, sample: narrow } : { width: rounded, sample: wide };
}

/** The distinct texts in order of first appearance, and the index of each row's text. */
interface TextDictionary {
  readonly texts: readonly Uint8Array[];
  readonly indexes: Uint16Array;
}

/** Encodes strings with a dictionary if at least half of them repeat, otherwise PLAIN. */
export const encodeStringChunk = (values: readonly string[], pages: readonly PageRange[]): ColumnChunk =>
  encodeTextPages(buildStringDictionary(values), () => encodeTexts(values), pages);

/** The same for a column without nulls. */
export const encodeTextChunk = (column: TextColumn, pages: readonly PageRange[]): ColumnChunk =>
  encodeTextPages(buildTextDictionary(column), () => column, pages);

function encodeTextPages(
  dictionary: TextDictionary | undefined,
  getTexts: () => TextColumn,
  pages: readonly PageRange[],
): ColumnChunk {
  const nulls = countNulls(pages);
  const builder = new ColumnChunkBuilder();
  if (dictionary !== undefined) {
    const { texts, indexes } = dictionary;
    builder.addDictionaryPage(encodePlainByteArrays(texts), zstdLevels.texts, texts.length);
    addIndexPages(builder, indexes, texts.length, pages, zstdLevels.texts, getMiddlePage(pages));
    return builder.finish(encodeStringStatistics(texts, nulls));
  }
  const texts = getTexts();
  for (const page of pages)
    builder.addDataPage(encodePlainTexts(texts, page.from, page.to), page, zstdLevels.texts, encodings.plain);
  return builder.finish(encodeStringStatistics(findTextBounds(texts), nulls));
}

const computeTextsMax = (rows: number): number => Math.min(dictionaryValuesMax, rows / 2);

/** Undefined if less than half of the strings repeat. */
function buildStringDictionary(values: readonly string[]): TextDictionary | undefined {
  const max = computeTextsMax(values.length);
  const indexByValue = new Map<string, number>();
  const indexes = new Uint16Array(values.length);
  for (let i = 0; i < values.length; i++) {
    const value = values[i]!;
    let index = indexByValue.get(value);
    if (index === undefined) {
      index = indexByValue.size;
      if (index + 1 > max) return undefined;
      indexByValue.set(value, index);
    }
    indexes[i] = index;
  }
  if (values.length === 0) return undefined;
  return { texts: [...indexByValue.keys()].map((value) => Buffer.from(value, 'utf8')), indexes };
}

/** Undefined if less than half of the texts repeat. */
function buildTextDictionary(column: TextColumn): TextDictionary | undefined {
  const count = column.lengths.length;
  if (count === 0) return undefined;
  const rows = new Uint32Array(count);
  for (let row = 0; row < count; row++) rows[row] = row;
  const numbered = numberTexts(column, rows, computeTextsMax(count));
  if (numbered === undefined) return undefined;
  return {
    // Copied, because statistics are held until the file is finished.
    texts: numbered.firsts.map((row) => new Uint8Array(viewTextBytes(sliceTexts(column, row, row + 1)))),
    indexes: new Uint16Array(numbered.numbers),
  };
}

/** Encodes booleans, one bit each. */
export function encodeBooleanChunk(values: readonly boolean[], pages: readonly PageRange[]): ColumnChunk {
  const builder = new ColumnChunkBuilder();
  for (const page of pages)
    builder.addDataPage(encodePlainBooleans(values.slice(page.from, page.to)), page, zstdLevels.plain, encodings.plain);
  const bound = (value: boolean): Uint8Array => Uint8Array.of(value ? 1 : 0);
  return builder.finish(
    values.length === 0
      ? encodeStatistics(countNulls(pages))
      : encodeStatistics(countNulls(pages), {
          min: bound(!values.includes(false)),
          max: bound(values.includes(true)),
        }),
  );
}

/** Encodes the symbols of rows `from` to `to` with a dictionary and runs. `pages` count rows from `from`. */
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
  // Bounds are computed from all symbols: readers rely on them even if the rows were not sorted.
  return builder.finish(encodeStringStatistics(texts, 0));
}

/** One column of a row group as stored: its pages with their headers, in sequence. */
export interface ColumnChunk {
  readonly pieces: readonly Uint8Array[];
  /** Bytes of the pieces, compressed and uncompressed. */
  readonly compressedBytes: number;
  readonly uncompressedBytes: number;
  /** Bytes of the dictionary page, which comes first; 0 if there is none. */
  readonly dictionaryPageBytes: number;
  readonly encodings: readonly number[];
  readonly statistics: Statistics;
}

/** A page: values `from` to `to` of the chunk, and its row count. Nulls have a row but no value. */
export interface PageRange {
  readonly from: number;
  readonly to: number;
  readonly rows: number;
  /** Definition levels, which mark nulls; empty for a column without nulls. */
  readonly definitionLevels: Uint8Array;
}

export const noDefinitionLevels = new Uint8Array(0);

const countNulls = (pages: readonly PageRange[]): number =>
  pages.reduce((sum, { from, to, rows }) => sum + rows - (to - from), 0);

/** zstd levels, chosen by measuring time against size. Negative levels compress only repetitions. */
const zstdLevels = { prices: 5, times: 6, deltas: 1, rawDeltas: -5, plain: 4, texts: 6 } as const;

class ColumnChunkBuilder {
  private readonly pieces: Uint8Array[] = [];
  private size = 0;
  private plainSize = 0;
  private dictionarySize = 0;
  private readonly usedEncodings = new Set<number>([encodings.rle]);

  addDictionaryPage(bytes: Uint8Array, level: number, values: number): this {
    this.usedEncodings.add(encodings.plain);
    this.addPage(compressValues(bytes, level), {
      type: pageTypes.dictionary,
      dictionary_page_header: { num_values: values, encoding: encodings.plain, is_sorted: false },
    });
    this.dictionarySize = this.size;
    return this;
  }

  addDataPage(values: Uint8Array, page: PageRange, level: number, encoding: number): this {
    const bytes = hasNoLevels(page) ? values : Buffer.concat([page.definitionLevels, values]);
    return this.addCompressedPage(compressValues(bytes, level), page, encoding);
  }

  /** Adds a data page, of which all that it stores is compressed already. */
  addCompressedPage(compressed: CompressedValues, { rows }: PageRange, encoding: number): this {
    this.usedEncodings.add(encoding);
    const levels = { definition_level_encoding: encodings.rle, repetition_level_encoding: encodings.rle };
    return this.addPage(compressed, {
      type: pageTypes.data,
      data_page_header: { num_values: rows, encoding, ...levels },
    });
  }

  private addPage(
    { plainBytes, packed }: CompressedValues,
    header: Omit<PageHeader, 'uncompressed_page_size' | 'compressed_page_size'>,
  ): this {
    const headerBytes = encodeStruct(pageHeader, {
      ...header,
      uncompressed_page_size: plainBytes,
      compressed_page_size: packed.length,
    });
    this.pieces.push(headerBytes, packed);
    this.size += headerBytes.length + packed.length;
    this.plainSize += headerBytes.length + plainBytes;
    return this;
  }

  finish(statistics: Statistics): ColumnChunk {
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
