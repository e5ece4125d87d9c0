import type { CandleInterval } from '../../core/candles.ts';
import type { LostWindow } from '../../core/data-loss.ts';
import { DamageError } from '../../core/errors.ts';
import type { Conflict } from '../../core/merge.ts';
import { partOf } from '../../core/partition.ts';
import { dayMs, type Window } from '../../core/window.ts';
import { segmentsIn } from '../../state/coverage.ts';
import { lostTicksIn } from '../../state/data-loss.ts';
import type { Database } from '../../state/database.ts';
import type { Bin } from '../../state/journal.ts';
import type { BookAnswer } from '../../state/journal-books.ts';
import { dayStandings, standingsOf } from '../../state/precedence.ts';
import {
  conflictRows,
  coverageRows,
  coverBooks,
  type DayCoverage,
  encodeDay,
  type PublishedCoverage,
  readConflicts,
  readCoverage,
} from '../generation/day-tables.ts';
import { type Stage, stageFile, stageRemoval } from '../generation/staging.ts';
import { dayPath } from '../layout.ts';
import { fileAt } from '../manifest.ts';
import { type Archive, readPublished } from '../open-archive.ts';
import type { ClaimedWindow, LateRules } from './late-ticks.ts';
import type { PartTask } from './merge-partition.ts';
import type { LotDone, PartDone } from './partition-result.ts';
import type { TickSource } from './tick-sources.ts';
import type { PartWorkers, Standings } from './worker-pool.ts';

/** What one part of one day took in. */
export interface BinOutcome extends Omit<PartDone, 'coverage' | 'files'> {
  readonly bin: Bin;
}

/** What is to be taken in of one UTC day. */
export interface DayInput {
  readonly day: number;
  readonly bins: readonly Bin[];
  /** Answers of the order-book route that are to be covered. */
  readonly answers: readonly BookAnswer[];
}

export interface DaysInput {
  readonly days: readonly DayInput[];
  readonly source: TickSource;
  /** The last record of the journal that counts. */
  readonly end: number;
  readonly intervals: readonly CandleInterval[];
  /** See PublishOptions. */
  readonly late: LateRules | undefined;
  readonly workers: PartWorkers;
  readonly signal: AbortSignal | undefined;
  /** Told of each part that is done. */
  onPart(): void;
}

export interface DaysOutcome {
  readonly bins: readonly BinOutcome[];
  /** The answers of the order-book route that are covered now. */
  readonly answers: readonly BookAnswer[];
  /** Why parts were refused: what is published there is damaged. What was for them is kept. */
  readonly refused: readonly string[];
}

/** What is published of a day beside its parts, as it will be. */
interface Day {
  readonly input: DayInput;
  readonly coverage: DayCoverage;
  readonly conflicts: Conflict[];
  /** The coverage that was published, by part. */
  readonly byPart: ReadonlyMap<number, readonly (readonly [string, readonly PublishedCoverage[]])[]>;
  /** What had been covered before the run, by symbol, where late ticks are to be counted. */
  readonly claimed: ReadonlyMap<string, readonly ClaimedWindow[]>;
  readonly lost: ReadonlyMap<string, readonly LostWindow[]>;
  taken: number;
}

/** A part under way, or the end of a day, in the order in which they are staged. */
type Pending = { readonly day: Day; readonly bin: Bin; readonly done: Promise<Settled> } | { readonly day: Day };
type Settled = { readonly done: LotDone } | { readonly error: unknown };

/**
 * Merges what comes to each day with what is published, part by part, and stages what changed; outcomes are in the order
 * of parts.
 * Holds as many parts as the workers take at once.
 */
export async function stageDays(archive: Archive, stage: Stage, input: DaysInput): Promise<DaysOutcome> {
  const { workers, signal } = input;
  const outcome = { bins: [] as BinOutcome[], answers: [] as BookAnswer[], refused: [] as string[] };
  const pending: Pending[] = [];
  let under = 0;
  let over = false;

  async function next(): Promise<void> {
    const first = pending.shift()!;
    if (!('bin' in first)) {
      stageRest(archive, stage, first.day);
      for (const answer of first.day.input.answers) outcome.answers.push(answer);
      await turn();
      return;
    }
    const { day, bin } = first;
    const settled = await first.done;
    under--;
    if ('done' in settled) {
      day.taken++;
      outcome.bins.push(take(day, bin, settled.done));
    } else if (settled.error instanceof DamageError) outcome.refused.push(settled.error.message);
    else throw settled.error;
    input.onPart();
    await turn();
  }

  /** Signals and other work get theirs. */
  async function turn(): Promise<void> {
    await new Promise((resolve) => setImmediate(resolve));
    signal?.throwIfAborted();
  }

  /** Whoever is done is staged at once: his files would wait in memory else until the parts before them are done. */
  function stageNow({ files, ...rest }: PartDone): LotDone {
    // A publish that was given up may have released the lock: nothing is written any more.
    if (!over) for (const file of files) stageFile(archive, stage, file);
    return rest;
  }

  async function all(): Promise<void> {
    for (const ofDay of input.days) {
      signal?.throwIfAborted();
      const day = openDay(archive, stage, ofDay, input.late);
      if (day instanceof DamageError) {
        outcome.refused.push(day.message);
        continue;
      }
      for (const bin of ofDay.bins) {
        while (under >= workers.width) await next();
        const done = begin(archive, stage, day, bin, input)
          .then(stageNow)
          .then(
            (result) => ({ done: result }),
            (error: unknown) => ({ error }),
          );
        pending.push({ day, bin, done });
        under++;
      }
      pending.push({ day });
      // Days of order books alone wait for nothing.
      while (pending.length > 0 && !('bin' in pending[0]!)) await next();
    }
    while (pending.length > 0) await next();
  }

  try {
    await all();
  } finally {
    over = true;
  }
  return outcome;
}

/** What is published of a day; the error where that is damaged. */
function openDay(archive: Archive, stage: Stage, input: DayInput, late: LateRules | undefined): Day | DamageError {
  const { day } = input;
  try {
    const coverage = readCoverage(archive, stage.base, day);
    const conflicts = readConflicts(archive, stage.base, day);
    const { db, identity } = archive.state;
    const claimed = late === undefined ? new Map() : claimedIn(db, { from: day, to: day + dayMs }, late.beforeMs);
    const byPart = Map.groupBy(coverage.ticks, ([symbol]) => partOf(symbol, identity.parts));
    const lost = lostTicksIn(db, { from: day, to: day + dayMs });
    return { input, coverage, conflicts, byPart, claimed, lost, taken: 0 };
  } catch (error) {
    if (error instanceof DamageError) return error;
    throw error;
  }
}

async function begin(archive: Archive, stage: Stage, of: Day, bin: Bin, input: DaysInput): Promise<PartDone> {
  const { db } = archive.state;
  const { day, part } = bin;
  const file = fileAt(stage.base, 'ticks', dayPath('ticks', day, part));
  const old = file === undefined ? null : readPublished(archive, file);
  const chunks = input.source.chunks(bin);
  const coverage = new Map<string, readonly PublishedCoverage[]>(of.byPart.get(part) ?? []);
  const task: PartTask = {
    day,
    part,
    old,
    chunks,
    coverage,
    answers: input.source.coverage(bin),
    withdrawn: input.source.withdrawn(bin),
    lost: of.lost,
    intervals: input.intervals,
    groupRows: archive.groupRows,
    claimed: claimedOf(chunks, of.claimed),
    latenessMsMax: input.late?.withinMs ?? 0,
  };
  const standings: Standings = {
    live: dayStandings(db, day),
    values: () => standingsOf(db, day, new Set(chunks.map(({ symbol }) => symbol))),
  };
  return input.workers.work(task, standings);
}

/** The same of the symbols that something comes for. */
const claimedOf = (
  chunks: readonly { readonly symbol: string }[],
  claimed: Day['claimed'],
): ReadonlyMap<string, readonly ClaimedWindow[]> =>
  new Map(chunks.flatMap(({ symbol }) => (claimed.has(symbol) ? [[symbol, claimed.get(symbol)!] as const] : [])));

/** What is published as covered of a window and was fetched before a moment, by symbol. */
const claimedIn = (db: Database, window: Window, beforeMs: number): ReadonlyMap<string, readonly ClaimedWindow[]> =>
  new Map(
    [...segmentsIn(db, window)].map(([symbol, covered]) => [
      symbol,
      covered
        .filter(({ fetchedAt }) => fetchedAt < beforeMs)
        .map(({ from, to, fetchedAt }) => ({ from, to, fetchedAt })),
    ]),
  );

function take(of: Day, bin: Bin, done: LotDone): BinOutcome {
  const { coverage, ...rest } = done;
  for (const conflict of rest.merged.conflicts) of.conflicts.push(conflict);
  for (const [symbol, stretches] of coverage) of.coverage.ticks.set(symbol, [...stretches]);
  // They are the day's now: of all days together there may be more than memory holds.
  const merged = { ...rest.merged, conflicts: [] };
  return { bin, ...rest, merged };
}

/** Stages what a day has one file of. */
function stageRest(archive: Archive, stage: Stage, { input, coverage, conflicts, taken }: Day): void {
  coverBooks(coverage, input.answers);
  if (taken + input.answers.length === 0) return;
  const rows = coverageRows(coverage);
  const path = dayPath('coverage', input.day, 0);
  // All that was covered of the day may have been withdrawn.
  if (rows.length === 0 && fileAt(stage.base, 'coverage', path) !== undefined) stageRemoval(stage, path);
  encodeDay(archive, stage, 'coverage', input.day, rows);
  encodeDay(archive, stage, 'conflicts', input.day, conflictRows(conflicts));
}
