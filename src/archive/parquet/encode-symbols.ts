import { type ColumnChunk, ColumnChunkBuilder, type PageRange, zstdLevels } from './column-chunk.ts';
import { encodings } from './constants.ts';
import { encodeStringStatistics } from './encode-strings.ts';
import { computeBitWidth, encodeIndexRuns, encodePlainByteArrays } from './encodings.ts';
import { findSymbolIndex, type SymbolOffsets } from './symbol-offsets.ts';

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
