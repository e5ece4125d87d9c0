import { computePartNumber } from '../base/symbol-name.ts';
import { parseDayStart } from '../base/time.ts';
import { dayMs, floorToDay, subtract, type Window } from '../base/window.ts';
import type { DamageFindings } from '../contract/completeness-counts.ts';
import type { CompletenessInput, CompletenessRules, KnownDamage } from './completeness/completeness.ts';
import type { CoveredWindow, LostWindow } from './format/coverage.ts';
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
    ...readCommonState(db, readManifest().parts, rules, nowMs, readRecordedDamage(db)),
  };
}

/** Maximum number of symbols whose coverage is read one by one. For more symbols, all coverage is read in one query. */
const symbolLookupsMax = 100;

const subtractWindows = (covered: readonly CoveredWindow[], lostWindows: readonly Window[]): CoveredWindow[] =>
  covered.flatMap((window) => subtract([window], lostWindows).map((rest) => ({ ...window, ...rest })));

/** The state after a stage is committed. */
export const computeStateAfterCommit = (
  db: Database,
  parts: number,
  after: StateAfterCommit,
  rules: CompletenessRules,
  nowMs: number,
  damage: readonly FileDamage[],
): CompletenessInput => ({
  ...after,
  lost: after.lost.filter(({ dataset }) => dataset === 'ticks'),
  ...readCommonState(db, parts, rules, nowMs, damage),
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
    ...(views.length > 0 && { hasWholeLists: readCompleteListings(db, views), lastListedDay: findLastListedDay(db) }),
  };
}

const dayFilePattern = /^(ticks|coverage)\/date=(\d{4}-\d\d-\d\d)\/part-(\d+)\.parquet$/;

/** The days and windows that known damage affects. An orphan affects none. */
export function computeKnownDamage(damage: readonly FileDamage[], parts: number): KnownDamage {
  const days = new Set<number>();
  const windowsByPart = new Map<number, Window[]>();
  for (const { path, kind } of damage) {
    const [, dataset, date, part] = dayFilePattern.exec(path) ?? [];
    if (date === undefined || kind === 'orphan') continue;
    const from = parseDayStart(date);
    days.add(from);
    if (dataset === 'ticks')
      windowsByPart.set(Number(part), [...(windowsByPart.get(Number(part)) ?? []), { from, to: from + dayMs }]);
  }
  return {
    files: damage.length,
    days,
    getWindows: (symbol) =>
      windowsByPart.size === 0 ? [] : (windowsByPart.get(computePartNumber(symbol, parts)) ?? []),
  };
}

/** Recorded damage, in the form that updates published completeness. */
export const readFoundDamage = (db: Database, parts: number): DamageFindings =>
  computeKnownDamage(readRecordedDamage(db), parts);

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

/**
 * The default window for gaps: the first to the last moment for which the archive has data, up to `nowMs`. With `after`, also the
 * data of a commit that the state does not contain yet, so that its manifest has the gaps that are counted after it.
 */
export function readKnownWindow(db: Database, nowMs: number, after?: StateAfterCommit): Window | null {
  const known = findKnownWindow(db);
  let from = known?.from ?? Number.POSITIVE_INFINITY;
  let to = known?.to ?? Number.NEGATIVE_INFINITY;
  const add = (window: Window): void => {
    from = Math.min(from, window.from);
    to = Math.max(to, window.to);
  };
  for (const { firstTick, lastTick } of after?.symbols ?? [])
    if (firstTick !== null && lastTick !== null) add({ from: firstTick, to: lastTick + 1 });
  for (const windows of after?.coverage.values() ?? []) for (const window of windows) add(window);
  return from > to ? null : { from, to: Math.min(nowMs, to) };
}
