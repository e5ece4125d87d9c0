/** Rows grouped by symbol: symbol i holds rows offsets[i] to offsets[i + 1]. */
export interface SymbolOffsets {
  readonly symbols: readonly string[];
  readonly offsets: Float64Array;
}

/** Finds the index of the symbol that holds a row, by binary search. */
export function findSymbolIndex(offsets: Float64Array, row: number): number {
  let low = 0;
  let high = offsets.length - 2;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (offsets[middle]! <= row) low = middle;
    else high = middle - 1;
  }
  return low;
}
