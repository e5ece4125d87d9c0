import { emptyTicks, type TickColumns } from '../../base/ticks.ts';
import type { CandleColumns } from '../format/candles.ts';
import { datasets } from '../format/datasets.ts';
import type { PartColumns } from '../format/tick-columns.ts';
import { cachedDictionaryBytesMax, type DataPage, type DecompressPage, readColumnValues } from './page-decoder.ts';
import type { RowGroupIndexes } from './rows.ts';
import { readTickPages, visitTexts } from './tick-page-reader.ts';
import { encodePartFile, type KeptRowGroups, openPartFileWriter, rowGroupRows } from './writer.ts';

/** Encodes the ticks of one part, at least one row. Deterministic: the same columns give the same bytes. */
export function encodeTicks(part: PartColumns, groupRows = rowGroupRows): Uint8Array {
  const file = openTickFileWriter(groupRows);
  file.add(part);
  return file.end();
}

/** Opens a writer for the ticks of one part, to which symbols are added in order; see `openPartFileWriter`. */
export function openTickFileWriter(
  groupRows: number,
  kept?: KeptRowGroups,
): { add(part: PartColumns): void; end(): Uint8Array } {
  const file = openPartFileWriter(datasets.ticks.columns, groupRows, kept);
  return {
    add: (part) => file.add({ symbolOffsets: part, values: { t: part.t, p: part.p } }),
    end: () => file.finish(),
  };
}

/** Decodes a part, or some of its row groups. @throws Error if it is not stored as our writers store ticks */
export function decodeTicks(bytes: Uint8Array, groups?: RowGroupIndexes): PartColumns {
  const pages = readTickPages(bytes, groups);
  const symbols: string[] = [];
  const starts: number[] = [];
  let row = 0;
  visitTexts(bytes, pages.symbolPages, pages.rows, (symbol, count) => {
    if (symbols.at(-1) !== symbol) {
      symbols.push(symbol);
      starts.push(row);
    }
    row += count;
  });
  const t = readColumnValues(bytes, pages.t, 'int64', 0, row);
  const p = readColumnValues(bytes, pages.p, 'double', 0, row);
  return { symbols, offsets: Float64Array.from([...starts, row]), t, p };
}

/** The position of each symbol's ticks in a file: symbol i holds rows offsets[i] to offsets[i + 1]. */
export interface TickFileIndex {
  readonly symbolIndexes: ReadonlyMap<string, number>;
  readonly offsets: Float64Array;
  readonly timePages: readonly DataPage[];
  readonly pricePages: readonly DataPage[];
  /** Approximate memory use in bytes. */
  readonly memoryBytes: number;
}

/**
 * Reads the footer, the page headers and the symbols of a part, without its times and prices.
 * @throws Error if the file is not stored as our writers store ticks
 */
export function indexTickFile(file: Uint8Array): TickFileIndex {
  const columns = readTickPages(file);
  const symbols = new Map<string, number>();
  const starts: number[] = [];
  let row = 0;
  let previous: string | undefined;
  // In sorted rows each symbol is one run, or one run per page.
  visitTexts(file, columns.symbolPages, columns.rows, (symbol, count) => {
    if (symbol !== previous) {
      if (symbols.has(symbol)) throw new Error('symbols are not sorted');
      symbols.set(symbol, starts.length);
      starts.push(row);
      previous = symbol;
    }
    row += count;
  });
  const pages = [...columns.t, ...columns.p];
  const smallDictionaries = new Set(
    pages.map((page) => page.dictionary).filter((d) => (d?.uncompressedBytes ?? 0) <= cachedDictionaryBytesMax),
  );
  const dictionaryBytes = [...smallDictionaries].reduce(
    (sum, dictionary) => sum + (dictionary?.uncompressedBytes ?? 0),
    0,
  );
  const bytes = 200 * pages.length + 150 * symbols.size + dictionaryBytes;
  return {
    symbolIndexes: symbols,
    offsets: Float64Array.from([...starts, row]),
    timePages: columns.t,
    pricePages: columns.p,
    memoryBytes: bytes,
  };
}

/** Reads the ticks of one symbol of an indexed part; empty if there are none. @throws Error if its pages cannot be decoded */
export function readSymbolTicks(
  file: Uint8Array,
  index: TickFileIndex,
  symbol: string,
  decompress?: DecompressPage,
): TickColumns {
  const i = index.symbolIndexes.get(symbol);
  if (i === undefined) return emptyTicks;
  const [from, to] = [index.offsets[i]!, index.offsets[i + 1]!];
  return {
    t: readColumnValues(file, index.timePages, 'int64', from, to, decompress),
    p: readColumnValues(file, index.pricePages, 'double', from, to, decompress),
  };
}

/**
 * Encodes the candles of one part, of any interval, at least one row. Deterministic: the same columns give the same
 * bytes.
 */
export const encodeCandles = (candles: CandleColumns, groupRows = rowGroupRows): Uint8Array => {
  const { symbols, offsets, ...values } = candles;
  return encodePartFile({ symbols, offsets }, datasets.candles_1h.columns, values, groupRows);
};
