import { floorToDay, intersect, subtract, type Window } from './window.ts';

/** How many are named of a count. */
const namesMax = 20;

/** A count, and the first 20 of them by name. */
export interface NamedCount {
  readonly count: number;
  readonly names: readonly string[];
}

export const toNamedCount = (names: readonly string[]): NamedCount => ({
  count: names.length,
  names: names.slice(0, namesMax),
});

/** A count and the median of the last nights; null where there was none. */
export interface CountComparison {
  readonly count: number;
  readonly median: number | null;
}

/** Compares with the nights that counted the same; `past` has a null for one that did not. */
export function compareWithPast(count: number, past: readonly (number | null)[]): CountComparison {
  const known = past.flatMap((value) => value ?? []);
  return { count, median: known.length === 0 ? null : computeMedian(known) };
}

/** NaN where there are none. */
export function computeMedian(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** What the market lists have told of a symbol, times in epoch ms. */
export interface ListedState {
  readonly symbol: string;
  /** When it was first heard of. */
  readonly firstSeen: number;
  /** Since when the lists call it inactive, or do not name it any more; null while it is active. */
  readonly inactiveSince: number | null;
  readonly closesAt: number | null;
  /** Whether it is resolved, by what was told; and when that was first told, null where nobody noted it. */
  readonly resolved: boolean;
  readonly resolutionSeen: number | null;
}

export interface MarketChanges {
  readonly new: NamedCount;
  readonly gone: NamedCount;
  readonly resolved: NamedCount;
  readonly overdue: NamedCount;
}

/**
 * How the markets changed after the moment `since`, each of them once at most among new, gone and resolved; and those that
 * are overdue at `nowMs`: still listed as active, past their close, and not resolved. The longest overdue come first,
 * the others in the order given.
 */
export function computeMarketChanges(states: readonly ListedState[], since: number, nowMs: number): MarketChanges {
  const out = { new: [] as string[], gone: [] as string[], resolved: [] as string[] };
  const overdue: ListedState[] = [];
  for (const state of states) {
    const { symbol, firstSeen, inactiveSince, closesAt, resolved, resolutionSeen } = state;
    if (firstSeen > since) out.new.push(symbol);
    else if (resolutionSeen !== null && resolutionSeen > since) out.resolved.push(symbol);
    else if (inactiveSince !== null && inactiveSince > since) out.gone.push(symbol);
    if (closesAt !== null && closesAt < nowMs && !resolved && inactiveSince === null) overdue.push(state);
  }
  overdue.sort((a, b) => a.closesAt! - b.closesAt!);
  return {
    new: toNamedCount(out.new),
    gone: toNamedCount(out.gone),
    resolved: toNamedCount(out.resolved),
    overdue: toNamedCount(overdue.map(({ symbol }) => symbol)),
  };
}

/** A window of one symbol, with the life of that symbol, that was asked for and not had. */
export interface UncoveredWindow extends Window {
  readonly symbol: string;
  readonly lifetime: Window;
}

export interface NightCoverage {
  /** Symbols of which all of the night is covered. */
  readonly symbols: number;
  /** Minutes of symbols' lives in the night that nothing covers, summed over symbols and rounded up. */
  readonly gap_minutes: number;
}

/** What of a night is covered, `polled` symbols having been asked for. */
export function computeNightCoverage(
  polled: number,
  lacking: readonly UncoveredWindow[],
  night: Window,
): NightCoverage {
  let ms = 0;
  let symbols = 0;
  for (const windows of Map.groupBy(lacking, ({ symbol }) => symbol).values()) {
    const gaps = intersect(intersect(windows, [windows[0]!.lifetime]), [night]);
    if (gaps.length > 0) symbols++;
    for (const { from, to } of gaps) ms += to - from;
  }
  return { symbols: Math.max(0, polled - symbols), gap_minutes: Math.ceil(ms / 60_000) };
}

/**
 * Whether some day that a symbol is asked for now, and was not covered before, had ended so long ago at `fetchedAtMs`
 * that a service which thins its past after `thinsAfterMs` may have thinned it. `asked`: in order.
 */
export function isThinnedBeforeFetch(
  asked: readonly Window[],
  covered: readonly Window[],
  fetchedAtMs: number,
  thinsAfterMs: number,
): boolean {
  const first = asked[0];
  if (first === undefined || first.from >= fetchedAtMs - thinsAfterMs) return false;
  const thinned = { from: Number.NEGATIVE_INFINITY, to: floorToDay(fetchedAtMs - thinsAfterMs) };
  const old = intersect(asked, [thinned]);
  return old.length > 0 && subtract(old, covered).length > 0;
}
