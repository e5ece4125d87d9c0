import { compareUtf8 } from '../../base/symbol-name.ts';
import type { Window } from '../../base/window.ts';
import type { CandleInterval } from '../format/candles.ts';
import {
  assessLostWindows,
  type CoveredWindow,
  joinForPublishing,
  type LostWindow,
  overlayCoverage,
  withdrawCoverage,
} from '../format/coverage.ts';
import { type MergeBuffers, type MergedPart, mergePart } from '../format/merge.ts';
import type { KnownPrecedence, PrecedenceWindow } from '../format/precedence.ts';
import {
  type Conflict,
  countTicksInWindow,
  emptyPart,
  indexTickTimes,
  type PartColumns,
  type RunTally,
  type TickChunk,
} from '../format/tick-columns.ts';
import type { SymbolsPrecedence } from '../journal/precedence.ts';
import type { TickDelta } from '../journal/symbols.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import type { PublishedCoverage } from './day-tables.ts';
import { type EncodedFile, openPartitionWriter } from './encode-partition.ts';
import type { SpilledChunk } from './import-buffer.ts';
import { addLateTicks, countLateTicks, type FetchedWindow, type LateTicks, noLateTicks } from './late-ticks.ts';
import { openSpillReader, type SpillReader } from './spill-file.ts';

/** One part of one UTC day, `day` being its midnight: what is published of it and what comes to it. Plain values. */
export interface MergeTask {
  readonly day: number;
  readonly part: number;
  /** The published file, checked; null where there is none. */
  readonly old: Uint8Array | null;
  readonly chunks: readonly (TickChunk | SpilledChunk)[];
  /** What is published as covered of the part's symbols. */
  readonly coverage: ReadonlyMap<string, readonly PublishedCoverage[]>;
  /** Windows of the part's symbols whose published coverage is taken back before answers are laid over it. */
  readonly withdrawn: ReadonlyMap<string, readonly Window[]>;
  /** What answers cover that come with the chunks. */
  readonly answers: ReadonlyMap<string, readonly CoveredWindow[]>;
  /** The windows of the day that are lost. */
  readonly lost: ReadonlyMap<string, readonly LostWindow[]>;
  /** What had been covered of its symbols before the run; empty where late ticks are not to be counted. */
  readonly claimed: ReadonlyMap<string, readonly FetchedWindow[]>;
  /** See `LateTickRules.withinMs`. */
  readonly latenessMsMax: number;
  /** What candles are kept of. */
  readonly intervals: readonly CandleInterval[];
  readonly groupRows: number;
}

/** Used again from lot to lot, whose rows are encoded or copied before the next. */
const mergeBuffers: MergeBuffers = { t: emptyPart.t, p: emptyPart.p };

/** Ticks that are merged at a time, old and new together; more where a single symbol has more. */
const sliceTicksMax = 300_000;

/**
 * Merges what comes to a part with what is published of it, some symbols at a time: of what comes, memory holds no more.
 * The same whatever the lots are. @throws Error where the published file cannot be read
 */
export function mergePartition(task: MergeTask, known: KnownPrecedence, ticksMax = sliceTicksMax): MergeResult {
  const old = task.old === null ? emptyPart : decodeTicks(task.old);
  const lots = splitPartition(
    old,
    task.chunks,
    [...task.answers.keys(), ...task.coverage.keys(), ...task.withdrawn.keys()],
    ticksMax,
  );
  const files = openPartitionWriter(task, task.intervals, task.groupRows);
  const spills = openSpillReader();
  const done = createMergeResult();
  try {
    for (const lot of lots) {
      const chunks = loadSpilledChunks(lot.chunks, spills);
      const { columns, ...merged } = mergePart(lot.old, chunks, known, mergeBuffers);
      const judged = judgeLostWindows(pickSliceSymbols(task.answers, lot), task.lost, columns);
      const published = pickSliceSymbols(task.coverage, lot);
      const withdrawn = pickSliceSymbols(task.withdrawn, lot);
      const changed = computeChangedCoverage(published, withdrawn, judged.covered, [...merged.added.keys()], columns);
      // Of a part that is merged at once it is known by now whether its ticks are to be written.
      files.add(columns, new Map([...published, ...changed]), lots.length > 1 || merged.isChanged);
      const late = countLateTicks(
        pickSliceSymbols(task.claimed, lot),
        merged.added,
        { old: lot.old, columns },
        task.latenessMsMax,
      );
      addSliceResult(done, {
        merged,
        deltas: computeTickDeltas(merged.added, columns),
        ...judged,
        withdrawn,
        coverage: changed,
        late,
      });
    }
  } finally {
    spills.close();
  }
  return { ...done, files: files.finish(done.merged.isChanged) };
}

/** What of a map is of the symbols of a lot. */
function pickSliceSymbols<T>(all: ReadonlyMap<string, T>, { symbols }: PartitionSlice): ReadonlyMap<string, T> {
  return new Map(symbols.flatMap((symbol) => (all.has(symbol) ? [[symbol, all.get(symbol)!] as const] : [])));
}

/** With what was put aside read back; that holds until more is read. */
function loadSpilledChunks(chunks: readonly (TickChunk | SpilledChunk)[], spills: SpillReader): TickChunk[] {
  const read = spills.read(chunks.flatMap((chunk) => ('spilled' in chunk ? [chunk.spilled] : []))).values();
  return chunks.map((chunk) => {
    if (!('spilled' in chunk)) return chunk;
    const { spilled: _, ...rest } = chunk;
    return { ...rest, ...read.next().value! };
  });
}

/** What the answers of a bin cover, its lost windows being judged by the ticks that are there once it is merged. */
function judgeLostWindows(
  answers: ReadonlyMap<string, readonly CoveredWindow[]>,
  lostOfDay: ReadonlyMap<string, readonly LostWindow[]>,
  columns: PartColumns,
): { covered: ReadonlyMap<string, readonly CoveredWindow[]>; restored: LostWindow[]; lacking: LostWindow[] } {
  const covered = new Map<string, readonly CoveredWindow[]>(answers);
  const restored: LostWindow[] = [];
  const lacking: LostWindow[] = [];
  const timesOf = indexTickTimes(columns);
  for (const [symbol, ofSymbol] of answers) {
    const lost = lostOfDay.get(symbol);
    if (lost === undefined) continue;
    const judged = assessLostWindows(ofSymbol, lost, (window) => countTicksInWindow(timesOf(symbol), window));
    covered.set(symbol, judged.covered);
    restored.push(...judged.restored);
    lacking.push(...judged.stillLost);
  }
  return { covered, restored, lacking };
}

/**
 * Takes withdrawn windows out of the coverage, lays new answers over it, and counts the ticks again of each symbol that
 * something came for. A symbol without coverage comes with an empty list if it had some.
 */
function computeChangedCoverage(
  coverage: ReadonlyMap<string, readonly PublishedCoverage[]>,
  withdrawn: ReadonlyMap<string, readonly Window[]>,
  covered: ReadonlyMap<string, readonly CoveredWindow[]>,
  ticked: readonly string[],
  columns: PartColumns,
): Map<string, PublishedCoverage[]> {
  const out = new Map<string, PublishedCoverage[]>();
  const timesOf = indexTickTimes(columns);
  for (const symbol of new Set([...covered.keys(), ...withdrawn.keys(), ...ticked])) {
    const published = coverage.get(symbol) ?? [];
    const left = withdrawCoverage(published, withdrawn.get(symbol) ?? []);
    const stretches = joinForPublishing(overlayCoverage([...left, ...(covered.get(symbol) ?? [])]));
    if (stretches.length === 0 && published.length === 0) continue;
    const t = timesOf(symbol);
    out.set(
      symbol,
      stretches.map(({ from, to, fetchedAt, origin, evidence }) => {
        return { from, to, fetchedAt, origin, evidence, ticks: countTicksInWindow(t, { from, to }) };
      }),
    );
  }
  return out;
}

function computeTickDeltas(added: ReadonlyMap<string, number>, columns: PartColumns): TickDelta[] {
  const out: TickDelta[] = [];
  columns.symbols.forEach((symbol, i) => {
    const count = added.get(symbol) ?? 0;
    if (count === 0) return;
    out.push({
      symbol,
      added: count,
      first: columns.t[columns.offsets[i]!]!,
      last: columns.t[columns.offsets[i + 1]! - 1]!,
    });
  });
  return out.sort((a, b) => compareUtf8(a.symbol, b.symbol));
}

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

/** What became of a part. */
export interface MergeResult {
  readonly merged: Omit<MergedPart, 'columns'>;
  readonly deltas: readonly TickDelta[];
  /** What is covered from now on by what answers said. */
  readonly covered: ReadonlyMap<string, readonly CoveredWindow[]>;
  /** Windows whose coverage is taken back, before what is covered is laid over it. */
  readonly withdrawn: ReadonlyMap<string, readonly Window[]>;
  /** Lost windows that are whole again, and those that were answered with fewer ticks than were once had. */
  readonly restored: readonly LostWindow[];
  readonly lacking: readonly LostWindow[];
  /** The coverage to publish of the symbols where it is another now. */
  readonly coverage: ReadonlyMap<string, readonly PublishedCoverage[]>;
  /** New ticks whose moment had been covered before. */
  readonly late: LateTicks;
  /** The ticks where they changed, and the candles. */
  readonly files: readonly EncodedFile[];
}

/** The same of some of its symbols, without the files. */
export type MergeSliceResult = Omit<MergeResult, 'files'>;

/** What has come of the lots so far. */
export type MergeResultBuilder = ReturnType<typeof createMergeResult>;

export const createMergeResult = () => ({
  merged: {
    isChanged: false,
    conflicts: [] as Conflict[],
    precedence: [] as PrecedenceWindow[],
    tallies: new Map<string, RunTally>(),
    added: new Map<string, number>(),
  },
  deltas: [] as TickDelta[],
  covered: new Map<string, readonly CoveredWindow[]>(),
  withdrawn: new Map<string, readonly Window[]>(),
  restored: [] as LostWindow[],
  lacking: [] as LostWindow[],
  coverage: new Map<string, readonly PublishedCoverage[]>(),
  late: noLateTicks,
});

/** Adds what came of a lot. */
export function addSliceResult(done: MergeResultBuilder, lot: MergeSliceResult): void {
  const into = done.merged;
  const { merged } = lot;
  into.isChanged ||= merged.isChanged;
  for (const conflict of merged.conflicts) into.conflicts.push(conflict);
  for (const stretch of merged.precedence) into.precedence.push(stretch);
  for (const [symbol, count] of merged.added) into.added.set(symbol, count);
  for (const [runId, { accepted, duplicates, conflicts }] of merged.tallies) {
    const tally = into.tallies.get(runId) ?? { accepted: 0, duplicates: 0, conflicts: 0 };
    tally.accepted += accepted;
    tally.duplicates += duplicates;
    tally.conflicts += conflicts;
    into.tallies.set(runId, tally);
  }
  for (const delta of lot.deltas) done.deltas.push(delta);
  for (const [symbol, covered] of lot.covered) done.covered.set(symbol, covered);
  for (const [symbol, windows] of lot.withdrawn) done.withdrawn.set(symbol, windows);
  done.late = addLateTicks(done.late, lot.late);
  done.restored.push(...lot.restored);
  done.lacking.push(...lot.lacking);
  for (const [symbol, stretches] of lot.coverage) done.coverage.set(symbol, stretches);
}

/** What is known of the standing of a part's published ticks: to be asked where it is known, or as values. */
export interface PartitionPrecedence {
  readonly lookup: KnownPrecedence;
  readAll(): SymbolsPrecedence;
}

/** Those who do the work on parts. They give the same whoever they are. */
export interface MergeWorkers {
  /** Tasks that may be under way at once. */
  readonly concurrency: number;
  merge(task: MergeTask, standings: PartitionPrecedence): Promise<MergeResult>;
}

/** The thread that asks: one part after the other. */
export const inlineWorker: MergeWorkers = {
  concurrency: 1,
  merge: async (task, { lookup }) => mergePartition(task, lookup),
};
