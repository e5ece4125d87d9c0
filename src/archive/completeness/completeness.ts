import { dayMs, intersect, intersectTwo, isEmpty, subtract, union, type Window } from '../../base/window.ts';
import {
  type CompletenessCounts,
  countCompleteness,
  type DayState,
  type GapWindow,
} from '../../contract/completeness-counts.ts';
import type { CoveredWindow, LostWindow } from '../format/coverage.ts';
import type { SymbolFacts } from '../format/market.ts';
import {
  type CoverageReach,
  computeSymbolCompleteness,
  type SymbolCompleteness,
  type SymbolWindows,
} from './symbol-completeness.ts';
import { isActive, type LingerRules } from './symbol-lifetime.ts';

// The one judge of how whole an archive is. Manifest, status, gaps, report, exit code, metrics and health say what it
// says; contract/completeness-counts.ts brings a published verdict up to a later moment.

/** By what an archive is judged, wherever that is done: see settings/settings.ts. */
export interface CompletenessRules {
  /** Symbols named by hand, the only ones that are polled; null where the market lists decide. */
  readonly namedSymbols: ReadonlySet<string> | null;
  readonly lifetimeRules: LingerRules;
  /** The market lists that are polled: a day is complete only if each was had whole within it. None: no list decides. */
  readonly views: readonly string[];
}

type BySymbol<Mark> = ReadonlyMap<string, readonly Mark[]>;

/** One state of an archive: all that its verdict rests on. Times are epoch milliseconds. */
export interface CompletenessInput {
  readonly symbols: readonly SymbolFacts[];
  /** Less what is lost. */
  readonly coverage: BySymbol<CoveredWindow>;
  readonly namedSymbols: ReadonlySet<string> | null;
  /** Windows of ticks that were published once and are gone: a symbol was alive in them, whatever is left to tell so. */
  readonly lost?: readonly (LostWindow & { readonly lostAt?: number })[];
  readonly accepted?: BySymbol<SymbolWindows['accepted'][number]>;
  readonly owed?: BySymbol<SymbolWindows['owed'][number]>;
  readonly damage?: KnownDamage;
  /** Whether each market list was had whole within a UTC day; all were where it is not given, or no list decides. */
  readonly hasWholeLists?: ((day: number) => boolean) | undefined;
  /** UTC midnight of the last day on which the lists were asked for. */
  readonly lastListedDay?: number | null;
  readonly nowMs: number;
  readonly lifetimeRules: LingerRules;
}

/** Published files that are known not to be as published. */
export interface KnownDamage {
  readonly files: number;
  /** UTC midnights of days whose ticks or coverage are damaged. */
  readonly days: ReadonlySet<number>;
  /** The days of a symbol whose file of ticks is damaged. */
  getWindows(symbol: string): readonly Window[];
}

/** What is asked of a state. */
export interface CompletenessQuery {
  /** UTC midnights of the days to judge, in any order. */
  readonly days?: readonly number[];
  /** Inside which window gaps are looked for; none where it is null. */
  readonly window?: Window | null;
  /** See SymbolCompletenessQuery. */
  readonly isStartExplicit?: boolean;
  readonly isEndOpen?: boolean;
  /** Whether the symbols were asked for by name. */
  readonly isRequestedByName?: boolean;
}

export interface Gap extends GapWindow {
  readonly symbol: string;
}

/** How whole an archive is. */
export interface Completeness {
  readonly days: Map<number, DayState>;
  /**
   * Up to where every live symbol is covered without a gap by proven windows, excepted ones aside; null: no live symbol,
   * or nothing covered.
   */
  readonly watermark: number | null;
  /** The same with inferred windows: how far collecting has come. */
  readonly reached: number | null;
  /** The live symbols, and how far each is covered. */
  readonly live: readonly (CoverageReach & { readonly symbol: string })[];
  readonly gaps: readonly Gap[];
  /** Windows that are covered by inference alone. */
  readonly provisional: { readonly windows: number; readonly symbols: number };
  /** How many symbols the state knows. */
  readonly known: number;
  readonly counts: CompletenessCounts;
}

const emptyWindow: Window = { from: 0, to: 0 };
const missingMax = 20;

/** Judges a state: the one function that says what is missing, what is provisional, and how far all is covered. */
export function computeCompleteness(state: CompletenessInput, asked: CompletenessQuery = {}): Completeness {
  const { coverage, namedSymbols, nowMs, lifetimeRules, damage } = state;
  const tallies = createDayTallies(state, asked.days ?? []);
  const newest = findNewestCoveredMs(state);
  const live: Completeness['live'][number][] = [];
  const gaps: Gap[] = [];
  const provisional = { windows: 0, symbols: 0 };
  let suspended = 0;
  const lost = Map.groupBy(state.lost ?? [], ({ symbol }) => symbol);
  const by = {
    namedSymbols,
    nowMs,
    lifetimeRules,
    window: asked.window ?? emptyWindow,
    isStartExplicit: asked.isStartExplicit === true,
    isEndOpen: asked.isEndOpen === true,
    isRequestedByName: asked.isRequestedByName === true,
  };
  for (const facts of state.symbols) {
    const { symbol } = facts;
    if (facts.suspendedAt !== null && isActive(facts, namedSymbols)) suspended++;
    const known = {
      coverage: coverage.get(symbol) ?? emptyList,
      lost: lost.get(symbol) ?? emptyList,
      accepted: state.accepted?.get(symbol) ?? emptyList,
      owed: state.owed?.get(symbol) ?? emptyList,
      damaged: damage?.getWindows(symbol) ?? emptyList,
    };
    const judged = computeSymbolCompleteness(facts, known, by);
    if (judged === null) continue;
    if (judged.reach !== null) live.push({ symbol, ...judged.reach });
    for (const gap of judged.gaps) gaps.push({ symbol, ...gap });
    provisional.windows += judged.provisional.length;
    if (judged.provisional.length > 0) provisional.symbols++;
    tallies.add(judged, newest ?? nowMs);
  }
  const least = (of: (reach: CoverageReach) => number): number | null =>
    // Nothing is covered before something is; a run whose clock was ahead may have claimed what is still to come.
    newest === null || live.length === 0 ? null : live.reduce((min, reach) => Math.min(min, of(reach)), nowMs);
  const found = {
    days: tallies.computeDayStates(),
    watermark: least(({ watermark }) => watermark),
    reached: least(({ reached }) => reached),
    live,
    gaps,
    provisional,
    known: state.symbols.length,
  };
  return {
    ...found,
    counts: countCompleteness({
      ...found,
      suspended,
      listed: hasWholeListsOfLastDay(state),
      nowMs,
      damage: damage ?? null,
    }),
  };
}

const emptyList: readonly never[] = [];

/** The last moment of which anything is covered, or was; null where nothing is. */
function findNewestCoveredMs({ coverage, lost = [] }: CompletenessInput): number | null {
  let newest = Number.NEGATIVE_INFINITY;
  // Of two layers the last window need not be the one that ends last.
  for (const list of coverage.values()) for (const { to } of list) newest = Math.max(newest, to);
  if (!Number.isFinite(newest)) return null;
  for (const { to } of lost) newest = Math.max(newest, to);
  return newest;
}

/** Whether the market lists of the last day that they were asked for were had whole. */
const hasWholeListsOfLastDay = ({ namedSymbols, lastListedDay = null, hasWholeLists }: CompletenessInput): boolean =>
  namedSymbols !== null || lastListedDay === null || hasWholeLists?.(lastListedDay) !== false;

interface DayTally extends Omit<DayState, 'state' | 'missing'> {
  readonly day: number;
  isIncomplete: boolean;
  isProvisional: boolean;
  expected: number;
  covered: number;
  readonly missing: string[];
  exceptions: number;
}

/** What the days of a verdict come to, symbol by symbol. */
interface DayTallies {
  add(judged: SymbolCompleteness, newest: number): void;
  computeDayStates(): Map<number, DayState>;
}

function createDayTallies(state: CompletenessInput, days: readonly number[]): DayTallies {
  const tallies = [...new Set(days)].sort((a, b) => a - b).map((day) => createDayTally(state, day));
  /** The difference that each day makes to the number of symbols that are proven whole: most are, for most of their days. */
  const whole = new Int32Array(tallies.length + 1);
  /** The index of the first day at or after a moment. */
  const firstFrom = (t: number): number => {
    let [low, high] = [0, tallies.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (tallies[middle]!.day >= t) high = middle;
      else low = middle + 1;
    }
    return low;
  };
  const firstOver = (t: number): number => firstFrom(t - dayMs + 1);
  return {
    add(judged, newest) {
      const { expected, provenFinal } = judged;
      if (tallies.length === 0 || expected.length === 0) return;
      const beside = addExceptions(judged, newest);
      if (expected.length > 1) {
        for (const tally of tallies) addToDayTally(tally, beside);
        return;
      }
      const { from, to } = expected[0]!;
      let [next, end] = [firstOver(from), firstFrom(to)];
      for (const proven of provenFinal) {
        if (proven.to <= from) continue;
        if (proven.from >= to) break;
        const first = proven.from <= from ? next : Math.max(next, firstFrom(proven.from));
        const last = proven.to >= to ? end : Math.min(end, firstOver(proven.to));
        if (first >= last) continue;
        whole[first]!++;
        whole[last]!--;
        for (; next < first; next++) addToDayTally(tallies[next]!, beside);
        next = last;
      }
      for (; next < end; next++) addToDayTally(tallies[next]!, beside);
    },
    computeDayStates() {
      let proven = 0;
      return new Map(
        tallies.map((tally, i) => {
          proven += whole[i]!;
          return [
            tally.day,
            toDayState({ ...tally, expected: tally.expected + proven, covered: tally.covered + proven }),
          ];
        }),
      );
    },
  };
}

function createDayTally({ namedSymbols, nowMs, hasWholeLists, damage }: CompletenessInput, day: number): DayTally {
  // Of a day without whole lists nobody knows whom it should have.
  const isListedWhole = namedSymbols !== null || hasWholeLists?.(day) !== false;
  const isIncomplete = day + dayMs > nowMs || !isListedWhole || damage?.days.has(day) === true;
  return { day, isIncomplete, isProvisional: false, expected: 0, covered: 0, missing: [], exceptions: 0 };
}

interface SymbolWithExceptions extends SymbolCompleteness {
  /** Final windows and excepted ones; and the proven of them. */
  readonly finalOrExcepted: readonly Window[];
  readonly provenOrExcepted: readonly Window[];
  /** Of a day that is not over as much is expected as is known of any symbol, up to here. */
  readonly expectedTo: number;
}

function addExceptions(judged: SymbolCompleteness, newest: number): SymbolWithExceptions {
  const { final, provenFinal, excepted, isUnrequested, owedTo } = judged;
  const beside = (windows: readonly Window[]): readonly Window[] =>
    excepted.length === 0 ? windows : union([...windows, ...excepted]);
  const cutTo = isUnrequested ? Number.POSITIVE_INFINITY : Math.max(newest, owedTo);
  return { ...judged, finalOrExcepted: beside(final), provenOrExcepted: beside(provenFinal), expectedTo: cutTo };
}

/** Adds what is there of one symbol to a day. */
function addToDayTally(tally: DayTally, judged: SymbolWithExceptions): void {
  const { expected, covered, final, provenFinal, excepted } = judged;
  const day = { from: tally.day, to: tally.day + dayMs };
  const alive = expected.map((window) => intersectTwo(window, day)).filter((window) => !isEmpty(window));
  if (alive.length === 0) return;
  tally.expected++;
  if (alive.every(({ from, to }) => hasWindowCovering(covered, { from, to: Math.min(to, judged.expectedTo) })))
    tally.covered++;
  else if (tally.missing.length < missingMax) tally.missing.push(judged.symbol);
  if (coversEach(provenFinal, alive)) return;
  if (coversEach(final, alive)) {
    tally.isProvisional = true;
  } else if (coversEach(judged.finalOrExcepted, alive)) {
    tally.exceptions += excepted.filter((w) => subtract(intersect([w], alive), final).length > 0).length;
    if (!coversEach(judged.provenOrExcepted, alive)) tally.isProvisional = true;
  } else if (judged.isSuspended) {
    tally.exceptions++;
    // Whatever else is covered of it is as provisional as of any other symbol.
    if (subtract(intersect(final, alive), provenFinal).length > 0) tally.isProvisional = true;
  } else tally.isIncomplete = true;
}

function toDayState({ isIncomplete, isProvisional, expected, covered, missing, exceptions }: DayTally): DayState {
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
  return { state, expected, covered, missing, exceptions };
}

const coversEach = (windows: readonly Window[], all: readonly Window[]): boolean =>
  all.every((w) => hasWindowCovering(windows, w));

/** Whether one of the sorted, disjoint windows holds all of `w`; by bisection, since there are many days to ask for. */
function hasWindowCovering(windows: readonly Window[], w: Window): boolean {
  if (isEmpty(w)) return true;
  let low = 0;
  let high = windows.length - 1;
  while (low <= high) {
    const middle = (low + high) >> 1;
    const at = windows[middle]!;
    if (at.to <= w.from) low = middle + 1;
    else if (at.from > w.from) high = middle - 1;
    else return at.to >= w.to;
  }
  return false;
}
