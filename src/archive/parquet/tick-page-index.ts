import type { TickColumns } from '../../core/tick.ts';
import { cachedDictionaryBytesMax, type DataPage, readColumnValues } from './page-decoder.ts';
import { readTickPages, visitSymbols } from './tick-page-reader.ts';
import { decodeTicks } from './ticks-file.ts';

/** Where the ticks of a part are in its file: symbol i holds rows offsets[i] to offsets[i + 1]. */
export interface TickFileIndex {
  readonly symbolIndexes: ReadonlyMap<string, number>;
  readonly offsets: Float64Array;
  readonly timePages: readonly DataPage[];
  readonly pricePages: readonly DataPage[];
  /** Bytes that it holds in memory, about. */
  readonly memoryBytes: number;
}

/**
 * Reads the footer, the page headers and the symbols of a part, not its times and prices.
 * @throws Error where the file is not stored as our writer stores ticks; `decodeTicks` may still read it
 */
export function indexTickFile(file: Uint8Array): TickFileIndex {
  const columns = readTickPages(file);
  const symbols = new Map<string, number>();
  const starts: number[] = [];
  let row = 0;
  let latest: string | undefined;
  // Of sorted rows each symbol is one run, or one a page.
  visitSymbols(file, columns, (symbol, count) => {
    if (symbol !== latest) {
      if (symbols.has(symbol)) throw new Error('symbols are not sorted');
      symbols.set(symbol, starts.length);
      starts.push(row);
      latest = symbol;
    }
    row += count;
  });
  const pages = [...columns.t, ...columns.p];
  const small = new Set(
    pages.map((page) => page.dictionary).filter((d) => (d?.uncompressedBytes ?? 0) <= cachedDictionaryBytesMax),
  );
  const kept = [...small].reduce((sum, dictionary) => sum + (dictionary?.uncompressedBytes ?? 0), 0);
  const bytes = 200 * pages.length + 150 * symbols.size + kept;
  return {
    symbolIndexes: symbols,
    offsets: Float64Array.from([...starts, row]),
    timePages: columns.t,
    pricePages: columns.p,
    memoryBytes: bytes,
  };
}

/** The ticks of one symbol of a part that was indexed; undefined where it has none. */
export function readSymbolTicks(file: Uint8Array, index: TickFileIndex, symbol: string): TickColumns | undefined {
  const i = index.symbolIndexes.get(symbol);
  if (i === undefined) return undefined;
  const [from, to] = [index.offsets[i]!, index.offsets[i + 1]!];
  return {
    t: readColumnValues(file, index.timePages, 'int64', from, to),
    p: readColumnValues(file, index.pricePages, 'double', from, to),
  };
}

/** The same by decoding the whole part. */
export function decodeSymbolTicks(file: Uint8Array, symbol: string): TickColumns | undefined {
  const { symbols, offsets, t, p } = decodeTicks(file);
  const i = symbols.indexOf(symbol);
  // Copies, so that the whole part is not held with them.
  return i < 0 ? undefined : { t: t.slice(offsets[i]!, offsets[i + 1]!), p: p.slice(offsets[i]!, offsets[i + 1]!) };
}
