import type { SeriesColumns } from '../../../src/archive/format/series.ts';
import { compareUtf8 } from '../../../src/base/symbol-name.ts';

/** A row of a series; a missing number is NaN. */
export type SeriesRow = readonly [symbol: string, t: number, ...values: number[]];

/** Rows of any symbols in the layout of a part: sorted by symbol and t. Rows of one symbol and t keep their order. */
export function toSeriesColumns(rows: readonly SeriesRow[], width: number): SeriesColumns {
  const sorted = rows.toSorted(([a, s], [b, t]) => compareUtf8(a, b) || s - t);
  const bySymbol = Map.groupBy(sorted, ([symbol]) => symbol);
  let offset = 0;
  return {
    symbols: [...bySymbol.keys()],
    offsets: Float64Array.from([0, ...[...bySymbol.values()].map((list) => (offset += list.length))]),
    t: Float64Array.from(sorted, ([, t]) => t),
    values: Array.from({ length: width }, (_, c) => Float64Array.from(sorted, (row) => row[c + 2] as number)),
    texts: [],
  };
}
