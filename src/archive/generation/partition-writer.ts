import { type CandleColumns, type CandleInterval, candleIntervals, computeAllCandles } from '../../core/candles.ts';
import { concatCandles } from '../../core/concat-candles.ts';
import type { PartColumns } from '../../core/merge.ts';
import { assertPartOrder } from '../../core/part-order.ts';
import { dayMs, type Window } from '../../core/window.ts';
import type { SortKey } from '../../state/file-metadata.ts';
import { toDayPath } from '../layout.ts';
import { openTickFileWriter } from '../parquet/ticks-file.ts';
import { encodeCandleFile } from './encode-partition.ts';
import { computeFileStatistics, createEncodedFile, type EncodedFile, type FileStatistics } from './file-entry.ts';

/** The files of a part as it is merged, some symbols at a time: a part need not fit in memory. */
export interface PartitionWriter {
  /**
   * Adds the rows of further symbols, in their order. `coverage`: of these symbols.
   * @throws Error where a row is not of the day, or keys do not rise: nothing is written then
   * @param ticks whether they may have to be written, and not only candles of them
   */
  add(columns: PartColumns, coverage: ReadonlyMap<string, readonly Window[]>, ticks: boolean): void;
  /** The ticks, if they are wanted, and the candles; none where there are no rows. */
  finish(ticks: boolean): EncodedFile[];
}

/** @param bin `day` is a UTC midnight in epoch ms */
export function openPartitionWriter(
  bin: { readonly day: number; readonly part: number },
  intervals: readonly CandleInterval[],
  groupRows: number,
): PartitionWriter {
  const file = openTickFileWriter(groupRows);
  const lengths = intervals.map((interval) => candleIntervals[interval]);
  const lots: CandleColumns[][] = [];
  const keys = new Map<number, SortKey>();
  let facts: FileStatistics | undefined;
  let last: string | undefined;
  return {
    add(columns, coverage, ticks) {
      if (columns.t.length === 0) return;
      assertPartOrder(columns, { from: bin.day, to: bin.day + dayMs }, last);
      last = columns.symbols.at(-1);
      if (ticks) file.add(columns);
      collectRowGroupKeys(keys, columns, facts?.rows ?? 0, groupRows);
      facts = joinFileStatistics(facts, computeFileStatistics(bin.day, columns));
      lots.push(computeAllCandles(columns, coverage, lengths));
    },
    finish(ticks) {
      if (facts === undefined) return [];
      const path = toDayPath('ticks', bin.day, bin.part);
      return [
        ...(ticks ? [createEncodedFile('ticks', path, file.end(), facts, (row) => keys.get(row)!)] : []),
        ...intervals.map((interval, i) =>
          encodeCandleFile(interval, bin, concatCandles(lots.map((lot) => lot[i]!)), groupRows),
        ),
      ];
    },
  };
}

/** Notes the keys of rows at which a row group may begin or end; `at` rows come before these. */
function collectRowGroupKeys(
  keys: Map<number, SortKey>,
  { symbols, offsets, t }: PartColumns,
  at: number,
  groupRows: number,
): void {
  symbols.forEach((symbol, s) => {
    const [from, to] = [offsets[s]! + at, offsets[s + 1]! + at];
    for (let row = Math.ceil(from / groupRows) * groupRows; row <= to; row += groupRows)
      for (const edge of [row - 1, row]) if (edge >= from && edge < to) keys.set(edge, [symbol, t[edge - at]!]);
  });
  const last = at + t.length - 1;
  keys.set(last, [symbols.at(-1)!, t[last - at]!]);
}

function joinFileStatistics(a: FileStatistics | undefined, b: FileStatistics): FileStatistics {
  if (a === undefined) return b;
  return {
    date: b.date,
    rows: a.rows + b.rows,
    symbols: a.symbols + b.symbols,
    t_min: Math.min(a.t_min!, b.t_min!),
    t_max: Math.max(a.t_max!, b.t_max!),
  };
}
