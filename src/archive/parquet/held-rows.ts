import { symbolAt } from './column-chunk.ts';
import type { BySymbol } from './column-data.ts';
import type { FileColumn } from './column-file.ts';

/** Rows that wait for their row group to be full. */
export interface HeldRows {
  readonly by: BySymbol;
  readonly columns: readonly FileColumn[];
}

/** The rows of one behind those of the other; the symbols of the second come after those of the first. */
export function joinRows(a: HeldRows, b: HeldRows): HeldRows {
  const rows = a.by.offsets.at(-1)!;
  const offsets = new Float64Array(a.by.offsets.length + b.by.offsets.length - 1);
  offsets.set(a.by.offsets);
  for (let i = 1; i < b.by.offsets.length; i++) offsets[a.by.symbols.length + i] = rows + b.by.offsets[i]!;
  return {
    by: { symbols: [...a.by.symbols, ...b.by.symbols], offsets },
    columns: a.columns.map((column, c) => joinColumns(column, b.columns[c]!)),
  };
}

function joinColumns(a: FileColumn, b: FileColumn): FileColumn {
  if (a.type === 'int32' && b.type === 'int32') {
    const values = new Int32Array(a.values.length + b.values.length);
    values.set(a.values);
    values.set(b.values, a.values.length);
    return { ...a, values };
  }
  if (a.type === 'symbol' || a.type === 'int32' || b.type === 'symbol' || b.type === 'int32') return a;
  const values = new Float64Array(a.values.length + b.values.length);
  values.set(a.values);
  values.set(b.values, a.values.length);
  return { ...a, values };
}

/** A copy of the rows from `from` on, at least one, so that the others can go. */
export function rowsBehind({ by: { symbols, offsets }, columns }: HeldRows, from: number): HeldRows {
  const first = symbolAt(offsets, from);
  const left = offsets.slice(first).map((offset) => Math.max(0, offset - from));
  return {
    by: { symbols: symbols.slice(first), offsets: left },
    columns: columns.map((column): FileColumn => {
      if (column.type === 'symbol') return column;
      return column.type === 'int32'
        ? { ...column, values: column.values.slice(from) }
        : { ...column, values: column.values.slice(from) };
    }),
  };
}
