import {
  type Chunk,
  ChunkBuilder,
  compress,
  nullsOf,
  type PageSpan,
  statisticsOf,
  zstdLevels,
} from './column-chunk.ts';
import { encodings } from './constants.ts';
import { type Distinct, distinctMax, distinctOf } from './dictionary-builder.ts';
import { deltaPage, indexPage, type Physical, plainPage, spanMax, widthOf } from './encodings.ts';
import type { Written } from './thrift-writer.ts';

/**
 * Numbers by a dictionary where enough of them are the same, else plainly. Times are stored as differences, or by a
 * dictionary where that becomes smaller: polled at fixed moments the times of all symbols are the same, otherwise nearly
 * all differ.
 */
export function numberChunk(values: Float64Array, physical: Physical, pages: readonly PageSpan[]): Chunk {
  const nulls = nullsOf(pages);
  const statisticsFor = (bounds: Bounds): Written => numberStatistics(bounds, physical, nulls);
  if (values.length === 0) return plainChunk(values, physical, pages, statisticsOf(nulls));
  if (physical === 'int64') {
    const bounds = boundsOf(values);
    if (bounds.most - bounds.least <= spanMax && Math.max(bounds.most, -bounds.least) <= spanMax) {
      const distinct = distinctOf(values, shareOf(values, 8));
      const statistics = statisticsFor(bounds);
      if (distinct === undefined) return deltaChunk(values, pages, statistics);
      const indexed = distinctChunk(distinct, physical, inTwos(pages), statistics);
      // One page's differences tell what all of them would take.
      const sample = pages[pages.length >> 1]!;
      const deltaSize = (deltaChunk(values, [sample], statistics).size * values.length) / (sample.to - sample.from);
      return indexed.size < deltaSize ? indexed : deltaChunk(values, pages, statistics);
    }
  }
  const distinct = distinctOf(values, shareOf(values, 2));
  return distinct === undefined
    ? plainChunk(values, physical, pages, statisticsFor(boundsOf(values)))
    : distinctChunk(distinct, physical, pages, statisticsFor(boundsOf(distinct.values)));
}

/** One of `parts` rows, and what indexes can tell apart at most. */
const shareOf = (values: Float64Array, parts: number): number =>
  Math.min(distinctMax, Math.ceil(values.length / parts));

/** Two pages as one: indexes of times that all symbols share are small only where several symbols stand together. */
function inTwos(pages: readonly PageSpan[]): readonly PageSpan[] {
  if (pages.some(({ levels }) => levels.length > 0)) return pages;
  return pages.flatMap((page, i) => {
    if (i % 2 === 1) return [];
    const to = pages[i + 1]?.to ?? page.to;
    return [{ ...page, to, rows: to - page.from }];
  });
}

function deltaChunk(values: Float64Array, pages: readonly PageSpan[], statistics: Written): Chunk {
  const builder = new ChunkBuilder();
  const sample = pages[pages.length >> 1]!;
  const level = deltaLevel(deltaPage(values.subarray(sample.from, sample.to)));
  for (const page of pages)
    builder.addData(deltaPage(values.subarray(page.from, page.to)), page, level, encodings.deltaBinaryPacked);
  return builder.done(statistics);
}

/** A level that packs what does not come again as it is, where the other gains little: readers take it a fifth faster. */
function deltaLevel(page: Uint8Array): number {
  const { deltas, rawDeltas } = zstdLevels;
  return compress(page, deltas).length < 0.97 * compress(page, rawDeltas).length ? deltas : rawDeltas;
}

function plainChunk(values: Float64Array, physical: Physical, pages: readonly PageSpan[], statistics: Written): Chunk {
  const builder = new ChunkBuilder();
  for (const page of pages)
    builder.addData(plainPage(values.subarray(page.from, page.to), physical), page, zstdLevels.plain, encodings.plain);
  return builder.done(statistics);
}

function distinctChunk(
  { values, indexes }: Distinct,
  physical: Physical,
  pages: readonly PageSpan[],
  statistics: Written,
): Chunk {
  const level = physical === 'int64' ? zstdLevels.times : zstdLevels.prices;
  const builder = new ChunkBuilder();
  builder.addDictionary(plainPage(values, physical), zstdLevels.plain, values.length);
  return addIndexes(builder, indexes, values.length, pages, level).done(statistics);
}

/** Adds the pages of indexes of a dictionary of `values` values. */
export function addIndexes(
  builder: ChunkBuilder,
  indexes: Uint16Array,
  values: number,
  pages: readonly PageSpan[],
  level: number,
): ChunkBuilder {
  const sample = pages[pages.length >> 1]!;
  const width = bestWidth(indexes.subarray(sample.from, sample.to), widthOf(values), level);
  for (const page of pages)
    builder.addData(indexPage(indexes.subarray(page.from, page.to), width), page, level, encodings.rleDictionary);
  return builder;
}

/**
 * The width at which one page's indexes take least: `least`, whole bytes or half bytes. In those zstd finds what comes
 * again, a third and a quarter of the bytes of prices as they are; where nothing does it cannot make up for the bits. Whole
 * bytes are for pages of which runs leave little, and for times: of others a reader would unpack them for longer than what
 * others write.
 */
function bestWidth(indexes: Uint16Array, least: number, level: number): number {
  const whole = Math.ceil(least / 8) * 8;
  const wide = level === zstdLevels.times || indexPage(indexes, whole).length < indexes.length;
  const other = wide ? whole : Math.ceil(least / 4) * 4;
  if (least === other) return other;
  const sizeAt = (width: number): number => compress(indexPage(indexes, width), level).length;
  return sizeAt(least) < sizeAt(other) ? least : other;
}

interface Bounds {
  readonly least: number;
  readonly most: number;
}

/** The least and the greatest, NaN aside; the least above the greatest where there is none. */
function boundsOf(values: Float64Array): Bounds {
  let least = Number.POSITIVE_INFINITY;
  let most = Number.NEGATIVE_INFINITY;
  // Without a branch a value, which takes half the time.
  for (let i = 0; i < values.length; i++) {
    least = Math.min(least, values[i]!);
    most = Math.max(most, values[i]!);
  }
  return Number.isNaN(least) ? boundsOf(values.filter((value) => !Number.isNaN(value))) : { least, most };
}

function numberStatistics({ least, most }: Bounds, physical: Physical, nulls: number): Written {
  if (least > most) return statisticsOf(nulls);
  // Zeros of either sign are equal, so that bounds have to take in both.
  const bounds = Float64Array.of(least === 0 ? -0 : least, most === 0 ? 0 : most);
  const bytes = plainPage(bounds, physical);
  const half = bytes.length / 2;
  return statisticsOf(nulls, { least: bytes.slice(0, half), most: bytes.slice(half) });
}
