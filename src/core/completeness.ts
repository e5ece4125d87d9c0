import { type Covered, isProven, settled } from './coverage.ts';
import { cursorOf, isLive, type LingerRules, lifetimeOf } from './life.ts';
import type { LostWindow } from './lost.ts';
import type { SymbolFacts } from './market.ts';
import { dayMs, intersect, intersection, isEmpty, subtract, union, type Window, within } from './window.ts';

/**
 * How whole a UTC day is. `complete`: every symbol expected is covered to its end by proven windows, answered at least
 * `settleMs` after each moment. `provisional`: the same, but for inferred windows. `complete_with_exceptions`: but for
 * suspended symbols and excepted windows. `empty`: no symbol is expected.
 */
export const dayStates = ['complete', 'provisional', 'complete_with_exceptions', 'incomplete', 'empty'] as const;

export interface DayState {
  readonly state: (typeof dayStates)[number];
  /** Symbols whose lifetime meets the day. */
  readonly expected: number;
  /** Those covered throughout, as far as the day had gone when it was published. */
  readonly covered: number;
  /** Some of the others, at most `missingMax`. */
  readonly missing: readonly string[];
  /** Suspended symbols, and accepted, lost or expired windows, that the state looks away from. */
  readonly exceptions: number;
}

/** Whether nothing of a day is missing as far as is known, be it provisionally or but for exceptions. */
export const isWhole = ({ state }: Pick<DayState, 'state'>): boolean => state !== 'incomplete';

export interface Question {
  readonly symbols: readonly SymbolFacts[];
  readonly coverage: ReadonlyMap<string, readonly Covered[]>;
  /** Symbols named by hand, the only ones that are polled; null where the market lists decide. */
  readonly named: ReadonlySet<string> | null;
  /** Windows whose ticks were had once: a symbol was alive in them, whatever is left to tell so. */
  readonly lost?: readonly LostWindow[];
  /** Windows by symbol that hold nothing up though nothing covers them, besides the lost ones: accepted and expired ones. */
  readonly excepted?: ReadonlyMap<string, readonly Window[]>;
  /** UTC midnights. */
  readonly days: readonly number[];
  /** Whether each market list was had whole within a UTC day; all were where it is not given, or no list decides. */
  readonly listedWhole?: ((day: number) => boolean) | undefined;
  readonly nowMs: number;
  readonly rules: LingerRules;
}

const missingMax = 20;

export interface Completeness {
  readonly days: Map<number, DayState>;
  /**
   * Up to where every live symbol is covered without a gap by proven windows, excepted ones aside; null: no live symbol,
   * or nothing covered.
   */
  readonly watermark: number | null;
  /** The same with inferred windows: how far collecting has come. */
  readonly reached: number | null;
}

/** What of each day is there, and how far all is covered. */
export function completeness(question: Question): Completeness {
  const { coverage, named, nowMs, rules } = question;
  const days = question.days.map((day) => ({
    // Of a day without whole lists nobody knows whom it should have.
    ...{ day, isIncomplete: day + dayMs > nowMs || (named === null && question.listedWhole?.(day) === false) },
    ...{ isProvisional: false, expected: 0, covered: 0, missing: [] as string[], exceptions: 0 },
  }));
  const daysOf = daysIn(days);
  let newest = Number.NEGATIVE_INFINITY;
  // Of two layers the last window need not be the one that ends last.
  for (const list of coverage.values()) for (const { to } of list) newest = Math.max(newest, to);
  // Before anything is covered all that was to be is missing.
  const isAnyCovered = Number.isFinite(newest);
  if (!isAnyCovered) newest = nowMs;
  let watermark: number | null = null;
  let reached: number | null = null;
  const lost = Map.groupBy(question.lost ?? [], ({ symbol }) => symbol);
  for (const facts of question.symbols) {
    const answers = coverage.get(facts.symbol) ?? [];
    const wanted = named === null ? facts.listed : named.has(facts.symbol);
    // Of rows of a file that are not said to cover anything there are ticks and no answers.
    const unasked = answers.length === 0 && !wanted;
    if (unasked && facts.ticks === 0) continue;
    const covered = union(answers);
    const proven = answers.filter(isProven);
    const final = union(settled(answers, rules.settleMs));
    const provenFinal = proven.length === answers.length ? final : union(settled(proven, rules.settleMs));
    const gone = lost.get(facts.symbol);
    const known = gone === undefined ? covered : union([...covered, ...gone]);
    const cursor = cursorOf(facts, covered, rules, known);
    const isSuspended = facts.suspendedAt !== null;
    const live = named === null ? isLive(facts, cursor, nowMs, rules) : wanted && !isSuspended;
    const excepted = [...(gone ?? []), ...(question.excepted?.get(facts.symbol) ?? [])];
    const beside = (windows: readonly Window[]): Window[] => union([...windows, ...excepted]);
    if (live) {
      const proof = cursorOf(facts, beside(proven), rules, known);
      const reach = excepted.length === 0 ? cursor : cursorOf(facts, beside(covered), rules, known);
      watermark = Math.min(watermark ?? proof, proof);
      reached = Math.min(reached ?? reach, reach);
    }
    const [finalBeside, provenBeside] =
      excepted.length === 0 ? [final, provenFinal] : [beside(final), beside(provenFinal)];
    const life = lifetimeOf(facts, known, rules);
    for (const state of gone === undefined ? daysOf(life) : days) {
      const day = { from: state.day, to: state.day + dayMs };
      const living = intersection(life, day);
      const alive = gone !== undefined && isEmpty(living) ? (gone.find((w) => within(w.from, day)) ?? living) : living;
      if (isEmpty(alive)) continue;
      state.expected++;
      if (holds(covered, unasked || alive !== living ? alive : intersection(alive, { from: state.day, to: newest })))
        state.covered++;
      else if (state.missing.length < missingMax) state.missing.push(facts.symbol);
      if (holds(provenFinal, alive)) continue;
      if (holds(final, alive)) {
        state.isProvisional = true;
      } else if (holds(finalBeside, alive)) {
        state.exceptions += excepted.filter((w) => subtract(intersect([w], [alive]), final).length > 0).length;
        if (!holds(provenBeside, alive)) state.isProvisional = true;
      } else if (isSuspended) {
        state.exceptions++;
        // Whatever else is covered of it is as provisional as of any other symbol.
        if (subtract(intersect(final, [alive]), provenFinal).length > 0) state.isProvisional = true;
      } else state.isIncomplete = true;
    }
  }
  // A run whose clock was ahead may have claimed what is still to come.
  const past = (t: number | null): number | null => (t === null || !isAnyCovered ? null : Math.min(t, nowMs));
  return {
    days: new Map(days.map((day) => [day.day, toState(day)])),
    ...{ watermark: past(watermark), reached: past(reached) },
  };
}

interface Tally extends Omit<DayState, 'state'> {
  readonly isIncomplete: boolean;
  readonly isProvisional: boolean;
}

function toState({ isIncomplete, isProvisional, expected, covered, missing, exceptions }: Tally): DayState {
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

/** Finds the days that a window reaches into, in their order: most symbols lived for few of the days that there are. */
function daysIn<Day extends { readonly day: number }>(days: readonly Day[]): (window: Window) => readonly Day[] {
  if (days.some(({ day }, i) => i > 0 && days[i - 1]!.day >= day)) return () => days;
  const firstAfter = (t: number): number => {
    let [low, high] = [0, days.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (days[middle]!.day >= t) high = middle;
      else low = middle + 1;
    }
    return low;
  };
  return ({ from, to }) => days.slice(firstAfter(from - dayMs), firstAfter(to));
}

/** Whether one of the sorted, disjoint windows holds all of `w`; by bisection, since there are many days to ask for. */
function holds(windows: readonly Window[], w: Window): boolean {
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
