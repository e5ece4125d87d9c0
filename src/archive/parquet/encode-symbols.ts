import { type Chunk, ChunkBuilder, type PageSpan, zstdLevels } from './column-chunk.ts';
import { encodings } from './constants.ts';
import { textStatistics } from './encode-strings.ts';
import { runsPage, textsPage, widthOf } from './encodings.ts';
import { type BySymbol, symbolAt } from './symbol-offsets.ts';

/** The symbols of rows `from` to `to`, which `pages` count from `from` on, by a dictionary and runs. */
export function symbolChunk(
  { symbols, offsets }: BySymbol,
  from: number,
  to: number,
  pages: readonly PageSpan[],
): Chunk {
  const builder = new ChunkBuilder();
  const first = symbolAt(offsets, from);
  const last = symbolAt(offsets, to - 1);
  const texts = symbols.slice(first, last + 1).map((symbol) => Buffer.from(symbol, 'utf8'));
  builder.addDictionary(textsPage(texts), zstdLevels.texts, texts.length);
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
    builder.addData(runsPage(indexes, counts, widthOf(texts.length)), page, zstdLevels.texts, encodings.rleDictionary);
  }
  // They should be sorted, but a reader would take it for certain.
  return builder.done(textStatistics(texts, 0));
}
