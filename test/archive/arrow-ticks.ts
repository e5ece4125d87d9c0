import { datasets } from '../../src/archive/format/datasets.ts';
import type { PartColumns } from '../../src/archive/format/tick-columns.ts';
import type { RowGroupIndexes } from '../../src/archive/parquet/file-pages.ts';
import { type CellValue, decodeRowsWithArrow, encodeRowsWithArrow } from '../../src/archive/parquet/rows.ts';
import { rowGroupRows } from '../../src/archive/parquet/writer.ts';

// Files of ticks by Arrow and parquet-wasm: the reference that our own writer and reader are tested against.

/** Encodes the ticks of one part, at least one row. Deterministic: the same columns give the same bytes. */
export function encodeTicksWithArrow({ symbols, offsets, t, p }: PartColumns, groupRows = rowGroupRows): Uint8Array {
  const rows = symbols.flatMap((symbol, s) =>
    Array.from({ length: offsets[s + 1]! - offsets[s]! }, (_, i): CellValue[] => {
      const row = offsets[s]! + i;
      return [symbol, t[row]!, p[row]!];
    }),
  );
  return encodeRowsWithArrow(datasets.ticks.columns, rows, groupRows);
}

/** Decodes a part written by `encodeTicksWithArrow`, or some of its row groups. @throws Error if it cannot be read */
export function decodeTicksWithArrow(bytes: Uint8Array, groups?: RowGroupIndexes): PartColumns {
  const rows = decodeRowsWithArrow(datasets.ticks.columns, bytes, groups) as [string, number, number][];
  const symbols: string[] = [];
  const starts: number[] = [];
  rows.forEach(([symbol], row) => {
    if (symbols.at(-1) === symbol) return;
    symbols.push(symbol);
    starts.push(row);
  });
  return {
    symbols,
    offsets: Float64Array.from([...starts, rows.length]),
    t: Float64Array.from(rows, ([, t]) => t),
    p: Float64Array.from(rows, ([, , p]) => p),
  };
}
