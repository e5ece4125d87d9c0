import type { CandleInterval } from '../../core/candles.ts';
import { type Covered, joinForPublishing, overlay } from '../../core/coverage.ts';
import { judgeAnswers, type LostWindow } from '../../core/lost.ts';
import { type Chunk, type KnownStandings, type Merged, mergePart, noPart, type PartColumns } from '../../core/merge.ts';
import { compareUtf8 } from '../../core/order.ts';
import { countIn, timesIn } from '../../core/part-times.ts';
import type { TickDelta } from '../../state/symbols.ts';
import type { PublishedCoverage } from '../generation/day-files.ts';
import type { EncodedFile } from '../generation/encoded-file.ts';
import { encodedCandles, encodedTicks } from '../generation/encoded-parts.ts';
import { dayPath } from '../layout.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import type { SpilledChunk } from './sources.ts';
import { spillReader } from './spill.ts';

/** One part of one UTC day, `day` being its midnight: what is published of it and what comes to it. Plain values. */
export interface PartTask {
  readonly day: number;
  readonly part: number;
  /** The published file, checked; null where there is none. */
  readonly old: Uint8Array | null;
  readonly chunks: readonly (Chunk | SpilledChunk)[];
  /** What is published as covered of the part's symbols. */
  readonly coverage: ReadonlyMap<string, readonly PublishedCoverage[]>;
  /** What answers cover that come with the chunks. */
  readonly answers: ReadonlyMap<string, readonly Covered[]>;
  /** The windows of the day that are lost. */
  readonly lost: ReadonlyMap<string, readonly LostWindow[]>;
  /** What candles are kept of. */
  readonly intervals: readonly CandleInterval[];
  readonly groupRows: number;
}

/** What became of a part. */
export interface PartDone {
  readonly merged: Omit<Merged, 'columns'>;
  readonly deltas: readonly TickDelta[];
  /** What is covered from now on by what answers said. */
  readonly covered: ReadonlyMap<string, readonly Covered[]>;
  /** Lost windows that are whole again, and those that were answered with fewer ticks than were once had. */
  readonly restored: readonly LostWindow[];
  readonly lacking: readonly LostWindow[];
  /** The coverage to publish of the symbols where it is another now. */
  readonly coverage: ReadonlyMap<string, readonly PublishedCoverage[]>;
  /** The ticks where they changed, and the candles. */
  readonly files: readonly EncodedFile[];
}

/** Merges what comes to a part with what is published of it. @throws Error where the published file cannot be read */
export function workPart(task: PartTask, known: KnownStandings): PartDone {
  const { day, part, groupRows } = task;
  const old = task.old === null ? noPart : decodeTicks(task.old);
  const { columns, ...merged } = mergePart(old, chunksOf(task.chunks), known);
  const ticks = merged.changed ? [encodedTicks(dayPath('ticks', day, part), day, columns, groupRows)] : [];
  const judged = judgeBin(task.answers, task.lost, columns);
  const changed = coverageChanged(task.coverage, judged.covered, [...merged.added.keys()], columns);
  const coverage = new Map([...task.coverage, ...changed]);
  const candles = encodedCandles(task, columns, coverage, task.intervals, groupRows);
  return {
    merged,
    deltas: deltasOf(merged.added, columns),
    ...judged,
    coverage: changed,
    files: [...ticks, ...candles],
  };
}

/** What was put aside is read back. */
function chunksOf(chunks: PartTask['chunks']): Chunk[] {
  const spills = spillReader();
  try {
    return chunks.map((chunk) => {
      if (!('spilled' in chunk)) return chunk;
      const { spilled, ...rest } = chunk;
      return { ...rest, ...spills.read(spilled) };
    });
  } finally {
    spills.close();
  }
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

/** Lays new answers over the coverage and counts the ticks anew wherever answers or ticks came. */
function coverageChanged(
  coverage: ReadonlyMap<string, readonly PublishedCoverage[]>,
  covered: ReadonlyMap<string, readonly Covered[]>,
  ticked: readonly string[],
  columns: PartColumns,
): Map<string, PublishedCoverage[]> {
  const out = new Map<string, PublishedCoverage[]>();
  const timesOf = timesIn(columns);
  for (const symbol of new Set([...covered.keys(), ...ticked])) {
    const stretches = joinForPublishing(overlay([...(coverage.get(symbol) ?? []), ...(covered.get(symbol) ?? [])]));
    if (stretches.length === 0) continue;
    const t = timesOf(symbol);
    out.set(
      symbol,
      stretches.map(({ from, to, fetchedAt, origin }) => {
        return { from, to, fetchedAt, origin, ticks: countIn(t, { from, to }) };
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
