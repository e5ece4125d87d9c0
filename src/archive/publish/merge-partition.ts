import type { CandleInterval } from '../../core/candles.ts';
import { compareUtf8 } from '../../core/compare-utf8.ts';
import { type Covered, joinForPublishing, overlay, withdrawFrom } from '../../core/coverage.ts';
import { judgeAnswers, type LostWindow } from '../../core/data-loss.ts';
import {
  type Chunk,
  type KnownStandings,
  type MergeRoom,
  mergePart,
  noPart,
  type PartColumns,
} from '../../core/merge.ts';
import { countIn, timesIn } from '../../core/tick-search.ts';
import type { Window } from '../../core/window.ts';
import type { TickDelta } from '../../state/symbols.ts';
import type { PublishedCoverage } from '../generation/day-tables.ts';
import { startPartFiles } from '../generation/partition-writer.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import { type ClaimedWindow, countLate } from './late-ticks.ts';
import { addDone, type PartDone, startDone } from './partition-result.ts';
import { type SpillReader, spillReader } from './spill-file.ts';
import { lotsOf, type PartLot } from './split-partition.ts';
import type { SpilledChunk } from './tick-sources.ts';

/** One part of one UTC day, `day` being its midnight: what is published of it and what comes to it. Plain values. */
export interface PartTask {
  readonly day: number;
  readonly part: number;
  /** The published file, checked; null where there is none. */
  readonly old: Uint8Array | null;
  readonly chunks: readonly (Chunk | SpilledChunk)[];
  /** What is published as covered of the part's symbols. */
  readonly coverage: ReadonlyMap<string, readonly PublishedCoverage[]>;
  /** Windows of the part's symbols whose published coverage is taken back before answers are laid over it. */
  readonly withdrawn: ReadonlyMap<string, readonly Window[]>;
  /** What answers cover that come with the chunks. */
  readonly answers: ReadonlyMap<string, readonly Covered[]>;
  /** The windows of the day that are lost. */
  readonly lost: ReadonlyMap<string, readonly LostWindow[]>;
  /** What had been covered of its symbols before the run; empty where late ticks are not to be counted. */
  readonly claimed: ReadonlyMap<string, readonly ClaimedWindow[]>;
  /** See `LateRules.withinMs`. */
  readonly latenessMsMax: number;
  /** What candles are kept of. */
  readonly intervals: readonly CandleInterval[];
  readonly groupRows: number;
}

/** Used again from lot to lot, whose rows are encoded or copied before the next. */
const mergeRoom: MergeRoom = { t: noPart.t, p: noPart.p };

/** Ticks that are merged at a time, old and new together; more where a single symbol has more. */
const lotTicks = 300_000;

/**
 * Merges what comes to a part with what is published of it, some symbols at a time: of what comes, memory holds no more.
 * The same whatever the lots are. @throws Error where the published file cannot be read
 */
export function workPart(task: PartTask, known: KnownStandings, ticksMax = lotTicks): PartDone {
  const old = task.old === null ? noPart : decodeTicks(task.old);
  const lots = lotsOf(
    old,
    task.chunks,
    [...task.answers.keys(), ...task.coverage.keys(), ...task.withdrawn.keys()],
    ticksMax,
  );
  const files = startPartFiles(task, task.intervals, task.groupRows);
  const spills = spillReader();
  const done = startDone();
  try {
    for (const lot of lots) {
      const chunks = loaded(lot.chunks, spills);
      const { columns, ...merged } = mergePart(lot.old, chunks, known, mergeRoom);
      const judged = judgeBin(ofLot(task.answers, lot), task.lost, columns);
      const published = ofLot(task.coverage, lot);
      const withdrawn = ofLot(task.withdrawn, lot);
      const changed = coverageChanged(published, withdrawn, judged.covered, [...merged.added.keys()], columns);
      // Of a part that is merged at once it is known by now whether its ticks are to be written.
      files.add(columns, new Map([...published, ...changed]), lots.length > 1 || merged.changed);
      const late = countLate(ofLot(task.claimed, lot), merged.added, { old: lot.old, columns }, task.latenessMsMax);
      addDone(done, { merged, deltas: deltasOf(merged.added, columns), ...judged, withdrawn, coverage: changed, late });
    }
  } finally {
    spills.close();
  }
  return { ...done, files: files.end(done.merged.changed) };
}

/** What of a map is of the symbols of a lot. */
function ofLot<T>(all: ReadonlyMap<string, T>, { symbols }: PartLot): ReadonlyMap<string, T> {
  return new Map(symbols.flatMap((symbol) => (all.has(symbol) ? [[symbol, all.get(symbol)!] as const] : [])));
}

/** With what was put aside read back; that holds until more is read. */
function loaded(chunks: readonly (Chunk | SpilledChunk)[], spills: SpillReader): Chunk[] {
  const read = spills.read(chunks.flatMap((chunk) => ('spilled' in chunk ? [chunk.spilled] : []))).values();
  return chunks.map((chunk) => {
    if (!('spilled' in chunk)) return chunk;
    const { spilled: _, ...rest } = chunk;
    return { ...rest, ...read.next().value! };
  });
}

/** What the answers of a bin cover, its lost windows being judged by the ticks that are there once it is merged. */
function judgeBin(
  answers: ReadonlyMap<string, readonly Covered[]>,
  lostOfDay: ReadonlyMap<string, readonly LostWindow[]>,
  columns: PartColumns,
): { covered: ReadonlyMap<string, readonly Covered[]>; restored: LostWindow[]; lacking: LostWindow[] } {
  const covered = new Map<string, readonly Covered[]>(answers);
  const restored: LostWindow[] = [];
  const lacking: LostWindow[] = [];
  const timesOf = timesIn(columns);
  for (const [symbol, ofSymbol] of answers) {
    const lost = lostOfDay.get(symbol);
    if (lost === undefined) continue;
    const judged = judgeAnswers(ofSymbol, lost, (window) => countIn(timesOf(symbol), window));
    covered.set(symbol, judged.claimed);
    restored.push(...judged.restored);
    lacking.push(...judged.lacking);
  }
  return { covered, restored, lacking };
}

/**
 * Takes withdrawn windows out of the coverage, lays new answers over it, and counts the ticks again of each symbol that
 * something came for. A symbol without coverage comes with an empty list if it had some.
 */
function coverageChanged(
  coverage: ReadonlyMap<string, readonly PublishedCoverage[]>,
  withdrawn: ReadonlyMap<string, readonly Window[]>,
  covered: ReadonlyMap<string, readonly Covered[]>,
  ticked: readonly string[],
  columns: PartColumns,
): Map<string, PublishedCoverage[]> {
  const out = new Map<string, PublishedCoverage[]>();
  const timesOf = timesIn(columns);
  for (const symbol of new Set([...covered.keys(), ...withdrawn.keys(), ...ticked])) {
    const published = coverage.get(symbol) ?? [];
    const left = withdrawFrom(published, withdrawn.get(symbol) ?? []);
    const stretches = joinForPublishing(overlay([...left, ...(covered.get(symbol) ?? [])]));
    if (stretches.length === 0 && published.length === 0) continue;
    const t = timesOf(symbol);
    out.set(
      symbol,
      stretches.map(({ from, to, fetchedAt, origin, evidence }) => {
        return { from, to, fetchedAt, origin, evidence, ticks: countIn(t, { from, to }) };
      }),
    );
  }
  return out;
}

function deltasOf(added: ReadonlyMap<string, number>, columns: PartColumns): TickDelta[] {
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
