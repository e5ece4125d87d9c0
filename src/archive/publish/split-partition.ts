import { compareUtf8 } from '../../core/symbol-name.ts';
import type { PartColumns, TickChunk } from '../../core/tick-columns.ts';
import type { SpilledChunk } from './import-buffer.ts';

/** Some symbols of a part, next to each other: what is published of them and what comes. */
export interface PartitionSlice {
  /** In UTF-8 order. */
  readonly symbols: readonly string[];
  readonly old: PartColumns;
  readonly chunks: readonly (TickChunk | SpilledChunk)[];
}

/**
 * Cuts the work on a part into lots of at most `ticksMax` ticks, old and new together, or of a single symbol. At least
 * one; each symbol that is published, comes, or is one of `others` stands in one of them.
 */
export function splitPartition(
  old: PartColumns,
  chunks: readonly (TickChunk | SpilledChunk)[],
  others: Iterable<string>,
  ticksMax: number,
): PartitionSlice[] {
  const weights = new Map<string, number>();
  const weigh = (symbol: string, ticks: number): void => {
    weights.set(symbol, (weights.get(symbol) ?? 0) + ticks);
  };
  for (const [i, symbol] of old.symbols.entries()) weigh(symbol, old.offsets[i + 1]! - old.offsets[i]!);
  for (const chunk of chunks) weigh(chunk.symbol, 'spilled' in chunk ? chunk.spilled.tickCount : chunk.t.length);
  for (const symbol of others) weigh(symbol, 0);
  const symbols = [...weights.keys()].sort(compareUtf8);
  const all = [...weights.values()].reduce((sum, ticks) => sum + ticks, 0);
  if (all <= ticksMax) return [{ symbols, old, chunks }];
  const lots: string[][] = [];
  let room = 0;
  for (const symbol of symbols) {
    const ticks = weights.get(symbol)!;
    if (lots.length === 0 || ticks > room) {
      lots.push([]);
      room = ticksMax;
    }
    lots.at(-1)!.push(symbol);
    room -= ticks;
  }
  const bySymbol = Map.groupBy(chunks, ({ symbol }) => symbol);
  let first = 0;
  return lots.map((names) => {
    let end = first;
    // Both are in the same order, and each old symbol stands in one of the lots.
    while (end < old.symbols.length && compareUtf8(old.symbols[end]!, names.at(-1)!) <= 0) end++;
    const lot = {
      symbols: names,
      old: sliceColumns(old, first, end),
      chunks: names.flatMap((name) => bySymbol.get(name) ?? []),
    };
    first = end;
    return lot;
  });
}

/** The columns of the symbols `first` to `end`. */
function sliceColumns({ symbols, offsets, t, p }: PartColumns, first: number, end: number): PartColumns {
  const [from, to] = [offsets[first]!, offsets[end]!];
  return {
    symbols: symbols.slice(first, end),
    offsets: offsets.slice(first, end + 1).map((offset) => offset - from),
    t: t.subarray(from, to),
    p: p.subarray(from, to),
  };
}
