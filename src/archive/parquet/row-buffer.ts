import { findSymbolIndex, type SymbolOffsets } from './symbol-offsets.ts';

/** The numbers of a column, whole ones where its type says so. */
export type NumberArray = Float64Array | Int32Array;

/** Rows that wait for their row group to be full: those of symbols, and the columns beside the symbol, by name. */
export interface BufferedRows {
  readonly symbolOffsets: SymbolOffsets;
  readonly values: Readonly<Record<string, NumberArray>>;
}

/** The rows of one behind those of the other; the symbols of the second come after those of the first. */
export function concatRows(a: BufferedRows, b: BufferedRows): BufferedRows {
  const rows = a.symbolOffsets.offsets.at(-1)!;
  const offsets = new Float64Array(a.symbolOffsets.offsets.length + b.symbolOffsets.symbols.length);
  offsets.set(a.symbolOffsets.offsets);
  for (let i = 1; i < b.symbolOffsets.offsets.length; i++)
    offsets[a.symbolOffsets.symbols.length + i] = rows + b.symbolOffsets.offsets[i]!;
  return {
    symbolOffsets: { symbols: [...a.symbolOffsets.symbols, ...b.symbolOffsets.symbols], offsets },
    values: mapColumns(a.values, (numbers, name) => concatNumbers(numbers, b.values[name]!)),
  };
}

function concatNumbers(a: NumberArray, b: NumberArray): NumberArray {
  const length = a.length + b.length;
  const joined = a instanceof Int32Array ? new Int32Array(length) : new Float64Array(length);
  joined.set(a);
  joined.set(b, a.length);
  return joined;
}

/** A copy of the rows `from` to `to`, at least one, so that the others can go. */
export function copyRowRange(
  { symbolOffsets: { symbols, offsets }, values }: BufferedRows,
  from: number,
  to: number,
): BufferedRows {
  const first = findSymbolIndex(offsets, from);
  const last = findSymbolIndex(offsets, to - 1);
  const between = offsets.slice(first, last + 2).map((offset) => Math.min(to, Math.max(from, offset)) - from);
  return {
    symbolOffsets: { symbols: symbols.slice(first, last + 1), offsets: between },
    values: mapColumns(values, (numbers) => numbers.slice(from, to)),
  };
}

const mapColumns = (
  values: BufferedRows['values'],
  change: (numbers: NumberArray, name: string) => NumberArray,
): Record<string, NumberArray> =>
  Object.fromEntries(Object.entries(values).map(([name, numbers]) => [name, change(numbers, name)]));
