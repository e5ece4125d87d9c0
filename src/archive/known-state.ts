import { computePartNumber } from '../base/symbol-name.ts';
import { parseDayStart } from '../base/time.ts';
import { dayMs, floorToDay, subtract, type Window } from '../base/window.ts';
import type { DamageFindings } from '../contract/completeness-counts.ts';
import type { CompletenessInput, CompletenessRules, KnownDamage } from './completeness/completeness.ts';
import type { CoveredWindow, LostWindow } from './format/coverage.ts';
import type { SymbolFacts } from './format/market.ts';
import { findKnownWindow, readCurrentCoverage, readCurrentCoverageOf } from './journal/coverage.ts';
import type { Database } from './journal/database.ts';
import { readAcceptedWindows, readAllOwedWindows, readLostWindows } from './journal/gap-records.ts';
import { findLastListedDay, readWholeListings } from './journal/nightly-memory.ts';
import { type FileDamage, readRecordedDamage } from './journal/published-files.ts';
import { readAllSymbols } from './journal/symbols.ts';
import type { Archive } from './open-archive.ts';

// The state that the judge of archive/completeness/completeness.ts is given: as it is now, or as it will be once a generation is
// committed. Nobody else puts it together.

/** What will be known once a stage is committed. */
export interface StateAfterCommit {
  readonly symbols: readonly SymbolFacts[];
  readonly coverage: ReadonlyMap<string, readonly CoveredWindow[]>;
  readonly lost: readonly LostWindow[];
}

/** The state of an archive as it is now: what is published, and what is journaled besides. */
export function readCurrentState(
  { state, readManifest }: Archive,
  by: CompletenessRules,
  nowMs: number,
  symbols: readonly SymbolFacts[] = readAllSymbols(state.db),
): CompletenessInput {
  const { db } = state;
  const lost = readLostWindows(db).filter(({ dataset }) => dataset === 'ticks');
  const coverage =
    symbols.length <= symbolLookupsMax
      ? readCurrentCoverageOf(
          db,
          symbols.map(({ symbol }) => symbol),
        )
      : readCurrentCoverage(db);
  // An answer that is journaled for a lost window proves nothing before it is published.
  for (const [symbol, gone] of Map.groupBy(lost, (loss) => loss.symbol)) {
    const covered = coverage.get(symbol);
    if (covered !== undefined) coverage.set(symbol, subtractWindows(covered, gone));
  }
  return { symbols, coverage, lost, ...readCommonState(db, readManifest().parts, by, nowMs, readRecordedDamage(db)) };
}

/** Symbols of which coverage is looked up one by one; of more all is read at once. */
const symbolLookupsMax = 100;

const subtractWindows = (covered: readonly CoveredWindow[], gone: readonly Window[]): CoveredWindow[] =>
  covered.flatMap((window) => subtract([window], gone).map((left) => ({ ...window, ...left })));

/** The state as it will be once a stage is committed. */
export const computeStateAfterCommit = (
  db: Database,
  parts: number,
  after: StateAfterCommit,
  by: CompletenessRules,
  nowMs: number,
  damage: readonly FileDamage[],
): CompletenessInput => ({
  ...after,
  lost: after.lost.filter(({ dataset }) => dataset === 'ticks'),
  ...readCommonState(db, parts, by, nowMs, damage),
});

type CommonState = Omit<CompletenessInput, 'symbols' | 'coverage' | 'lost'>;

function readCommonState(
  db: Database,
  parts: number,
  { namedSymbols, lifetimeRules, views }: CompletenessRules,
  nowMs: number,
  damage: readonly FileDamage[],
): CommonState {
  return {
    namedSymbols,
    lifetimeRules,
    nowMs,
    accepted: Map.groupBy(readAcceptedWindows(db), ({ symbol }) => symbol),
    owed: readAllOwedWindows(db),
    damage: computeKnownDamage(damage, parts),
    ...(views.length > 0 && { hasWholeLists: readWholeListings(db, views), lastListedDay: findLastListedDay(db) }),
  };
}

const dayFilePattern = /^(ticks|coverage)\/date=(\d{4}-\d\d-\d\d)\/part-(\d+)\.parquet$/;

/** What known damage takes away. A file that is too many takes nothing. */
export function computeKnownDamage(damage: readonly FileDamage[], parts: number): KnownDamage {
  const days = new Set<number>();
  const ofPart = new Map<number, Window[]>();
  for (const { path, kind } of damage) {
    const [, dataset, date, part] = dayFilePattern.exec(path) ?? [];
    if (date === undefined || kind === 'orphan') continue;
    const from = parseDayStart(date);
    days.add(from);
    if (dataset === 'ticks')
      ofPart.set(Number(part), [...(ofPart.get(Number(part)) ?? []), { from, to: from + dayMs }]);
  }
  return {
    files: damage.length,
    days,
    getWindows: (symbol) => (ofPart.size === 0 ? [] : (ofPart.get(computePartNumber(symbol, parts)) ?? [])),
  };
}

/** Known damage as it counts against a published verdict. */
export const readFoundDamage = (db: Database, parts: number): DamageFindings =>
  computeKnownDamage(readRecordedDamage(db), parts);

/** Days that are judged although they have no file: at most so many. */
const daysToJudgeMax = 3660;

/**
 * UTC midnights of the days to judge: of those that have files, those that something was lost of or asked for in vain,
 * and those since the last of them that have ended; in order.
 */
export function listDaysToJudge(dates: Iterable<string>, { lost = [], owed, nowMs }: CompletenessInput): number[] {
  const days = new Set([...dates].map(parseDayStart));
  for (const { from } of lost) days.add(floorToDay(from));
  const upTo = days.size + daysToJudgeMax;
  for (const { from, to } of [...(owed?.values() ?? [])].flat())
    for (let day = floorToDay(from); day < Math.min(to, nowMs) && days.size < upTo; day += dayMs) days.add(day);
  return [...days].sort((a, b) => a - b);
}

/** The window in which anything is known, up to `nowMs`: gaps are looked for in it where nobody names another. */
export const readKnownWindow = (db: Database, nowMs: number): Window | null => {
  const span = findKnownWindow(db);
  return span === null ? null : { from: span.from, to: Math.min(nowMs, span.to) };
};
