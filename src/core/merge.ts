import { createMergeScratch } from './merge-order.ts';
import { copyRows, mergeSymbol } from './merge-symbol.ts';
import { createPrecedenceRecorder, type KnownPrecedence, type PrecedenceWindow } from './precedence.ts';
import type { MergeOutput } from './resolve-conflict.ts';
import { compareUtf8 } from './symbol-name.ts';
import { type Conflict, emptyPart, type PartColumns, type RunTally, type TickChunk } from './tick-columns.ts';

export interface MergedPart {
  readonly columns: PartColumns;
  /** False where the columns are the old ones, row for row. */
  readonly isChanged: boolean;
  readonly conflicts: readonly Conflict[];
  /** Standings that the published keys have now and had not before: of all of them that lie in a window. */
  readonly precedence: readonly PrecedenceWindow[];
  readonly tallies: ReadonlyMap<string, RunTally>;
  /** Rows added, by symbol. */
  readonly added: ReadonlyMap<string, number>;
}

/** Room for columns, made when it is needed; new one has to be cleared, and had from the system page by page. */
export interface MergeBuffers {
  t: Float64Array;
  p: Float64Array;
}

/**
 * Merges new chunks into a part. Pure: the same observations give the same columns in whatever order and grouping
 * they come. `accepted` counts the rows added, `conflicts` the ticks whose key is held at another price.
 * @param room where the columns are made, if their room is to be used again: they hold until it is handed over once more
 */
export function mergePart(
  old: PartColumns,
  chunks: readonly TickChunk[],
  known: KnownPrecedence,
  room: MergeBuffers = { t: emptyPart.t, p: emptyPart.p },
): MergedPart {
  const bySymbol = groupChunksBySymbol(chunks);
  const brought = [...bySymbol.keys()].sort(compareUtf8);
  const capacity = old.t.length + chunks.reduce((sum, c) => sum + c.t.length, 0);
  if (room.t.length < capacity) room.t = new Float64Array(capacity);
  if (room.p.length < capacity) room.p = new Float64Array(capacity);
  const out: MergeOutput = {
    t: room.t,
    p: room.p,
    length: 0,
    source: new Uint32Array(0),
    scratch: createMergeScratch(),
    isChanged: false,
    conflicts: [],
    precedence: createPrecedenceRecorder(),
    tallies: new Map(),
    knownPrecedence: known,
  };
  const symbols: string[] = [];
  const offsets = new Float64Array(old.symbols.length + brought.length + 1);
  const added = new Map<string, number>();
  let s = 0;
  /** Up to here the old rows are dealt with: symbols that nothing came for are copied together. */
  let done = old.offsets[0]!;
  /** Enters the old symbols before `end` as they are. */
  const keep = (end: number): void => {
    const from = done;
    // What is copied lands this much further on than it lay.
    const shift = out.length - from;
    for (; s < end; s++) {
      symbols.push(old.symbols[s]!);
      done = old.offsets[s + 1]!;
      offsets[symbols.length] = done + shift;
    }
    copyRows(out, old, from, done);
  };
  for (const symbol of brought) {
    let at = s;
    while (at < old.symbols.length && compareUtf8(old.symbols[at]!, symbol) < 0) at++;
    keep(at);
    if (old.symbols[s] === symbol) s++;
    const [from, to] = [done, old.offsets[s]!];
    const before = out.length;
    mergeSymbol(out, symbol, old, from, to, bySymbol.get(symbol)!);
    done = to;
    symbols.push(symbol);
    offsets[symbols.length] = out.length;
    added.set(symbol, out.length - before - (to - from));
  }
  keep(old.symbols.length);
  return {
    columns: {
      symbols,
      offsets: offsets.slice(0, symbols.length + 1),
      t: out.t.subarray(0, out.length),
      p: out.p.subarray(0, out.length),
    },
    isChanged: out.isChanged,
    conflicts: out.conflicts,
    precedence: out.precedence.windows,
    tallies: out.tallies,
    added,
  };
}

/** Those with ticks, in the order they came. */
function groupChunksBySymbol(chunks: readonly TickChunk[]): Map<string, TickChunk[]> {
  const bySymbol = new Map<string, TickChunk[]>();
  for (const chunk of chunks) {
    if (chunk.t.length === 0) continue;
    const list = bySymbol.get(chunk.symbol);
    if (list === undefined) bySymbol.set(chunk.symbol, [chunk]);
    else list.push(chunk);
  }
  return bySymbol;
}
