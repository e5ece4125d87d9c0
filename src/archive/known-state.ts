import { computePartNumber } from '../base/symbol-name.ts';
import { parseDayStart } from '../base/time.ts';
import { dayMs, floorToDay, subtract, type Window } from '../base/window.ts';
import type { DamageFindings } from '../contract/completeness-counts.ts';
import type { CompletenessInput, CompletenessRules, KnownDamage } from './completeness/completeness.ts';
import type { CoveredWindow, LostWindow } from './format/coverage.ts';
import { getPartCount, type PartCounts } from './format/day-parts.ts';
import type { SymbolFacts } from './format/market.ts';
import { findKnownWindow, readCurrentCoverage, readCurrentCoverageOf } from './journal/coverage-store.ts';
import type { Database } from './journal/database.ts';
import { readAcceptedWindows, readAllOwedWindows, readLostWindows } from './journal/gap-records.ts';
import { findLastListedDay, readCompleteListings } from './journal/nightly-memory.ts';
import { type FileDamage, readRecordedDamage } from './journal/published-files.ts';
import { readAllSymbols } from './journal/symbols.ts';
import type { Archive } from './open-archive.ts';

// Builds the input of archive/completeness/completeness.ts: the current state, or the state after a commit. No other
// module builds it.

/** The facts that a commit changes. */
export interface StateAfterCommit {
  readonly symbols: readonly SymbolFacts[];
  readonly coverage: ReadonlyMap<string, readonly CoveredWindow[]>;
  readonly lost: readonly LostWindow[];
}

/** The current state of an archive: published and journaled. */
export function readCurrentState(
  { state, readManifest }: Archive,
  rules: CompletenessRules,
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
  // A journaled response does not cover a lost window until it is published.
  for (const [symbol, lostWindows] of Map.groupBy(lost, (loss) => loss.symbol)) {
    const covered = coverage.get(symbol);
    if (covered !== undefined) coverage.set(symbol, subtractWindows(covered, lostWindows));
  }
  return {
    symbols,
    coverage,
    lost,
    ...readCommonState(db, readManifest(), rules, nowMs, readRecordedDamage(db)),
  };
}

/** Maximum number of symbols whose coverage is read one by one. For more symbols, all coverage is read in one query. */
const symbolLookupsMax = 100;

const subtractWindows = (covered: readonly CoveredWindow[], lostWindows: readonly Window[]): CoveredWindow[] =>
  covered.flatMap((window) => subtract([window], lostWindows).map((rest) => ({ ...window, ...rest })));

/** The state after a stage is committed. */
export const computeStateAfterCommit = (
  db: Database,
  counts: PartCounts,
  after: StateAfterCommit,
  rules: CompletenessRules,
  nowMs: number,
  damage: readonly FileDamage[],
): CompletenessInput => ({
  ...after,
  lost: after.lost.filter(({ dataset }) => dataset === 'ticks'),
  ...readCommonState(db, counts, rules, nowMs, damage),
});

type CommonState = Omit<CompletenessInput, 'symbols' | 'coverage' | 'lost'>;

function readCommonState(
  db: Database,
  counts: PartCounts,
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
    damage: computeKnownDamage(damage, counts),
    ...(views.length > 0 && { hasWholeLists: readCompleteListings(db, views), lastListedDay: findLastListedDay(db) }),
  };
}

const dayFilePattern = /^(ticks|coverage)\/date=(\d{4}-\d\d-\d\d)\/part-(\d+)\.parquet$/;

/** The days and windows that known damage affects. An orphan affects none. */
export function computeKnownDamage(damage: readonly FileDamage[], counts: PartCounts): KnownDamage {
  const days = new Set<number>();
  const tickFiles: { readonly window: Window; readonly part: number; readonly count: number }[] = [];
  for (const { path, kind } of damage) {
    const [, dataset, date, part] = dayFilePattern.exec(path) ?? [];
    if (date === undefined || kind === 'orphan') continue;
    const from = parseDayStart(date);
    days.add(from);
    if (dataset !== 'ticks') continue;
    tickFiles.push({ window: { from, to: from + dayMs }, part: Number(part), count: getPartCount(counts, date) });
  }
  return {
    files: damage.length,
    days,
    getWindows(symbol) {
      if (tickFiles.length === 0) return [];
      const partOfSymbol = computePartNumber(symbol, counts.parts);
      return tickFiles.filter(({ part, count }) => partOfSymbol % count === part).map(({ window }) => window);
    },
  };
}

/** Recorded damage, in the form that updates published completeness. */
export const readFoundDamage = (db: Database, counts: PartCounts): DamageFindings =>
  computeKnownDamage(readRecordedDamage(db), counts);

/** Maximum number of days without a file to judge. */
const daysToJudgeMax = 3660;

/**
 * UTC midnights of the days to judge, sorted: days with files, days with lost windows, and days with owed windows up to
 * `nowMs`.
 */
export function listDaysToJudge(dates: Iterable<string>, { lost = [], owed, nowMs }: CompletenessInput): number[] {
  const days = new Set([...dates].map(parseDayStart));
  for (const { from } of lost) days.add(floorToDay(from));
  const daysMax = days.size + daysToJudgeMax;
  for (const { from, to } of [...(owed?.values() ?? [])].flat())
    for (let day = floorToDay(from); day < Math.min(to, nowMs) && days.size < daysMax; day += dayMs) days.add(day);
  return [...days].sort((a, b) => a - b);
}

/** The default window for gaps: the first to the last moment for which the archive has data, up to `nowMs`. */
export const readKnownWindow = (db: Database, nowMs: number): Window | null => {
  const known = findKnownWindow(db);
  return known === null ? null : { from: known.from, to: Math.min(nowMs, known.to) };
};
