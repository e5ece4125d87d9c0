import { type Chunk, ChunkBuilder, nullsOf, type PageSpan, statisticsOf, zstdLevels } from './column-chunk.ts';
import { encodings } from './constants.ts';
import { distinctMax } from './dictionary-builder.ts';
import { addIndexes } from './encode-numbers.ts';
import { bitsPage, textsPage } from './encodings.ts';
import type { Written } from './thrift-writer.ts';

/** Texts by a dictionary where half of them or more are there already, else plainly. */
export function textChunk(values: readonly string[], pages: readonly PageSpan[]): Chunk {
  const nulls = nullsOf(pages);
  const builder = new ChunkBuilder();
  const numbers = new Map<string, number>();
  const indexes = new Uint16Array(values.length);
  values.forEach((value, i) => {
    const index = numbers.get(value) ?? numbers.size;
    if (index === numbers.size) numbers.set(value, index);
    indexes[i] = index;
  });
  const texts = [...numbers.keys()].map((value) => Buffer.from(value, 'utf8'));
  const statistics = textStatistics(texts, nulls);
  if (texts.length > 0 && texts.length <= Math.min(distinctMax, values.length / 2)) {
    builder.addDictionary(textsPage(texts), zstdLevels.texts, texts.length);
    return addIndexes(builder, indexes, texts.length, pages, zstdLevels.texts).done(statistics);
  }
  for (const page of pages) {
    const plain = values.slice(page.from, page.to).map((value) => Buffer.from(value, 'utf8'));
    builder.addData(textsPage(plain), page, zstdLevels.texts, encodings.plain);
  }
  return builder.done(statistics);
}

/** Truths, one bit each. */
export function truthChunk(values: readonly boolean[], pages: readonly PageSpan[]): Chunk {
  const builder = new ChunkBuilder();
  for (const page of pages)
    builder.addData(bitsPage(values.slice(page.from, page.to)), page, zstdLevels.plain, encodings.plain);
  const bound = (value: boolean): Uint8Array => Uint8Array.of(value ? 1 : 0);
  return builder.done(
    values.length === 0
      ? statisticsOf(nullsOf(pages))
      : statisticsOf(nullsOf(pages), { least: bound(!values.includes(false)), most: bound(values.includes(true)) }),
  );
}

/** Bounds of texts, which are ordered by their bytes. */
export function textStatistics(texts: readonly Uint8Array[], nulls: number): Written {
  if (texts.length === 0) return statisticsOf(nulls);
  const least = texts.reduce((a, b) => (Buffer.compare(a, b) <= 0 ? a : b));
  const most = texts.reduce((a, b) => (Buffer.compare(a, b) >= 0 ? a : b));
  const short = Math.max(least.length, most.length) <= boundBytesMax;
  return statisticsOf(nulls, short ? { least, most } : undefined);
}

/** Bounds longer than this would make footers large and leave out little more. */
const boundBytesMax = 256;
