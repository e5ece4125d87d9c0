import {
  type ColumnChunk,
  ColumnChunkBuilder,
  countNulls,
  encodeStatistics,
  type PageRange,
  zstdLevels,
} from './column-chunk.ts';
import { encodings } from './constants.ts';
import { dictionaryValuesMax } from './dictionary-builder.ts';
import { addIndexPages } from './encode-numbers.ts';
import { encodePlainBooleans, encodePlainByteArrays } from './encodings.ts';
import type { ThriftValue } from './thrift-writer.ts';

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
