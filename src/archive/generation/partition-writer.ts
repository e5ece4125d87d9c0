import { type CandleColumns, type CandleInterval, candleIntervals, candlesOfAll } from '../../core/candles.ts';
import { joinCandles } from '../../core/concat-candles.ts';
import type { PartColumns } from '../../core/merge.ts';
import { requirePartOrder } from '../../core/part-order.ts';
import { dayMs, type Window } from '../../core/window.ts';
import type { Key } from '../../state/file-metadata.ts';
import { dayPath } from '../layout.ts';
import { startTicks } from '../parquet/ticks-file.ts';
import { encodedCandlePart } from './encode-partition.ts';
import { type EncodedFile, encodedFile, type FileFacts, factsOfPart } from './file-entry.ts';

/** The files of a part as it is merged, some symbols at a time: a part need not fit in memory. */
export interface PartFiles {
  /**
   * Adds the rows of further symbols, in their order. `coverage`: of these symbols.
   * @throws Error where a row is not of the day, or keys do not rise: nothing is written then
   * @param ticks whether they may have to be written, and not only candles of them
   */
  add(columns: PartColumns, coverage: ReadonlyMap<string, readonly Window[]>, ticks: boolean): void;
  /** The ticks, if they are wanted, and the candles; none where there are no rows. */
  end(ticks: boolean): EncodedFile[];
}

/** @param bin `day` is a UTC midnight in epoch ms */
export function startPartFiles(
  bin: { readonly day: number; readonly part: number },
  intervals: readonly CandleInterval[],
  groupRows: number,
): PartFiles {
  const file = startTicks(groupRows);
  const lengths = intervals.map((interval) => candleIntervals[interval]);
  const lots: CandleColumns[][] = [];
  const keys = new Map<number, Key>();
  let facts: FileFacts | undefined;
  let last: string | undefined;
  return {
    add(columns, coverage, ticks) {
      if (columns.t.length === 0) return;
      requirePartOrder(columns, { from: bin.day, to: bin.day + dayMs }, last);
      last = columns.symbols.at(-1);
      if (ticks) file.add(columns);
      noteKeys(keys, columns, facts?.rows ?? 0, groupRows);
      facts = joinFacts(facts, factsOfPart(bin.day, columns));
      lots.push(candlesOfAll(columns, coverage, lengths));
    },
    end(ticks) {
      if (facts === undefined) return [];
      const path = dayPath('ticks', bin.day, bin.part);
      return [
        ...(ticks ? [encodedFile('ticks', path, file.end(), facts, (row) => keys.get(row)!)] : []),
        ...intervals.map((interval, i) =>
          encodedCandlePart(interval, bin, joinCandles(lots.map((lot) => lot[i]!)), groupRows),
        ),
      ];
    },
  };
}

/** Notes the keys of rows at which a row group may begin or end; `at` rows come before these. */
function noteKeys(keys: Map<number, Key>, { symbols, offsets, t }: PartColumns, at: number, groupRows: number): void {
  symbols.forEach((symbol, s) => {
    const [from, to] = [offsets[s]! + at, offsets[s + 1]! + at];
    for (let row = Math.ceil(from / groupRows) * groupRows; row <= to; row += groupRows)
      for (const edge of [row - 1, row]) if (edge >= from && edge < to) keys.set(edge, [symbol, t[edge - at]!]);
  });
  const last = at + t.length - 1;
  keys.set(last, [symbols.at(-1)!, t[last - at]!]);
}

function joinFacts(a: FileFacts | undefined, b: FileFacts): FileFacts {
  if (a === undefined) return b;
  return {
    date: b.date,
    rows: a.rows + b.rows,
    symbols: a.symbols + b.symbols,
    t_min: Math.min(a.t_min!, b.t_min!),
    t_max: Math.max(a.t_max!, b.t_max!),
  };
}
