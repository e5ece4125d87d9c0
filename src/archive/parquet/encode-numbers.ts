import {
  type ColumnChunk,
  ColumnChunkBuilder,
  compressZstd,
  countNulls,
  encodeStatistics,
  type PageRange,
  zstdLevels,
} from './column-chunk.ts';
import { encodings } from './constants.ts';
import { buildDictionary, type Dictionary, dictionaryValuesMax } from './dictionary-builder.ts';
import {
  computeBitWidth,
  deltaSpanMax,
  encodeDeltaPage,
  encodeIndexPage,
  encodePlainNumbers,
  type PhysicalNumberType,
} from './encodings.ts';
import type { ThriftValue } from './thrift-writer.ts';

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
