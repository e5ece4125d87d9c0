import { isSymbolOf } from '../base/source-name.ts';
import { isInRange, type SymbolRange } from '../base/symbol-range.ts';
import { parseDayStart } from '../base/time.ts';
import { dayMs, floorToDay, subtract, type Window } from '../base/window.ts';
import type { Archive } from './archive.ts';
import {
  type CompletenessInput,
  type CompletenessRules,
  computeCompleteness,
  type KnownDamage,
} from './completeness/completeness.ts';
import type { CoveredWindow, LostWindow } from './format/coverage.ts';
import { getFileRange } from './format/day-parts.ts';
import { findManifestFile, type Manifest } from './format/manifest.ts';
import type { SymbolFacts } from './format/market.ts';
import type { PublishedWithdrawal } from './format/withdrawals.ts';
import {
  areClosedBy,
  closeSymbols,
  readClosedSymbols,
  readEndedSymbols,
  readOpenSymbols,
} from './journal/closed-symbols.ts';
import { findKnownWindow, readCurrentCoverageOf } from './journal/coverage-store.ts';
import type { Database } from './journal/database.ts';
import { readAcceptedWindows, readAllOwedWindows, readLostWindows } from './journal/gap-records.ts';
import { findLastListedDay, readDayLists, type SourceLists } from './journal/nightly-memory.ts';
import { type FileDamage, readRecordedDamage } from './journal/published-files.ts';
import type { State } from './journal/state.ts';
import { readAllSymbols } from './journal/symbol-store.ts';

// Builds the input of archive/completeness/completeness.ts: the current state, or the state after a commit. No other
// module builds it.

/** The facts that a commit changes. */
export interface StateAfterCommit {
  readonly symbols: readonly SymbolFacts[];
  /** The others; default: there are none. */
  readonly closed?: CompletenessInput['closed'];
  readonly coverage: ReadonlyMap<string, readonly CoveredWindow[]>;
  readonly lost: readonly LostWindow[];
  /** The withdrawals that the manifest lists; default: as before. */
  readonly withdrawn?: readonly PublishedWithdrawal[];
}

/** The symbols of these sources; all if none are given. */
export const selectSymbolsOf = (symbols: readonly SymbolFacts[], sources: readonly string[]): readonly SymbolFacts[] =>
  sources.length === 0 ? symbols : symbols.filter(({ symbol }) => sources.some((source) => isSymbolOf(source, symbol)));

const toClosingRules = ({ lifetimeRules }: CompletenessRules): string =>
  JSON.stringify([lifetimeRules.lookbackMs, lifetimeRules.lingerMs]);

/**
 * Reads the symbols of a state to judge: the open ones, with what is counted of the closed ones. All, if those were judged by other
 * rules, or if damage may concern them.
 * @param keptFrom closed symbols that are expected after this time, epoch ms, are read all the same
 */
export const readJudgedSymbols = (
  db: Database,
  rules: CompletenessRules,
  keptFrom = Number.POSITIVE_INFINITY,
): Pick<CompletenessInput, 'symbols' | 'closed'> =>
  db.snapshot(() =>
    rules.namedSymbols === null && areClosedBy(db, toClosingRules(rules)) && readRecordedDamage(db).length === 0
      ? { symbols: readOpenSymbols(db, keptFrom), closed: readClosedSymbols(db, keptFrom) }
      : { symbols: readAllSymbols(db) },
  );

/** Symbols that are judged in one transaction. */
const closedAtOnceMax = 2000;

/** Closes the symbols that are final. */
export function closeFinalSymbols(archive: Archive, rules: CompletenessRules, nowMs: number): void {
  const { db } = archive.state;
  if (rules.namedSymbols !== null || readRecordedDamage(db).length > 0) return;
  let last: string | undefined = '';
  while (last !== undefined)
    last = db.transaction(() => {
      const symbols = readEndedSymbols(db, last!, closedAtOnceMax);
      const state = readCurrentState(archive, rules, nowMs, symbols);
      closeSymbols(db, computeCompleteness(state).final, toClosingRules(rules));
      return symbols.length < closedAtOnceMax ? undefined : symbols.at(-1)!.symbol;
    });
}

/**
 * The current state of an archive: published and journaled.
 * @param given the symbols to judge; null: all, the closed ones by what is counted of them
 * @param sources some of several sources, whose market lists alone count; empty: all
 */
export function readCurrentState(
  { state, readManifest }: Archive,
  rules: CompletenessRules,
  nowMs: number,
  given: readonly SymbolFacts[] | null = null,
  sources: readonly string[] = [],
  keptFrom?: number,
): CompletenessInput {
  const { db } = state;
  const { symbols, closed } =
    given === null ? readJudgedSymbols(db, rules, keptFrom) : { symbols: given, closed: undefined };
  const lost = readLostWindows(db).filter(({ dataset }) => dataset === 'ticks');
  const coverage = readCurrentCoverageOf(
    db,
    symbols.map(({ symbol }) => symbol),
  );
  // A journaled response does not cover a lost window until it is published.
  for (const [symbol, lostWindows] of Map.groupBy(lost, (loss) => loss.symbol)) {
    const covered = coverage.get(symbol);
    if (covered !== undefined) coverage.set(symbol, subtractWindows(covered, lostWindows));
  }
  return {
    symbols,
    closed,
    coverage,
    lost,
    ...readCommonState(
      db,
      { manifest: readManifest(), sources: listSourceNames(state.identity, sources) },
      rules,
      nowMs,
      readRecordedDamage(db),
    ),
  };
}

const listSourceNames = (identity: State['identity'], chosen: readonly string[]): string[] =>
  identity.sources.map(({ name }) => name).filter((name) => chosen.length === 0 || chosen.includes(name));

const subtractWindows = (covered: readonly CoveredWindow[], lostWindows: readonly Window[]): CoveredWindow[] =>
  covered.flatMap((window) => subtract([window], lostWindows).map((rest) => ({ ...window, ...rest })));

/** The state after a stage is committed. */
export const computeStateAfterCommit = (
  db: Database,
  manifest: Pick<Manifest, 'datasets'>,
  identity: State['identity'],
  after: StateAfterCommit,
  rules: CompletenessRules,
  nowMs: number,
  damage: readonly FileDamage[],
): CompletenessInput => ({
  ...after,
  lost: after.lost.filter(({ dataset }) => dataset === 'ticks'),
  ...readCommonState(db, { manifest, sources: listSourceNames(identity, []) }, rules, nowMs, damage),
});

type CommonState = Omit<CompletenessInput, 'symbols' | 'closed' | 'coverage' | 'lost'>;

function readCommonState(
  db: Database,
  { manifest, sources }: { readonly manifest: Pick<Manifest, 'datasets'>; readonly sources: readonly string[] },
  { namedSymbols, lifetimeRules, views, viewsBySource }: CompletenessRules,
  nowMs: number,
  damage: readonly FileDamage[],
): CommonState {
  const lists = (
    sources.length === 0
      ? [{ source: null, views }]
      : sources.map((source): SourceLists => ({ source, views: viewsBySource?.get(source) ?? views }))
  ).filter((one) => one.views.length > 0);
  const dayLists = lists.map((one) => readDayLists(db, one.views, one.source));
  // If other sources were listed and one never was, its symbols are unknown. In an archive of imports none was listed.
  const lastDays = lists.map((one) => findLastListedDay(db, [one.source]));
  const isOneUnlisted = lastDays.includes(null) && lastDays.some((day) => day !== null);
  return {
    namedSymbols,
    lifetimeRules,
    nowMs,
    accepted: Map.groupBy(readAcceptedWindows(db), ({ symbol }) => symbol),
    owed: readAllOwedWindows(db),
    damage: computeKnownDamage(damage, manifest),
    ...(lists.length > 0 && {
      hasWholeLists: (day: number) => !isOneUnlisted && dayLists.every((read) => read(day).isComplete),
      getListDoubt: (day: number) => dayLists.map((read) => read(day).doubt).find((doubt) => doubt !== null) ?? null,
      lastListedDay: findLastListedDay(
        db,
        lists.map(({ source }) => source),
      ),
    }),
  };
}

const dayFilePattern = /^(ticks|coverage)\/date=(\d{4}-\d\d-\d\d)\//;

/** The days and windows that known damage affects. An orphan affects none. */
export function computeKnownDamage(damage: readonly FileDamage[], manifest: Pick<Manifest, 'datasets'>): KnownDamage {
  const days = new Set<number>();
  const tickFiles: { readonly window: Window; readonly range: SymbolRange }[] = [];
  for (const { path, kind } of damage) {
    const [, dataset, date] = dayFilePattern.exec(path) ?? [];
    if (date === undefined || kind === 'orphan') continue;
    const from = parseDayStart(date);
    days.add(from);
    if (dataset !== 'ticks') continue;
    const file = findManifestFile(manifest, dataset, path);
    const range = file && getFileRange(file);
    if (range !== undefined) tickFiles.push({ window: { from, to: from + dayMs }, range });
  }
  return {
    files: damage.length,
    days,
    getWindows: (symbol) => tickFiles.filter(({ range }) => isInRange(range, symbol)).map(({ window }) => window),
  };
}

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
