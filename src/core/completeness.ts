import { type Covered, settled } from './coverage.ts';
import { cursorOf, isLive, type LingerRules, lifeOf } from './life.ts';
import type { LostWindow } from './lost.ts';
import type { SymbolFacts } from './market.ts';
import { dayMs, intersection, isEmpty, union, type Window, within } from './window.ts';

export interface DayState {
  /** Every symbol alive that day is covered to its end by answers generated `settleMs` after it. */
  readonly complete: boolean;
  /** Symbols alive that day. */
  readonly expected: number;
  /** Those covered throughout, as far as the day had gone when it was published. */
  readonly covered: number;
  /** Some of the others, at most `missingMax`. */
  readonly missing: readonly string[];
}

export interface Question {
  readonly symbols: readonly SymbolFacts[];
  readonly coverage: ReadonlyMap<string, readonly Covered[]>;
  /** Symbols named by hand, the only ones that are polled; null where the market lists decide. */
  readonly named: ReadonlySet<string> | null;
  /** Windows whose ticks were had once: a symbol was alive in them, whatever is left to tell so. */
  readonly lost?: readonly LostWindow[];
  /** UTC midnights. */
  readonly days: readonly number[];
  readonly nowMs: number;
  readonly rules: LingerRules;
}

const missingMax = 20;

export interface Completeness {
  readonly days: Map<number, DayState>;
  /** Up to where every live symbol is covered without a hole; null: no live symbol. */
  readonly watermark: number | null;
  /** The same but for what is lost: how far collecting has come, however long a loss stays one. */
  readonly reached: number | null;
}

/** What of each day is there, and how far all is covered. */
export function completeness(question: Question): Completeness {
  const { coverage, named, nowMs, rules } = question;
  const days = question.days.map((day) => ({
    day,
    complete: day + dayMs <= nowMs,
    expected: 0,
    covered: 0,
    missing: [] as string[],
  }));
  const daysOf = daysIn(days);
  let newest = Number.NEGATIVE_INFINITY;
  for (const list of coverage.values()) newest = Math.max(newest, list.at(-1)?.to ?? newest);
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
    const final = union(settled(answers, rules.settleMs));
    const cursor = cursorOf(facts, covered);
    const live = named === null ? isLive(facts, cursor, nowMs, rules) : wanted && facts.retiredAt === null;
    const gone = lost.get(facts.symbol);
    if (live) {
      const reach = gone === undefined ? cursor : cursorOf(facts, union([...covered, ...gone]));
      watermark = Math.min(watermark ?? cursor, cursor);
      reached = Math.min(reached ?? reach, reach);
    }
    if (facts.retiredAt !== null && answers.length === 0) continue;
    // One that was given up on is waited for no further than it ever answered.
    const until = facts.retiredAt === null ? Number.POSITIVE_INFINITY : covered.at(-1)!.to;
    const life = intersection(lifeOf(facts), { from: Number.NEGATIVE_INFINITY, to: until });
    for (const state of gone === undefined ? daysOf(life) : days) {
      const day = { from: state.day, to: state.day + dayMs };
      const living = intersection(life, day);
      const alive = gone !== undefined && isEmpty(living) ? (gone.find((w) => within(w.from, day)) ?? living) : living;
      if (isEmpty(alive)) continue;
      state.expected++;
      if (holds(covered, unasked || alive !== living ? alive : intersection(alive, { from: state.day, to: newest })))
        state.covered++;
      else if (state.missing.length < missingMax) state.missing.push(facts.symbol);
      if (!holds(final, alive)) state.complete = false;
    }
  }
  // A run whose clock was ahead may have claimed what is still to come.
  const past = (t: number | null): number | null => (t === null ? null : Math.min(t, nowMs));
  return {
    days: new Map(days.map(({ day, ...state }) => [day, state])),
    ...{ watermark: past(watermark), reached: past(reached) },
  };
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
