import type { CandleInterval } from '../../core/candles.ts';
import {
  assessLostWindows,
  type CoveredWindow,
  joinForPublishing,
  type LostWindow,
  overlayCoverage,
  withdrawCoverage,
} from '../../core/coverage.ts';
import { type MergeBuffers, mergePart } from '../../core/merge.ts';
import type { KnownPrecedence } from '../../core/precedence.ts';
import { compareUtf8 } from '../../core/symbol-name.ts';
import {
  countTicksInWindow,
  emptyPart,
  indexTickTimes,
  type PartColumns,
  type TickChunk,
} from '../../core/tick-columns.ts';
import type { Window } from '../../core/window.ts';
import type { TickDelta } from '../../state/symbols.ts';
import type { PublishedCoverage } from '../generation/day-tables.ts';
import { openPartitionWriter } from '../generation/encode-partition.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import type { SpilledChunk } from './import-buffer.ts';
import { countLateTicks, type FetchedWindow } from './late-ticks.ts';
import { addSliceResult, createMergeResult, type MergeResult } from './partition-result.ts';
import { openSpillReader, type SpillReader } from './spill-file.ts';
import { type PartitionSlice, splitPartition } from './split-partition.ts';

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
  /** See `LateRules.withinMs`. */
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
