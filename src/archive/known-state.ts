import type { JudgeRules, KnownDamage, KnownState } from '../core/completeness.ts';
import type { Covered } from '../core/coverage.ts';
import type { LostWindow } from '../core/data-loss.ts';
import type { SymbolFacts } from '../core/market.ts';
import { partOf } from '../core/partition.ts';
import { dayStart } from '../core/time.ts';
import type { FoundDamage } from '../core/verdict.ts';
import { dayFloor, dayMs, subtract, type Window } from '../core/window.ts';
import { acceptedWindows } from '../state/accepted.ts';
import { coverageNow, coverageNowOf, knownSpan } from '../state/coverage.ts';
import { type Damage, knownDamage } from '../state/damage.ts';
import { lostWindows } from '../state/data-loss.ts';
import type { Database } from '../state/database.ts';
import { lastListed, wholeListings } from '../state/listings.ts';
import { allOwedWindows } from '../state/owed.ts';
import { allSymbols } from '../state/symbols.ts';
import type { Archive } from './open-archive.ts';

// The state that the judge of core/completeness.ts is given: as it is now, or as it will be once a generation is
// committed. Nobody else puts it together.

/** What will be known once a stage is committed. */
export interface After {
  readonly symbols: readonly SymbolFacts[];
  readonly coverage: ReadonlyMap<string, readonly Covered[]>;
  readonly lost: readonly LostWindow[];
}

/** The state of an archive as it is now: what is published, and what is journaled besides. */
export function readKnownState(
  { state, manifest }: Archive,
  by: JudgeRules,
  nowMs: number,
  symbols: readonly SymbolFacts[] = allSymbols(state.db),
): KnownState {
  const { db } = state;
  const lost = lostWindows(db).filter(({ dataset }) => dataset === 'ticks');
  const coverage =
    symbols.length <= fewMax
      ? coverageNowOf(
          db,
          symbols.map(({ symbol }) => symbol),
        )
      : coverageNow(db);
  // An answer that is journaled for a lost window proves nothing before it is published.
  for (const [symbol, gone] of Map.groupBy(lost, (loss) => loss.symbol)) {
    const covered = coverage.get(symbol);
    if (covered !== undefined) coverage.set(symbol, withdraw(covered, gone));
  }
  return { symbols, coverage, lost, ...readRest(db, manifest().parts, by, nowMs, knownDamage(db)) };
}

/** Symbols of which coverage is looked up one by one; of more all is read at once. */
const fewMax = 100;

const withdraw = (covered: readonly Covered[], gone: readonly Window[]): Covered[] =>
  covered.flatMap((window) => subtract([window], gone).map((left) => ({ ...window, ...left })));

/** The state as it will be once a stage is committed. */
export const stateAfter = (
  db: Database,
  parts: number,
  after: After,
  by: JudgeRules,
  nowMs: number,
  damage: readonly Damage[],
): KnownState => ({
  ...after,
  lost: after.lost.filter(({ dataset }) => dataset === 'ticks'),
  ...readRest(db, parts, by, nowMs, damage),
});

type Rest = Omit<KnownState, 'symbols' | 'coverage' | 'lost'>;

function readRest(
  db: Database,
  parts: number,
  { named, rules, views }: JudgeRules,
  nowMs: number,
  damage: readonly Damage[],
): Rest {
  return {
    named,
    rules,
    nowMs,
    accepted: Map.groupBy(acceptedWindows(db), ({ symbol }) => symbol),
    owed: allOwedWindows(db),
    damage: damageOf(damage, parts),
    ...(views.length > 0 && { listedWhole: wholeListings(db, views), listedOn: lastListed(db) }),
  };
}

const dayFile = /^(ticks|coverage)\/date=(\d{4}-\d\d-\d\d)\/part-(\d+)\.parquet$/;

/** What known damage takes away. A file that is too many takes nothing. */
export function damageOf(damage: readonly Damage[], parts: number): KnownDamage {
  const days = new Set<number>();
  const ofPart = new Map<number, Window[]>();
  for (const { path, kind } of damage) {
    const [, dataset, date, part] = dayFile.exec(path) ?? [];
    if (date === undefined || kind === 'orphan') continue;
    const from = dayStart(date);
    days.add(from);
    if (dataset === 'ticks')
      ofPart.set(Number(part), [...(ofPart.get(Number(part)) ?? []), { from, to: from + dayMs }]);
  }
  return {
    files: damage.length,
    days,
    windowsOf: (symbol) => (ofPart.size === 0 ? [] : (ofPart.get(partOf(symbol, parts)) ?? [])),
  };
}

/** Known damage as it counts against a published verdict. */
export const foundDamage = (db: Database, parts: number): FoundDamage => damageOf(knownDamage(db), parts);

/** Days that are judged although they have no file: at most so many. */
const daysMax = 3660;

/**
 * UTC midnights of the days to judge: of those that have files, those that something was lost of or asked for in vain,
 * and those since the last of them that have ended; in order.
 */
export function daysToJudge(dates: Iterable<string>, { lost = [], owed, nowMs }: KnownState): number[] {
  const days = new Set([...dates].map(dayStart));
  for (const { from } of lost) days.add(dayFloor(from));
  const upTo = days.size + daysMax;
  for (const { from, to } of [...(owed?.values() ?? [])].flat())
    for (let day = dayFloor(from); day < Math.min(to, nowMs) && days.size < upTo; day += dayMs) days.add(day);
  return [...days].sort((a, b) => a - b);
}

/** The window in which anything is known, up to `nowMs`: gaps are looked for in it where nobody names another. */
export const spanOf = (db: Database, nowMs: number): Window | null => {
  const span = knownSpan(db);
  return span === null ? null : { from: span.from, to: Math.min(nowMs, span.to) };
};
