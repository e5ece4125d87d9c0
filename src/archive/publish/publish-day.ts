import type { CandleInterval } from '../../core/candles.ts';
import { type Covered, joinForPublishing, overlay } from '../../core/coverage.ts';
import { DamageError } from '../../core/errors.ts';
import type { LostWindow } from '../../core/lost.ts';
import { type Conflict, type Merged, mergePart, noPart, type PartColumns } from '../../core/merge.ts';
import { compareUtf8 } from '../../core/order.ts';
import { dayMs } from '../../core/window.ts';
import { type Bin, binTicksByRun, readBin, readBinCoverage } from '../../state/journal.ts';
import type { BookAnswer } from '../../state/journal-books.ts';
import { lostTicksIn } from '../../state/lost.ts';
import { dayStandings } from '../../state/standings.ts';
import type { TickDelta } from '../../state/symbols.ts';
import { type Archive, readPublished } from '../archive.ts';
import {
  conflictRows,
  coverageRows,
  coverBooks,
  type DayCoverage,
  encodeDay,
  type PublishedCoverage,
  readConflicts,
  readCoverage,
} from '../generation/day-files.ts';
import type { Stage } from '../generation/stage.ts';
import { stageTicks } from '../generation/stage-parts.ts';
import { dayPath } from '../layout.ts';
import { countIn, judgeBin, timesIn } from '../lost-ticks.ts';
import { fileAt } from '../manifest.ts';
import { decodeTicks } from '../parquet/ticks-file.ts';
import { stageCandles } from './publish-candles.ts';

/** What one part of one day took in. */
export interface BinOutcome {
  readonly bin: Bin;
  readonly merged: Omit<Merged, 'columns'>;
  readonly deltas: readonly TickDelta[];
  /** What is covered from now on by what answers said. */
  readonly coverage: ReadonlyMap<string, readonly Covered[]>;
  /** Lost windows that are whole again, and those that were answered with fewer ticks than were once had. */
  readonly restored: readonly LostWindow[];
  readonly lacking: readonly LostWindow[];
  readonly ticksByRun: readonly { readonly run_id: string; readonly n: number }[];
}

export interface DayOutcome {
  readonly bins: readonly BinOutcome[];
  /** The answers of the order-book route that are covered now. */
  readonly answers: readonly BookAnswer[];
  /** Why parts were refused: what is published there is damaged. Their journal is kept. */
  readonly refused: readonly string[];
}

/** What the journal holds of one UTC day. */
export interface DayInput {
  readonly day: number;
  readonly bins: readonly Bin[];
  /** Answers of the order-book route that are to be covered. */
  readonly answers: readonly BookAnswer[];
}

/**
 * Merges the journal's bins of one day with what is published and stages what changed, and the candles of these
 * intervals. Holds one part in memory.
 */
export async function stageDay(
  archive: Archive,
  stage: Stage,
  input: DayInput,
  end: number,
  intervals: readonly CandleInterval[],
): Promise<DayOutcome> {
  const { day, bins, answers } = input;
  const refused: string[] = [];
  const outcomes: BinOutcome[] = [];
  let coverage: DayCoverage;
  let conflicts: Conflict[];
  try {
    coverage = readCoverage(archive, stage.base, day);
    conflicts = readConflicts(archive, stage.base, day);
  } catch (error) {
    if (error instanceof DamageError) return { bins: [], answers: [], refused: [error.message] };
    throw error;
  }
  const lost = lostTicksIn(archive.state.db, { from: day, to: day + dayMs });
  for (const bin of bins) {
    try {
      const { columns, ...outcome } = stageBin(archive, stage, bin, end, coverage.ticks, conflicts, lost);
      stageCandles(archive, stage, intervals, bin, columns, coverage.ticks);
      outcomes.push(outcome);
    } catch (error) {
      if (!(error instanceof DamageError)) throw error;
      refused.push(error.message);
    }
    // Signals and other work get their turn between parts.
    await new Promise((resolve) => setImmediate(resolve));
  }
  coverBooks(coverage, answers);
  if (outcomes.length + answers.length > 0) {
    encodeDay(archive, stage, 'coverage', day, coverageRows(coverage));
    encodeDay(archive, stage, 'conflicts', day, conflictRows(conflicts));
  }
  return { bins: outcomes, answers, refused };
}

function stageBin(
  archive: Archive,
  stage: Stage,
  bin: Bin,
  end: number,
  coverage: Map<string, PublishedCoverage[]>,
  conflicts: Conflict[],
  lostOfDay: ReadonlyMap<string, readonly LostWindow[]>,
): BinOutcome & { readonly columns: PartColumns } {
  const { db } = archive.state;
  const path = dayPath('ticks', bin.day, bin.part);
  const file = fileAt(stage.base, 'ticks', path);
  const old = file === undefined ? noPart : decodeTicks(readPublished(archive, file));
  const { columns, ...merged } = mergePart(old, readBin(db, bin, end), dayStandings(db, bin.day));
  if (merged.changed) {
    stageTicks(archive, stage, path, bin.day, columns);
  }
  for (const conflict of merged.conflicts) conflicts.push(conflict);
  const { covered, ...found } = judgeBin(readBinCoverage(db, bin, end), lostOfDay, columns);
  updateCoverage(coverage, covered, [...merged.added.keys()], columns);
  const deltas = deltasOf(merged.added, columns);
  return { bin, merged, columns, deltas, coverage: covered, ...found, ticksByRun: binTicksByRun(db, bin, end) };
}

/** Lays new answers over the day's coverage and counts the ticks anew wherever answers or ticks came. */
function updateCoverage(
  coverage: Map<string, PublishedCoverage[]>,
  covered: ReadonlyMap<string, readonly Covered[]>,
  ticked: readonly string[],
  columns: PartColumns,
): void {
  const timesOf = timesIn(columns);
  for (const symbol of new Set([...covered.keys(), ...ticked])) {
    const stretches = joinForPublishing(overlay([...(coverage.get(symbol) ?? []), ...(covered.get(symbol) ?? [])]));
    if (stretches.length === 0) continue;
    const t = timesOf(symbol);
    coverage.set(
      symbol,
      stretches.map(({ from, to, fetchedAt, origin }) => {
        return { from, to, fetchedAt, origin, ticks: countIn(t, { from, to }) };
      }),
    );
  }
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
