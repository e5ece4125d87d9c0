import { closeSync, openSync, readSync } from 'node:fs';
import { LRUCache } from 'lru-cache';
import {
  copyPrices,
  copyTimes,
  type ReadRange,
  readTickGroup,
  readTickRowGroups,
  type TickGroupPages,
  type TickRowGroup,
} from '../../archive/parquet/tick-row-groups.ts';
import { decodePublished } from '../../archive/read-published-file.ts';
import { findFirstAtOrAfter, findFirstIndex } from '../../base/binary-search.ts';
import type { SymbolRange } from '../../base/symbol-range.ts';
import type { TickColumns } from '../../base/ticks.ts';
import type { Window } from '../../base/window.ts';

/** A pinned file of ticks. */
export interface TickFile {
  /** Absolute. */
  readonly path: string;
  readonly bytes: number;
  /** The range of its symbols. */
  readonly range: SymbolRange;
  /** Whether all of its ticks are in the window of the batch. */
  readonly isInWindow: boolean;
}

/** The ticks exceed the maximum in memory. */
export class TooManyTicksError extends Error {}

interface TickFilesRequest {
  /** By day. */
  readonly files: readonly TickFile[];
  /** Sorted by UTF-8 bytes. */
  readonly symbols: readonly string[];
  readonly window: Window;
}

/**
 * Reads the ticks of symbols: reads the row groups that may have rows of the symbols, counts the rows, and then decodes them
 * straight into the columns.
 * @param throwIfStopped called for each row group
 * @throws TooManyTicksError before any tick is loaded; DamageError if a file is not stored as our writers store ticks
 */
export function readTickFiles(
  { files, symbols, window }: TickFilesRequest,
  memory: TickMemory,
  ticksMax: number,
  throwIfStopped: () => void,
): TickColumns[] {
  const symbolIndexes = new Map(symbols.map((symbol, i) => [symbol, i]));
  const names = symbols.map((symbol) => Buffer.from(symbol, 'utf8'));
  const counts = new Float64Array(symbols.length);
  const groups: WantedRows[] = [];
  let total = 0;
  for (const file of files) {
    for (const group of readWantedGroups(file, names, symbolIndexes, throwIfStopped)) {
      const wanted = file.isInWindow ? group : clipRuns(group, symbols, window);
      for (const { of, from, to } of wanted.runs) {
        counts[of]! += to - from;
        total += to - from;
      }
      if (total > ticksMax) throw new TooManyTicksError(`more than ${ticksMax} ticks`);
      groups.push(wanted);
    }
  }
  const { t, p } = memory.take(total);
  const starts = new Float64Array(symbols.length);
  for (let i = 1; i < starts.length; i++) starts[i] = starts[i - 1]! + counts[i - 1]!;
  const filled = starts.slice();
  for (const { path, pages, runs } of groups) {
    throwIfStopped();
    const ranges = runs.map((run) => {
      const outAt = filled[run.of]!;
      filled[run.of]! += run.to - run.from;
      return { ...run, outAt };
    });
    decodePublished(path, () => copyTimes(pages, ranges, t));
    // Checked while the times are in the cache of the processor, together with the last one before them.
    for (const { of, from, to, outAt } of ranges)
      requireAscending(symbols[of]!, t.subarray(Math.max(starts[of]!, outAt - 1), outAt + to - from));
    decodePublished(path, () => copyPrices(pages, ranges, p));
  }
  return symbols.map((_, i) => {
    const [from, to] = [starts[i]!, starts[i]! + counts[i]!];
    return { t: t.subarray(from, to), p: p.subarray(from, to) };
  });
}

/** Consecutive rows of a symbol in a row group. */
interface RowRun {
  /** Index of the symbol. */
  readonly of: number;
  readonly from: number;
  readonly to: number;
}

/** The rows of the requested symbols in a row group. */
interface WantedRows {
  /** Of the file. */
  readonly path: string;
  readonly pages: TickGroupPages;
  readonly runs: readonly RowRun[];
}

/** Reads the row groups of a file that have rows of the symbols. */
function* readWantedGroups(
  { path, bytes }: TickFile,
  names: readonly Uint8Array[],
  symbolIndexes: ReadonlyMap<string, number>,
  throwIfStopped: () => void,
): Generator<WantedRows> {
  const file = openSync(path, 'r');
  try {
    const read: ReadRange = (from, to) => readFully(file, from, to);
    for (const group of decodePublished(path, () => readCachedGroups(path, bytes, read))) {
      if (!mayHaveAny(group, names)) continue;
      throwIfStopped();
      const runs: RowRun[] = [];
      let row = 0;
      const addRun = (symbol: string, count: number): void => {
        const of = symbolIndexes.get(symbol);
        const last = runs.at(-1);
        if (of !== undefined && last?.of === of && last.to === row)
          runs[runs.length - 1] = { ...last, to: row + count };
        else if (of !== undefined) runs.push({ of, from: row, to: row + count });
        row += count;
      };
      const pages = decodePublished(path, () => readTickGroup(group, read(group.start, group.end), addRun));
      if (runs.length > 0) yield { path, pages, runs };
    }
  } finally {
    closeSync(file);
  }
}

/** Whether the bounds of a row group include one of the sorted names. */
function mayHaveAny({ symbolMin, symbolMax }: TickRowGroup, names: readonly Uint8Array[]): boolean {
  if (symbolMin === null || symbolMax === null) return true;
  const first = names[findFirstIndex(0, names.length, (i) => Buffer.compare(names[i]!, symbolMin) >= 0)];
  return first !== undefined && Buffer.compare(first, symbolMax) <= 0;
}

/** Limits runs to the rows in a window. */
function clipRuns({ path, pages, runs }: WantedRows, symbols: readonly string[], window: Window): WantedRows {
  const clipped: RowRun[] = [];
  for (const { of, from, to } of runs) {
    const t = new Float64Array(to - from);
    decodePublished(path, () => copyTimes(pages, [{ from, to, outAt: 0 }], t));
    requireAscending(symbols[of]!, t);
    const [first, end] = [findFirstAtOrAfter(t, window.from), findFirstAtOrAfter(t, window.to)];
    if (first < end) clipped.push({ of, from: from + first, to: from + end });
  }
  return { path, pages, runs: clipped };
}

/** Checks the assumed order of rows. */
function requireAscending(symbol: string, t: Float64Array): void {
  for (let i = 1; i < t.length; i++)
    if (!(t[i]! > t[i - 1]!)) throw new Error(`the ticks of ${symbol} are out of order`);
}

function readFully(file: number, from: number, to: number): Uint8Array {
  if (!(from >= 0 && from <= to)) throw new Error('a file has an invalid offset');
  const bytes = Buffer.allocUnsafeSlow(to - from);
  for (let at = 0; at < bytes.length; ) {
    const count = readSync(file, bytes, at, bytes.length - at, from + at);
    if (count === 0) throw new Error('a file is truncated');
    at += count;
  }
  return bytes;
}

/** Row groups of the files read by this thread: each batch reads the same files, because they are split by day. */
const cachedGroups = new LRUCache<string, readonly TickRowGroup[]>({
  // Each takes about a kilobyte.
  maxSize: 20_000,
  sizeCalculation: (groups) => Math.max(1, groups.length),
});

function readCachedGroups(path: string, bytes: number, read: ReadRange): readonly TickRowGroup[] {
  const groups = cachedGroups.get(path) ?? readTickRowGroups(bytes, read);
  cachedGroups.set(path, groups);
  return groups;
}

/** Memory for the ticks of one batch at a time. Memory that is already mapped saves a quarter of the time of reading. */
export type TickMemory = ReturnType<typeof createTickMemory>;

/** @param rowsMax maximum number of rows that are kept, 16 bytes each */
export function createTickMemory(rowsMax: number) {
  const allocate = (rows: number): TickColumns => ({ t: new Float64Array(rows), p: new Float64Array(rows) });
  let kept = allocate(0);
  let used = 0;
  /** Rows of the largest batch so far, if they can be kept. */
  let needed = 0;
  return {
    /** Columns of this length. Their values are arbitrary. */
    take(rows: number): TickColumns {
      const from = used;
      used += rows;
      if (used <= kept.t.length) return { t: kept.t.subarray(from, used), p: kept.p.subarray(from, used) };
      // Columns that were taken before stay valid, because `kept` is replaced only if there are none.
      if (from > 0 || rows > rowsMax) return allocate(rows);
      kept = allocate(Math.max(rows, needed));
      return { t: kept.t.subarray(0, rows), p: kept.p.subarray(0, rows) };
    },
    /** The columns that were taken may be used for others. */
    reset(): void {
      if (used <= rowsMax) needed = Math.max(needed, used);
      used = 0;
    },
  };
}
