import { findFirstIndex } from '../../base/binary-search.ts';
import { formatDay } from '../../base/time.ts';
import {
  dayMs,
  findFirstEndingAfter,
  floorToDay,
  intersect,
  intersectTwo,
  isEmpty,
  subtract,
  union,
  type Window,
} from '../../base/window.ts';
import { type CompletenessCounts, countCompleteness, type GapWindow } from '../../contract/completeness-counts.ts';
import { type DayState, explainDay } from '../../contract/day-reasons.ts';
import type { CoveredWindow, LostWindow } from '../format/coverage.ts';
import type { SymbolFacts } from '../format/market.ts';
import { createReasonTally, type ReasonTally } from './reason-tally.ts';
import {
  type CoverageReach,
  computeSymbolCompleteness,
  type SymbolCompleteness,
  type SymbolWindows,
} from './symbol-completeness.ts';
import { canBeLive, getUnselectedCount, isActive, type LingerRules } from './symbol-lifetime.ts';

// The only place that decides how complete an archive is. Manifest, status, gaps, report, exit code, metrics and health
// use its result. contract/completeness-counts.ts updates a published result to a later time.

/** Rules for every completeness computation; see settings/settings.ts. */
export interface CompletenessRules {
  /** The configured symbols; only these are polled. Null if the market lists determine the symbols. */
  readonly namedSymbols: ReadonlySet<string> | null;
  readonly lifetimeRules: LingerRules;
  /**
   * The polled market lists. A day is complete only if each was fetched completely within it. If empty, completeness
   * does not depend on lists.
   */
  readonly views: readonly string[];
  /** The market lists of each source of an archive that has several; `views` for a source without an entry. */
  readonly viewsBySource?: ReadonlyMap<string, readonly string[]>;
}

type BySymbol<Mark> = ReadonlyMap<string, readonly Mark[]>;

/** One state of an archive: all inputs of the computation. Times are epoch milliseconds. */
export interface CompletenessInput {
  readonly symbols: readonly SymbolFacts[];
  /** Coverage without lost windows. */
  readonly coverage: BySymbol<CoveredWindow>;
  readonly namedSymbols: ReadonlySet<string> | null;
  /**
   * Windows whose published ticks were lost. The symbol existed during them, whatever else is known about its lifetime.
   */
  readonly lost?: readonly (LostWindow & { readonly lostAt?: number })[];
  readonly accepted?: BySymbol<SymbolWindows['accepted'][number]>;
  readonly owed?: BySymbol<SymbolWindows['owed'][number]>;
  readonly damage?: KnownDamage;
  /** Whether every market list was fetched completely within a UTC day. If omitted, all days count as fetched. */
  readonly hasWholeLists?: ((day: number) => boolean) | undefined;
  /** Why complete lists of a UTC day are not known to be whole, one clause; null if they are. If omitted, all are. */
  readonly getListDoubt?: ((day: number) => string | null) | undefined;
  /** UTC midnight of the last day on which the lists were requested. */
  readonly lastListedDay?: number | null;
  readonly nowMs: number;
  readonly lifetimeRules: LingerRules;
  /** The closed symbols, if they are not among `symbols`. */
  readonly closed?: ClosedSymbols | undefined;
}

/** Symbols that are expected, and covered by proof, on whole days, of which nothing else is to be said. */
interface ClosedSymbols {
  readonly count: number;
  /** The end of their coverage, epoch ms; null if nothing is covered. */
  readonly newest: number | null;
  /** How many more of them are expected from a day on, by its UTC midnight, sorted. */
  readonly changes: ReadonlyMap<number, number>;
}

/** Published files known to be damaged or missing. */
export interface KnownDamage {
  readonly files: number;
  /** UTC midnights of the days with damaged ticks or coverage. */
  readonly days: ReadonlySet<number>;
  /** The days on which the tick file that contains the symbol is damaged. */
  getWindows(symbol: string): readonly Window[];
}

/** What to compute for a state. */
interface CompletenessQuery {
  /** UTC midnights of the days to compute, in any order. */
  readonly days?: readonly number[];
  /** The window in which gaps are listed; null to list none. */
  readonly window?: Window | null;
  /** See SymbolCompletenessQuery. */
  readonly isStartExplicit?: boolean;
  readonly isEndOpen?: boolean;
  /** Whether the symbols were requested by name. */
  readonly isRequestedByName?: boolean;
}

export interface Gap extends GapWindow {
  readonly symbol: string;
}

/** How complete an archive is. */
export interface Completeness {
  readonly days: Map<number, DayState>;
  /**
   * Every live symbol is covered up to here by proven windows, with no gaps other than excepted ones; null if no symbol
   * is live or nothing is covered.
   */
  readonly watermark: number | null;
  /** The same, including inferred windows. */
  readonly reached: number | null;
  /** The live symbols, and how far each is covered. */
  readonly live: readonly (CoverageReach & { readonly symbol: string })[];
  readonly gaps: readonly Gap[];
  /** Windows covered only by inference. */
  readonly provisional: { readonly windows: number; readonly symbols: number };
  /** The number of symbols in the state. */
  readonly known: number;
  /** The symbols that are final, of which nothing is owed. */
  readonly final: ReadonlyMap<string, ClosedColumns>;
  readonly counts: CompletenessCounts;
}

const emptyWindow: Window = { from: 0, to: 0 };
const missingSymbolsMax = 20;

/**
 * Computes what is missing, what is provisional, and the time up to which everything is covered. No other code decides
 * this.
 */
export function computeCompleteness(state: CompletenessInput, query: CompletenessQuery = {}): Completeness {
  const { coverage, namedSymbols, nowMs, lifetimeRules, damage } = state;
  const tallies = createDayTallies(state, query.days ?? []);
  const newest = findNewestCoveredMs(state);
  const live: Completeness['live'][number][] = [];
  const gaps: Gap[] = [];
  const final = new Map<string, ClosedColumns>();
  const provisional = { windows: 0, symbols: 0 };
  let suspended = 0;
  const unselected = { excluded: 0, forgotten: 0 };
  const lost = Map.groupBy(state.lost ?? [], ({ symbol }) => symbol);
  const symbolQuery = {
    namedSymbols,
    nowMs,
    lifetimeRules,
    window: query.window ?? emptyWindow,
    isStartExplicit: query.isStartExplicit === true,
    isEndOpen: query.isEndOpen === true,
    isRequestedByName: query.isRequestedByName === true,
  };
  for (const facts of state.symbols) {
    const { symbol } = facts;
    if (facts.suspendedAt !== null && isActive(facts, namedSymbols)) suspended++;
    const kind = getUnselectedCount(facts, namedSymbols);
    if (kind !== null) unselected[kind]++;
    const known = {
      coverage: coverage.get(symbol) ?? emptyList,
      lost: lost.get(symbol) ?? emptyList,
      accepted: state.accepted?.get(symbol) ?? emptyList,
      owed: state.owed?.get(symbol) ?? emptyList,
      damaged: damage?.getWindows(symbol) ?? emptyList,
    };
    const symbolResult = computeSymbolCompleteness(facts, known, symbolQuery);
    if (symbolResult === null) continue;
    const isDecided = kind !== null || facts.watchedAt !== undefined || namedSymbols !== null;
    if (!isDecided && isFinal(facts, symbolResult) && !canBeLive(facts, nowMs, lifetimeRules))
      final.set(symbol, toClosedColumns(facts, symbolResult));
    if (symbolResult.reach !== null) live.push({ symbol, ...symbolResult.reach });
    for (const gap of symbolResult.gaps) gaps.push({ symbol, ...gap });
    provisional.windows += symbolResult.provisional.length;
    if (symbolResult.provisional.length > 0) provisional.symbols++;
    tallies.add(symbolResult, newest ?? nowMs);
  }
  const computeMinimum = (getTime: (reach: CoverageReach) => number): number | null =>
    // Without coverage there is no watermark. A run whose clock was ahead may have recorded coverage of the future.
    newest === null || live.length === 0 ? null : live.reduce((min, reach) => Math.min(min, getTime(reach)), nowMs);
  const result = {
    days: tallies.computeDayStates(),
    watermark: computeMinimum(({ watermark }) => watermark),
    reached: computeMinimum(({ reached }) => reached),
    live,
    gaps,
    provisional,
    known: state.symbols.length + (state.closed?.count ?? 0),
    final,
  };
  return {
    ...result,
    counts: countCompleteness({
      ...result,
      suspended,
      unselected,
      areListsComplete: hasCompleteListsOfLastDay(state),
      nowMs,
      damage: damage ?? null,
    }),
  };
}

const emptyList: readonly never[] = [];

/**
 * Whether nothing that is expected of a symbol changes by time alone, if it is polled no more: it is covered by proof. Coverage has
 * to reach past its last tick, as otherwise an imported tick would count as the newest coverage of the archive.
 */
function isFinal({ lastTick }: SymbolFacts, { hasMarks, expected, covered, proven }: SymbolCompleteness): boolean {
  const coveredTo = covered.at(-1)?.to ?? Number.NEGATIVE_INFINITY;
  return (
    !hasMarks && expected.length <= 1 && coversEach(proven, expected) && (lastTick === null || lastTick < coveredTo)
  );
}

/** The columns of a closed symbol in the state: the whole days on which it is expected, and the first and last known time. */
type ClosedColumns = readonly [from: number, to: number, knownFrom: number | null, knownTo: number | null];

function toClosedColumns({ firstTick }: SymbolFacts, { expected, covered }: SymbolCompleteness): ClosedColumns {
  const { from, to } = expected[0] ?? emptyWindow;
  const known = covered[0] && Math.min(covered[0].from, firstTick ?? Number.POSITIVE_INFINITY);
  return [floorToDay(from), floorToDay(to + dayMs - 1), known ?? null, covered.at(-1)?.to ?? null];
}

/** Finds the latest time that is or was covered; null if nothing is. */
function findNewestCoveredMs({ coverage, lost = [], closed }: CompletenessInput): number | null {
  let newest = closed?.newest ?? Number.NEGATIVE_INFINITY;
  // With two layers, the last window need not be the one that ends last.
  for (const list of coverage.values()) for (const { to } of list) newest = Math.max(newest, to);
  if (!Number.isFinite(newest)) return null;
  for (const { to } of lost) newest = Math.max(newest, to);
  return newest;
}

/** Whether the market lists were fetched completely on the last day on which they were requested. */
const hasCompleteListsOfLastDay = ({ namedSymbols, lastListedDay = null, hasWholeLists }: CompletenessInput): boolean =>
  namedSymbols !== null || lastListedDay === null || hasWholeLists?.(lastListedDay) !== false;

interface DayTally {
  readonly day: number;
  /** The end of the day or, if it has not ended, the current time. */
  readonly judgedTo: number;
  isIncomplete: boolean;
  isProvisional: boolean;
  expected: number;
  covered: number;
  readonly missing: string[];
  exceptions: number;
  readonly reasons: ReasonTally;
}

/** Accumulates the day states, symbol by symbol. */
function createDayTallies(state: CompletenessInput, days: readonly number[]) {
  const tallies = [...new Set(days)].sort((a, b) => a - b).map((day) => createDayTally(state, day));
  /**
   * The change, at each day, in the number of fully proven symbols. Kept as a difference array, since most symbols are
   * proven on most of their days.
   */
  const provenChange = new Int32Array(tallies.length + 1);
  const findFirstDayAt = (t: number): number => findFirstIndex(0, tallies.length, (i) => tallies[i]!.day >= t);
  const findFirstDayOverlapping = (t: number): number => findFirstDayAt(t - dayMs + 1);
  return {
    add(symbolResult: SymbolCompleteness, newest: number) {
      const { expected, proven } = symbolResult;
      if (tallies.length === 0 || expected.length === 0) return;
      const withExceptions = addExceptions(symbolResult, newest);
      if (expected.length > 1) {
        for (const tally of tallies) addToDayTally(tally, withExceptions);
        return;
      }
      const { from, to } = expected[0]!;
      let [next, end] = [findFirstDayOverlapping(from), findFirstDayAt(to)];
      for (const window of proven) {
        if (window.to <= from) continue;
        if (window.from >= to) break;
        const first = window.from <= from ? next : Math.max(next, findFirstDayAt(window.from));
        const last = window.to >= to ? end : Math.min(end, findFirstDayOverlapping(window.to));
        if (first >= last) continue;
        provenChange[first]!++;
        provenChange[last]!--;
        for (; next < first; next++) addToDayTally(tallies[next]!, withExceptions);
        next = last;
      }
      for (; next < end; next++) addToDayTally(tallies[next]!, withExceptions);
    },
    computeDayStates(): Map<number, DayState> {
      let proven = 0;
      const closed = [...(state.closed?.changes ?? [])];
      let next = 0;
      return new Map(
        tallies.map((tally, i) => {
          proven += provenChange[i]!;
          for (; next < closed.length && closed[next]![0] <= tally.day; next++) proven += closed[next]![1];
          return [
            tally.day,
            toDayState({ ...tally, expected: tally.expected + proven, covered: tally.covered + proven }),
          ];
        }),
      );
    },
  };
}

function createDayTally(state: CompletenessInput, day: number): DayTally {
  const { namedSymbols, nowMs, hasWholeLists, getListDoubt, damage } = state;
  // Without complete lists, the expected symbols of a day are unknown.
  const hasCompleteLists = namedSymbols !== null || hasWholeLists?.(day) !== false;
  const listDoubt = namedSymbols === null && hasCompleteLists ? (getListDoubt?.(day) ?? null) : null;
  const isOver = day + dayMs <= nowMs;
  const isDamaged = damage?.days.has(day) === true;
  const reasons = createReasonTally(day);
  if (!isOver) reasons.addDay('not over');
  if (!hasCompleteLists) reasons.addDay('lists incomplete');
  if (listDoubt !== null) reasons.addDay('lists unproven', listDoubt);
  if (isDamaged) reasons.addDay('damaged');
  const isIncomplete = !isOver || !hasCompleteLists || isDamaged;
  return {
    day,
    judgedTo: Math.min(day + dayMs, nowMs),
    isIncomplete,
    isProvisional: listDoubt !== null,
    expected: 0,
    covered: 0,
    missing: [],
    exceptions: 0,
    reasons,
  };
}

interface SymbolWithExceptions extends SymbolCompleteness {
  /** The union of covered and excepted windows. */
  readonly coveredOrExcepted: readonly Window[];
  /**
   * On a day that is not over, coverage is expected only up to this time: the end of the latest coverage of any symbol
   * or, if later, the end of this symbol's last owed window.
   */
  readonly expectedTo: number;
}

function addExceptions(symbolResult: SymbolCompleteness, newest: number): SymbolWithExceptions {
  const { covered, excepted, isUnrequested, owedTo } = symbolResult;
  return {
    ...symbolResult,
    coveredOrExcepted: excepted.length === 0 ? covered : union([...covered, ...excepted]),
    expectedTo: isUnrequested ? Number.POSITIVE_INFINITY : Math.max(newest, owedTo),
  };
}

function addToDayTally(tally: DayTally, symbolResult: SymbolWithExceptions): void {
  const { expected, covered, proven, excepted } = symbolResult;
  const day = { from: tally.day, to: tally.day + dayMs };
  if (addUnrequestedDay(tally, symbolResult, day)) return;
  const lifetimes = expected.map((window) => intersectTwo(window, day)).filter((window) => !isEmpty(window));
  if (lifetimes.length === 0) return;
  tally.expected++;
  const due = lifetimes.map(({ from, to }) => ({ from, to: Math.min(to, symbolResult.expectedTo) }));
  if (coversEach(covered, due)) tally.covered++;
  else if (tally.missing.length < missingSymbolsMax) tally.missing.push(symbolResult.symbol);
  if (coversEach(proven, lifetimes)) return;
  tally.reasons.addSymbol(symbolResult, lifetimes, tally.judgedTo);
  if (subtract(intersect(covered, lifetimes), proven).length > 0) tally.isProvisional = true;
  if (coversEach(covered, lifetimes)) return;
  if (coversEach(symbolResult.coveredOrExcepted, lifetimes))
    tally.exceptions += excepted.filter((w) => subtract(intersect([w], lifetimes), covered).length > 0).length;
  else if (symbolResult.isSuspended) tally.exceptions++;
  else tally.isIncomplete = true;
}

/**
 * Does the same as `addToDayTally` for a day that is over and on which nothing of the symbol was requested, and returns true; false
 * for any other day. Imported ticks without coverage have only such days.
 */
function addUnrequestedDay(tally: DayTally, symbolResult: SymbolWithExceptions, day: Window): boolean {
  const { expected, covered, excepted, expectedTo, hasMarks } = symbolResult;
  if (expected.length !== 1 || hasMarks || excepted.length > 0 || tally.judgedTo < day.to) return false;
  const from = Math.max(expected[0]!.from, day.from);
  const to = Math.min(expected[0]!.to, day.to);
  if (from >= to || from >= expectedTo) return false;
  const near = covered[findFirstEndingAfter(covered, from)];
  if (near !== undefined && near.from < to) return false;
  tally.expected++;
  tally.isIncomplete = true;
  if (tally.missing.length < missingSymbolsMax) tally.missing.push(symbolResult.symbol);
  tally.reasons.addWindow('never asked', from, to);
  return true;
}

function toDayState({ day, reasons, isIncomplete, isProvisional, ...counts }: DayTally): DayState {
  const { expected, covered, missing, exceptions } = counts;
  const state =
    expected === 0
      ? 'empty'
      : isIncomplete
        ? 'incomplete'
        : isProvisional
          ? 'provisional'
          : exceptions > 0
            ? 'complete_with_exceptions'
            : 'complete';
  const result = { state, expected, covered, missing, exceptions } as const;
  return state === 'empty' || state === 'complete'
    ? result
    : { ...result, ...explainDay(formatDay(day), reasons.list()) };
}

const coversEach = (windows: readonly Window[], all: readonly Window[]): boolean =>
  all.every((w) => hasWindowCovering(windows, w));

/** Whether one of the sorted, disjoint windows contains all of `w`. Uses binary search, since there are many days. */
function hasWindowCovering(windows: readonly Window[], w: Window): boolean {
  if (isEmpty(w)) return true;
  const at = windows[findFirstEndingAfter(windows, w.from)];
  return at !== undefined && at.from <= w.from && at.to >= w.to;
}
