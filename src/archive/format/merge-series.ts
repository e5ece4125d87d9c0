import { compareUtf8 } from '../../base/symbol-name.ts';
import { type MergedPart, mergePart } from './merge.ts';
import {
  createPrecedenceRecorder,
  hasPrecedence,
  hasSamePrecedence,
  type KnownPrecedence,
  type Precedence,
  type PrecedenceRecorder,
  type PrecedenceWindow,
} from './precedence.ts';
import {
  compareRowIds,
  createUnknown,
  pickSeriesRows,
  type SeriesChunk,
  type SeriesColumns,
  type SeriesConflict,
  type SeriesRows,
} from './series.ts';
import { hasRowIds, type SeriesDataset } from './series-datasets.ts';
import { compareRows, dropRepeatedConflicts, joinRows, toSeriesConflict } from './series-rows.ts';
import { numberTexts } from './text-columns.ts';
import { emptyPart, openTally, type RunTally } from './tick-columns.ts';

export interface MergedSeries extends Omit<MergedPart, 'columns' | 'conflicts'> {
  readonly columns: SeriesColumns;
  /** Each dropped row once for each time at which it was seen. */
  readonly conflicts: readonly SeriesConflict[];
}

/**
 * Merges new chunks into a series by the rule for ticks (`merge.ts`): of the rows of one key, the one with the greatest
 * (rank, time of observation, numbers and texts) is kept, with the finer times of all of them: see `shareTimes`. Pure: the result
 * does not depend on the order and grouping of the observations.
 */
export const mergeSeries = (
  dataset: SeriesDataset,
  old: SeriesColumns,
  chunks: readonly SeriesChunk[],
  known: KnownPrecedence,
): MergedSeries => (hasRowIds(dataset) ? mergeRowsById : mergeRowsByTime)(old, chunks, known);

/** Merges rows of which one is kept for each symbol and time, as ticks whose value is the index of the row. */
function mergeRowsByTime(old: SeriesColumns, chunks: readonly SeriesChunk[], known: KnownPrecedence): MergedSeries {
  const all = joinRows(old, chunks);
  const bySymbol = groupChunks(old.t.length, chunks);
  const indexed = [...bySymbol.values()]
    .flat()
    .map(({ chunk, first }) => ({ ...chunk, p: createRowIndexes(first, chunk.t.length) }));
  const hasNewTimes = shareTimesByTime(all, old, bySymbol);
  const { columns, conflicts, ...merged }: MergedPart = mergePart(
    { symbols: old.symbols, offsets: old.offsets, t: old.t, p: createRowIndexes(0, old.t.length) },
    indexed,
    known,
    { t: emptyPart.t, p: emptyPart.p },
    { isSame: (a, b) => compareRows(all, a, b) === 0, isGreater: (a, b) => compareRows(all, a, b) > 0 },
  );
  const { symbols, offsets, p: kept } = columns;
  return {
    ...merged,
    isChanged: merged.isChanged || hasNewTimes,
    columns: { symbols, offsets, ...pickSeriesRows(all, kept) },
    conflicts: dropRepeatedConflicts(
      conflicts.map(({ symbol, seenAt, dropped }) => toSeriesConflict(all, dropped, symbol, seenAt)),
    ),
  };
}

/**
 * Gives all rows of one key, in place, the finer times that are kept of it: the latest `event_at`, which of one time in several
 * precisions is the finest, and the earliest `received_at`, when the first recorder had it. Unknown times lose to known ones. As
 * these are a maximum and a minimum over all observations of the key, whichever row is kept, their order does not matter.
 * @param numbers the number of the key of each of `rows`
 * @param held rows before this one are published
 * @returns whether a published row got another time
 */
function shareTimes(
  { times = [] }: SeriesRows,
  rows: ArrayLike<number>,
  numbers: ArrayLike<number>,
  held: number,
): boolean {
  let isChanged = false;
  for (const [c, column] of times.entries()) {
    const shared = createUnknown(rows.length);
    for (let i = 0; i < rows.length; i++) {
      const [time, best] = [column[rows[i]!]!, shared[numbers[i]!]!];
      if (Number.isNaN(best) || (c === 0 ? time > best : time < best)) shared[numbers[i]!] = time;
    }
    for (let i = 0; i < rows.length; i++) {
      const time = shared[numbers[i]!]!;
      isChanged ||= rows[i]! < held && !Object.is(column[rows[i]!], time);
      column[rows[i]!] = time;
    }
  }
  return isChanged;
}

/** Shares the finer times of rows of one symbol and time. Of the rows that a chunk has of one time, only the last one counts. */
function shareTimesByTime(
  all: SeriesRows,
  old: SeriesColumns,
  bySymbol: ReadonlyMap<string, readonly IndexedChunk[]>,
): boolean {
  let isChanged = false;
  const oldIndex = new Map(old.symbols.map((symbol, i) => [symbol, i]));
  for (const [symbol, fresh] of all.times === undefined ? [] : bySymbol) {
    const i = oldIndex.get(symbol);
    const ranges = fresh.map(({ chunk, first }) => [first, first + chunk.t.length] as const);
    if (i !== undefined) ranges.push([old.offsets[i]!, old.offsets[i + 1]!]);
    const rows = ranges.flatMap(([from, to]) =>
      Array.from({ length: to - from }, (_, k) => from + k).filter(
        (row) => row + 1 === to || all.t[row + 1] !== all.t[row],
      ),
    );
    const keys = new Map<number, number>();
    for (const row of rows) if (!keys.has(all.t[row]!)) keys.set(all.t[row]!, keys.size);
    const numbers = rows.map((row) => keys.get(all.t[row]!)!);
    isChanged = shareTimes(all, rows, numbers, old.t.length) || isChanged;
  }
  return isChanged;
}

function createRowIndexes(first: number, length: number): Float64Array {
  const indexes = new Float64Array(length);
  for (let i = 0; i < length; i++) indexes[i] = first + i;
  return indexes;
}

/**
 * Merges rows that are identified by their symbol and their first text column, with the rule and the counts of `merge.ts`;
 * the time is a part of their content. Pure.
 *
 * Precedence is stored by time, not by identifier: rows of one symbol and millisecond share the greatest precedence among
 * them. This matters only if one of them is seen again with another content, in a response older than the others'.
 */
function mergeRowsById(old: SeriesColumns, chunks: readonly SeriesChunk[], known: KnownPrecedence): MergedSeries {
  const all = joinRows(old, chunks);
  const bySymbol = groupChunks(old.t.length, chunks);
  const oldIndex = new Map(old.symbols.map((symbol, i) => [symbol, i]));
  const symbols = [...new Set([...old.symbols, ...bySymbol.keys()])].sort(compareUtf8);
  const offsets = new Float64Array(symbols.length + 1);
  /** The rows to keep, in their order. */
  const kept = new Uint32Array(all.t.length);
  let keptCount = 0;
  const conflicts: SeriesConflict[] = [];
  const precedence = createPrecedenceRecorder();
  const tallies = new Map<string, RunTally>();
  const added = new Map<string, number>();
  let isChanged = false;
  symbols.forEach((symbol, s) => {
    const i = oldIndex.get(symbol);
    const [from, to] = i === undefined ? [0, 0] : [old.offsets[i]!, old.offsets[i + 1]!];
    const fresh = bySymbol.get(symbol);
    if (fresh === undefined) for (let row = from; row < to; row++) kept[keptCount++] = row;
    else {
      const merge = { all, symbol, from, to, fresh, known, tallies };
      const merged = mergeSymbol(merge);
      for (let r = 0; r < merged.rows.length; r++) kept[keptCount++] = merged.rows[r]!;
      for (const conflict of merged.conflicts) conflicts.push(conflict);
      recordTimes(precedence, merge, merged);
      isChanged ||= merged.isChanged;
      added.set(symbol, merged.rows.length - (to - from));
    }
    offsets[s + 1] = keptCount;
  });
  return {
    columns: { symbols, offsets, ...pickSeriesRows(all, kept.subarray(0, keptCount)) },
    isChanged,
    conflicts: dropRepeatedConflicts(conflicts),
    precedence: precedence.windows,
    tallies,
    added,
  };
}

/** A chunk, and the index of its first row among all. */
interface IndexedChunk {
  readonly chunk: SeriesChunk;
  readonly first: number;
}

/** Groups the non-empty chunks by symbol, in their order. */
function groupChunks(firstRow: number, chunks: readonly SeriesChunk[]): Map<string, IndexedChunk[]> {
  const bySymbol = new Map<string, IndexedChunk[]>();
  let first = firstRow;
  for (const chunk of chunks) {
    const list = bySymbol.get(chunk.symbol) ?? [];
    if (chunk.t.length > 0) bySymbol.set(chunk.symbol, list);
    list.push({ chunk, first });
    first += chunk.t.length;
  }
  return bySymbol;
}

/** The rows of one symbol to merge: the old ones `from` to `to`, and the chunks. */
interface SymbolMerge {
  readonly all: SeriesRows;
  readonly symbol: string;
  readonly from: number;
  readonly to: number;
  readonly fresh: readonly IndexedChunk[];
  readonly known: KnownPrecedence;
  readonly tallies: Map<string, RunTally>;
}

interface MergedSymbol {
  /** The rows to keep, sorted by time and identifier. */
  readonly rows: ArrayLike<number>;
  /** The precedence of each of them. */
  readonly precedence: readonly Precedence[];
  readonly conflicts: readonly SeriesConflict[];
  readonly isChanged: boolean;
}

function mergeSymbol(merge: SymbolMerge): MergedSymbol {
  const { all, from, to, fresh } = merge;
  const count = fresh.reduce((sum, { chunk }) => sum + chunk.t.length, to - from);
  const rows = new Uint32Array(count);
  let at = 0;
  for (let row = from; row < to; row++) rows[at++] = row;
  for (const { chunk, first } of fresh) for (let i = 0; i < chunk.t.length; i++) rows[at++] = first + i;
  const { numbers, firsts } = numberTexts(all.texts[0]!, rows)!;
  if (firsts.length === count) return mergeDistinctRows(merge, rows);
  const hasNewTimes = shareTimes(all, rows, numbers, to);
  const merged = mergeRepeatedRows(merge, numbers);
  return { ...merged, isChanged: merged.isChanged || hasNewTimes };
}

/**
 * Merges a symbol of which no identifier occurs twice, as most do: all rows are kept. `mergeRepeatedRows` has the same result,
 * and takes several times as long.
 * @param rows the old ones, followed by those of the chunks
 */
function mergeDistinctRows(
  { all, symbol, from, to, fresh, known, tallies }: SymbolMerge,
  rows: Uint32Array,
): MergedSymbol {
  const precedence: Precedence[] = [];
  const findPrecedence = createPrecedenceLookup(symbol, known);
  for (let row = from; row < to; row++) precedence.push(findPrecedence(all.t[row]!));
  for (const { chunk } of fresh) {
    for (let i = 0; i < chunk.t.length; i++) precedence.push(chunk);
    openTally(tallies, chunk.runId).accepted += chunk.t.length;
  }
  const merged = { conflicts: [], isChanged: true };
  let isSorted = true;
  for (let i = 1; i < rows.length && isSorted; i++) isSorted = compareKeys(all, rows[i - 1]!, rows[i]!) < 0;
  if (isSorted) return { ...merged, rows, precedence };
  const order = Uint32Array.from(rows, (_, i) => i).sort((a, b) => compareKeys(all, rows[a]!, rows[b]!));
  return { ...merged, rows: order.map((i) => rows[i]!), precedence: Array.from(order, (i) => precedence[i]!) };
}

/** Orders rows of a symbol by their times and identifiers. */
const compareKeys = ({ t, texts }: SeriesRows, a: number, b: number): number =>
  t[a]! - t[b]! || compareRowIds(texts[0]!, a, b);

/** What is known of one identifier. */
interface KeyState {
  /** The row with precedence so far. */
  row: number;
  precedence: Precedence;
  /** The published row or, if there is none, the one observed first. */
  readonly before: number;
  readonly isHeld: boolean;
  /** Set once a row with another content was observed. */
  differs: boolean;
}

/** @param numbers the number of the identifier of each row: of the old ones, followed by those of the chunks */
function mergeRepeatedRows(
  { all, symbol, from, to, fresh, known, tallies }: SymbolMerge,
  numbers: Uint32Array,
): MergedSymbol {
  const states: KeyState[] = [];
  const findPrecedence = createPrecedenceLookup(symbol, known);
  let at = 0;
  for (let row = from; row < to; row++) {
    const precedence = findPrecedence(all.t[row]!);
    states[numbers[at++]!] = { row, precedence, before: row, isHeld: true, differs: false };
  }
  for (const { chunk, first } of fresh) {
    const tally = openTally(tallies, chunk.runId);
    for (let row = first; row < first + chunk.t.length; row++) {
      const number = numbers[at++]!;
      const state = states[number];
      if (state === undefined) {
        states[number] = { row, precedence: chunk, before: row, isHeld: false, differs: false };
        tally.accepted++;
        continue;
      }
      if (isSameRow(all, row, state.before)) tally.duplicates++;
      else {
        tally.conflicts++;
        state.differs = true;
      }
      const isContested = state.isHeld && state.row === state.before && !isSameRow(all, row, state.row);
      const published = isContested ? known.findPublished?.(symbol, all.t[state.row]!) : undefined;
      const against = published ?? state.precedence;
      if (!hasPrecedence(chunk, against, compareRowsAndTimes(all, row, state.row) > 0)) continue;
      state.row = row;
      state.precedence = chunk;
    }
  }
  const sorted = states.toSorted((a, b) => compareKeys(all, a.row, b.row));
  return {
    rows: sorted.map(({ row }) => row),
    precedence: sorted.map((state) => state.precedence),
    conflicts: listConflicts(all, symbol, fresh, states, numbers.subarray(to - from)),
    isChanged: sorted.some(({ row, before, isHeld }) => !isHeld || !isSameRow(all, row, before)),
  };
}

/** Orders rows by their times, numbers and texts. */
const compareRowsAndTimes = (all: SeriesRows, a: number, b: number): number =>
  all.t[a]! - all.t[b]! || compareRows(all, a, b);

const isSameRow = (all: SeriesRows, a: number, b: number): boolean => a === b || compareRowsAndTimes(all, a, b) === 0;

/**
 * Lists the dropped rows, those of an identifier together; see `recordConflicts` in `merge.ts`.
 * @param numbers the number of the identifier of each row of the chunks, which is the index of its state
 */
function listConflicts(
  all: SeriesRows,
  symbol: string,
  fresh: readonly IndexedChunk[],
  states: readonly KeyState[],
  numbers: Uint32Array,
): SeriesConflict[] {
  const byState = new Map<KeyState, SeriesConflict[]>();
  let at = 0;
  for (const { chunk, first } of fresh) {
    for (let row = first; row < first + chunk.t.length; row++) {
      const state = states[numbers[at++]!]!;
      if (!state.differs || isSameRow(all, row, state.row)) continue;
      const seenAt = state.isHeld ? chunk.observedAt : Math.max(chunk.observedAt, state.precedence.observedAt);
      const list = byState.get(state) ?? [];
      byState.set(state, list);
      list.push(toSeriesConflict(all, row, symbol, seenAt));
    }
  }
  for (const state of states) {
    if (!state.isHeld || !state.differs || isSameRow(all, state.before, state.row)) continue;
    const list = byState.get(state) ?? [];
    byState.set(state, list);
    list.push(toSeriesConflict(all, state.before, symbol, state.precedence.observedAt));
  }
  return [...byState.values()].flat();
}

/** Returns a lookup of the known precedence of published rows, whose times ascend from call to call. */
function createPrecedenceLookup(symbol: string, known: KnownPrecedence): (t: number) => Precedence {
  const findWindow = createWindowLookup(known.getWindows(symbol));
  return (t) => findWindow(t) ?? known.inferPrecedence(symbol, t);
}

function createWindowLookup(windows: readonly PrecedenceWindow[]): (t: number) => PrecedenceWindow | undefined {
  let w = 0;
  return (t) => {
    while (w < windows.length && windows[w]!.to <= t) w++;
    const window = windows[w];
    return window !== undefined && window.from <= t ? window : undefined;
  };
}

/** Records the precedence of the merged rows, one for each time. */
function recordTimes(
  recorder: PrecedenceRecorder,
  { all, symbol, known }: SymbolMerge,
  { rows, precedence }: MergedSymbol,
): void {
  const findWindow = createWindowLookup(known.getWindows(symbol));
  recorder.begin(symbol);
  for (let i = 0; i < rows.length; ) {
    const t = all.t[rows[i]!]!;
    let greatest = precedence[i]!;
    for (i++; i < rows.length && all.t[rows[i]!] === t; i++)
      if (hasPrecedence(precedence[i]!, greatest, false)) greatest = precedence[i]!;
    // Without a known observation time there is no precedence to store.
    if (Number.isFinite(greatest.observedAt)) recorder.record(t, greatest, !hasSamePrecedence(findWindow(t), greatest));
    else recorder.pause();
  }
  recorder.pause();
}
