import { formatCount } from '../../base/format-quantity.ts';
import { floorToDay, hourMs, intersect, subtract, type Window } from '../../base/window.ts';

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
  readonly delisted: NamedCount;
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
    delisted: toNamedCount(out.gone),
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

/** What one night brought. */
export interface NightVolume {
  /** Up to where it polled, epoch milliseconds. */
  readonly polledTo: number;
  /** How much time was polled that the night before had not, in ms. */
  readonly polledMs: number;
  /** Markets that the whole lists named; null where a list could not be had whole. */
  readonly markets: number | null;
  /** Ticks that were new. */
  readonly ticks: number;
}

/** The share, 0 to 1, by which each may fall against the last nights; 1 lets it fall to nothing. */
export interface VolumeDropRules {
  readonly marketsShareMax: number;
  readonly ticksShareMax: number;
}

/** Nights that tonight is compared with, the latest ones. */
export const comparedMax = 7;

/** Fewer nights say nothing of what is usual. */
const comparedMin = 3;

/** What is expected must be this much at least: of less, a good part may be missing by chance. */
const marketsMin = 5;
const ticksMin = 20;

/** Less new time than this is no night: a run that is repeated brings little, and that is as it should be. */
const nightMsMin = hourMs;

/**
 * How much time a poll up to `polledTo` adds to the last night's; null where that is too little for a night. The first
 * night adds the look back of its first polls.
 */
export function computeNewlyPolledMs(
  last: NightVolume | undefined,
  polledTo: number,
  lookbackMs: number,
): number | null {
  const polledMs = last === undefined ? lookbackMs : polledTo - last.polledTo;
  return polledMs < nightMsMin ? null : polledMs;
}

/**
 * What fell sharply tonight against the median of the last nights, a sentence each. A fall that stays is the usual level
 * after some nights.
 * @param past the latest first
 */
export function describeVolumeDrops(
  past: readonly NightVolume[],
  tonight: NightVolume,
  rules: VolumeDropRules,
): string[] {
  const compared = past.slice(0, comparedMax);
  const out: string[] = [];
  const markets = compared.flatMap((night) => night.markets ?? []);
  const usual = computeMedian(markets);
  if (tonight.markets !== null && markets.length >= comparedMin && usual >= marketsMin) {
    const fall = 1 - tonight.markets / usual;
    if (fall > rules.marketsShareMax) {
      out.push(
        `markets fell by ${formatPercent(fall)}: the lists name ${tonight.markets}, and ${formatRounded(usual)} in the median of the last ${markets.length} nights (drops.markets_share_max is ${rules.marketsShareMax})`,
      );
    }
  }
  const perHour = computeMedian(compared.map(computeTickRate));
  if (compared.length >= comparedMin && (perHour * tonight.polledMs) / hourMs >= ticksMin) {
    const fall = 1 - computeTickRate(tonight) / perHour;
    if (fall > rules.ticksShareMax) {
      out.push(
        `ticks fell by ${formatPercent(fall)}: ${formatRounded(computeTickRate(tonight))} new ones an hour, and ${formatRounded(perHour)} in the median of the last ${compared.length} nights (drops.ticks_share_max is ${rules.ticksShareMax})`,
      );
    }
  }
  return out;
}

/**
 * Whether the market lists of a poll are suddenly short, as in an outage or under a key of another scope; one clause, or
 * null. Lists that name nothing after they named something say nothing, whatever fall is allowed.
 * @param past how many the lists of the last days named, the latest first
 */
export function describeShortLists(count: number, past: readonly number[], shareMax: number): string | null {
  const compared = past.slice(0, comparedMax);
  if (compared.length === 0) return null;
  const usual = computeMedian(compared);
  const isEmptied = count === 0 && usual > 0;
  const hasFallen = compared.length >= comparedMin && usual >= marketsMin && 1 - count / usual > shareMax;
  if (!isEmptied && !hasFallen) return null;
  return `the lists name ${count}, and ${formatRounded(usual)} in the median of the last ${formatCount(compared.length, 'day')}: nobody counts as gone for it`;
}

/** New ticks an hour. */
const computeTickRate = ({ ticks, polledMs }: NightVolume): number => ticks / (polledMs / hourMs);

/** Rounded down, so that it is 100 % only where nothing is left. */
const formatPercent = (share: number): string => `${Math.floor(share * 100)} %`;
const formatRounded = (value: number): string =>
  value < 10 ? String(Math.round(value * 10) / 10) : String(Math.round(value));
