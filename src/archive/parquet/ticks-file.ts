import { emptyTicks, type TickColumns } from '../../base/ticks.ts';
import type { CandleColumns } from '../format/candles.ts';
import { datasets } from '../format/datasets.ts';
import type { PartColumns } from '../format/tick-columns.ts';
import { openPartFile, readNumbers } from './column-reader.ts';
import type { RowGroupIndexes } from './file-pages.ts';
import { indexSymbolRows, type SymbolRowIndex } from './symbol-row-index.ts';
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
  const { symbols, offsets, readNumbers } = openPartFile('ticks', bytes, groups);
  return { symbols, offsets, t: readNumbers('t'), p: readNumbers('p') };
}

/** Indexes a part by its symbols, without reading times and prices. @throws Error if it is not stored as our writers store ticks */
export const indexTickFile = (file: Uint8Array): SymbolRowIndex =>
  indexSymbolRows(datasets.ticks.columns, ['symbol'], file);

/** Reads the ticks of one symbol of an indexed part; empty if there are none. @throws Error if its pages cannot be decoded */
export function readSymbolTicks(
  file: Uint8Array,
  { keyIndexes, offsets, columns }: SymbolRowIndex,
  symbol: string,
): TickColumns {
  const i = keyIndexes.get(symbol);
  if (i === undefined) return emptyTicks;
  const read = (name: 't' | 'p'): Float64Array => readNumbers(file, columns.get(name)!, offsets[i]!, offsets[i + 1]!);
  return { t: read('t'), p: read('p') };
}

/**
 * Encodes the candles of one part, of any interval, at least one row. Deterministic: the same columns give the same
 * bytes.
 */
export const encodeCandles = (candles: CandleColumns, groupRows = rowGroupRows): Uint8Array => {
  const { symbols, offsets, ...values } = candles;
  return encodePartFile({ symbols, offsets }, datasets.candles_1h.columns, values, groupRows);
};
