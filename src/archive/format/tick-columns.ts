import { findFirstAtOrAfter } from '../../base/binary-search.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';
import type { TickColumns } from '../../base/ticks.ts';
import type { Window } from '../../base/window.ts';
import type { Precedence } from './precedence.ts';

/** Ticks of one symbol from one response, in any order, possibly with duplicates. */
export interface TickChunk extends TickColumns, Precedence {
  readonly symbol: string;
  /** The run that counts these ticks. */
  readonly runId: string;
}

/** Rows grouped by symbol: symbol i holds rows offsets[i] to offsets[i + 1]. */
export interface SymbolOffsets {
  readonly symbols: readonly string[];
  readonly offsets: Float64Array;
}

/** Finds the index of the symbol to which a row belongs. */
export const findSymbolIndex = (offsets: Float64Array, row: number): number => findFirstAtOrAfter(offsets, row + 1) - 1;

/** Adjacent symbols of a part that are merged together. */
export interface PartSlice<C> {
  /** In UTF-8 order. */
  readonly symbols: readonly string[];
  /** The published symbols among them: indexes `first` to `end` (exclusive). */
  readonly first: number;
  readonly end: number;
  /** Their new chunks. */
  readonly chunks: readonly C[];
}

/**
 * Splits a part into slices of at most `rowsMax` rows, old and new together, or of a single symbol, so that merging needs
 * little memory. Slices are in the order of their symbols. Each symbol of `others`, or with
 * rows, is in one of them.
 * @param countRows the number of rows of a chunk, which need not be in memory
 */
export function splitPart<C extends { readonly symbol: string }>(
  { symbols: oldSymbols, offsets }: SymbolOffsets,
  chunks: readonly C[],
  others: ReadonlySet<string>,
  rowsMax: number,
  countRows: (chunk: C) => number,
): PartSlice<C>[] {
  const bySymbol = Map.groupBy(chunks, ({ symbol }) => symbol);
  const oldIndex = new Map(oldSymbols.map((symbol, i) => [symbol, i]));
  const slices: { symbols: string[]; first: number; end: number; chunks: C[] }[] = [];
  let rows = 0;
  for (const symbol of [...new Set([...oldSymbols, ...bySymbol.keys(), ...others])].sort(compareUtf8)) {
    const i = oldIndex.get(symbol);
    const added = bySymbol.get(symbol) ?? [];
    const held = i === undefined ? 0 : offsets[i + 1]! - offsets[i]!;
    const count = added.reduce((sum, chunk) => sum + countRows(chunk), held);
    if (count === 0 && !others.has(symbol)) continue;
    if (slices.length === 0 || (rows > 0 && rows + count > rowsMax)) {
      const first = slices.at(-1)?.end ?? 0;
      slices.push({ symbols: [], first, end: first, chunks: [] });
      rows = 0;
    }
    const slice = slices.at(-1)!;
    slice.symbols.push(symbol);
    if (i !== undefined) slice.end++;
    for (const chunk of added) slice.chunks.push(chunk);
    rows += count;
  }
  return slices;
}

/** Ticks of many symbols, each sorted by t. Symbols are in UTF-8 order. */
export interface PartColumns extends TickColumns, SymbolOffsets {}

/** The symbols and times of rows, for code that needs nothing else. */
export type TimedColumns = Pick<PartColumns, 'symbols' | 'offsets' | 't'>;

export interface Conflict {
  readonly symbol: string;
  readonly t: number;
  readonly kept: number;
  readonly dropped: number;
  readonly seenAt: number;
}

export interface RunTally {
  accepted: number;
  duplicates: number;
  conflicts: number;
}

export const noTicks: Readonly<RunTally> = { accepted: 0, duplicates: 0, conflicts: 0 };

export const addTallies = (a: Readonly<RunTally>, b: Readonly<RunTally>): RunTally => ({
  accepted: a.accepted + b.accepted,
  duplicates: a.duplicates + b.duplicates,
  conflicts: a.conflicts + b.conflicts,
});

/** The tally of a run, in which its rows are counted. */
export function openTally(tallies: Map<string, RunTally>, runId: string): RunTally {
  const tally = tallies.get(runId) ?? { accepted: 0, duplicates: 0, conflicts: 0 };
  tallies.set(runId, tally);
  return tally;
}

export const emptyPart: PartColumns = {
  symbols: [],
  offsets: new Float64Array(1),
  t: new Float64Array(0),
  p: new Float64Array(0),
};

/** Returns a lookup of a symbol's tick times, ascending; empty for a symbol without ticks. */
export function indexTickTimes({ symbols, offsets, t }: TimedColumns): (symbol: string) => Float64Array {
  const index = new Map(symbols.map((symbol, i) => [symbol, i]));
  return (symbol) => {
    const at = index.get(symbol);
    return at === undefined ? t.subarray(0, 0) : t.subarray(offsets[at]!, offsets[at + 1]!);
  };
}

/** Counts the ascending times inside a half-open window. */
export const countTicksInWindow = (t: Float64Array, { from, to }: Window): number =>
  findFirstAtOrAfter(t, to) - findFirstAtOrAfter(t, from);

/**
 * Checks rows before they are written to a part: symbols in UTF-8 order, each once, and strictly ascending times inside
 * the part's day.
 * @param after the symbol written before these; undefined if there is none
 * @param canRepeat whether a symbol may have several rows at one time
 * @throws Error if a row is out of order, repeats a key or lies outside the day
 */
export function assertPartOrder(
  { symbols, offsets, t }: Pick<PartColumns, 'symbols' | 'offsets' | 't'>,
  { from, to }: Window,
  after?: string,
  canRepeat = false,
): void {
  let previous = after;
  for (let s = 0; s < symbols.length; s++) {
    const symbol = symbols[s]!;
    if (previous !== undefined && compareUtf8(previous, symbol) >= 0)
      throw createPartOrderError(`${symbol} follows ${previous}`);
    previous = symbol;
    const end = offsets[s + 1]!;
    // The comparisons are negated so that NaN is rejected.
    let last = from - 1;
    for (let i = offsets[s]!; i < end; i++) {
      const time = t[i]!;
      if (!(time > last || (canRepeat && time === last && i > offsets[s]!)))
        throw createPartOrderError(`${symbol} has ${time} after ${last}`);
      last = time;
    }
    if (!(last < to)) throw createPartOrderError(`${symbol} has ${last}, which is not before ${to}`);
  }
}

const createPartOrderError = (detail: string): Error =>
  new Error(`Invalid rows for a part file; nothing was written: ${detail}. This is a bug.`);
