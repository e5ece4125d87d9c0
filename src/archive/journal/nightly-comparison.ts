import { formatCount } from '../../base/format-quantity.ts';
import { floorToDay, hourMs, intersect, minuteMs, subtract, type Window } from '../../base/window.ts';

/** Maximum number of names in a NamedCount. */
const namesMax = 20;

/** A count and its first 20 names. */
export interface NamedCount {
  readonly count: number;
  readonly names: readonly string[];
}

export const toNamedCount = (names: readonly string[]): NamedCount => ({
  count: names.length,
  names: names.slice(0, namesMax),
});

/** A count, and the median of the last nights, which is null if there were none. */
export interface CountComparison {
  readonly count: number;
  readonly median: number | null;
}

/** Compares a count with those of past nights. */
export const compareWithPast = (count: number, past: readonly number[]): CountComparison => ({
  count,
  median: past.length === 0 ? null : computeMedian(past),
});

/** Computes the median; NaN for an empty list. */
export function computeMedian(values: readonly number[]): number {
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}

/** A symbol as the market lists show it. Times are epoch ms. */
export interface ListedState {
  readonly symbol: string;
  /** When it was first seen. */
  readonly firstSeen: number;
  /** When the lists began to show it as inactive or ceased to name it; null while it is active. */
  readonly inactiveSince: number | null;
  readonly closesAt: number | null;
  /** Whether the lists show it as resolved, and when they first did; null if not recorded. */
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
 * Computes the market changes after `since`. Each market is counted at most once among new, gone and resolved. Overdue
 * markets are still listed as active, past their close at `nowMs`, and not resolved; the longest overdue come first.
 * The other names keep the given order.
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

/** A window that was requested and is not covered, with the lifetime of its symbol. */
interface UncoveredWindow extends Window {
  readonly symbol: string;
  readonly lifetime: Window;
}

interface NightCoverage {
  /** Symbols that are covered for the whole night. */
  readonly symbols: number;
  /** Uncovered minutes of symbol lifetimes in the night, summed over symbols and rounded up. */
  readonly gap_minutes: number;
}

/** Computes the coverage of a night in which `polled` symbols were requested. */
export function computeNightCoverage(
  polled: number,
  uncovered: readonly UncoveredWindow[],
  night: Window,
): NightCoverage {
  let ms = 0;
  let symbols = 0;
  for (const windows of Map.groupBy(uncovered, ({ symbol }) => symbol).values()) {
    const gaps = intersect(intersect(windows, [windows[0]!.lifetime]), [night]);
    if (gaps.length > 0) symbols++;
    for (const { from, to } of gaps) ms += to - from;
  }
  return { symbols: Math.max(0, polled - symbols), gap_minutes: Math.ceil(ms / minuteMs) };
}

/**
 * Whether the server may have thinned a requested day before it was fetched. That is possible if the day was not
 * previously covered and ended at least `thinsAfterMs` before `fetchedAtMs`. `requested` is sorted.
 */
export function isThinnedBeforeFetch(
  requested: readonly Window[],
  covered: readonly Window[],
  fetchedAtMs: number,
  thinsAfterMs: number,
): boolean {
  const first = requested[0];
  if (first === undefined || first.from >= fetchedAtMs - thinsAfterMs) return false;
  const thinned = { from: Number.NEGATIVE_INFINITY, to: floorToDay(fetchedAtMs - thinsAfterMs) };
  const thinnedRequests = intersect(requested, [thinned]);
  return thinnedRequests.length > 0 && subtract(thinnedRequests, covered).length > 0;
}

/** The volume of one night. */
export interface NightVolume {
  /** End of the polled window, epoch milliseconds. */
  readonly polledTo: number;
  /** Newly polled time since the night before, in ms. */
  readonly polledMs: number;
  /** Markets in the complete lists; null if a list was incomplete. */
  readonly markets: number | null;
  /** New ticks. */
  readonly ticks: number;
}

/** Maximum share, 0 to 1, by which each count may fall compared with the last nights; 1 allows a fall to zero. */
interface VolumeDropRules {
  readonly marketsShareMax: number;
  readonly ticksShareMax: number;
}

/** Number of most recent nights to compare with. */
export const comparedMax = 7;

/**
 * The most recent nights whose counts compare with those of a night of `polledMs`. The first night, and one after an outage,
 * polled many times as much.
 * @param past latest first
 */
export const selectSimilarNights = <N extends Pick<NightVolume, 'polledMs'>>(
  past: readonly N[],
  polledMs: number,
): readonly N[] => past.filter((night) => night.polledMs <= 2 * polledMs).slice(0, comparedMax);

/** With fewer nights, no usual level is known. */
const comparedMin = 3;

/** Smaller expected counts vary too much by chance. */
const marketsMin = 5;
const ticksMin = 20;

/** A shorter run is not compared, because a repeated run finds few new ticks. */
const nightMsMin = hourMs;

/**
 * Computes the time that a poll up to `polledTo` adds to the last night; null if that is too short for a night. The
 * first night adds the lookback of its first polls.
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
 * Describes each sharp drop below the median of the last nightly runs, one clause each. After some nights, a lower
 * level becomes the usual one.
 * @param past latest first
 */
export function describeVolumeDrops(
  past: readonly NightVolume[],
  tonight: NightVolume,
  rules: VolumeDropRules,
  selectedSinceMs = 0,
): string[] {
  const compared = past.slice(0, comparedMax);
  const out: string[] = [];
  const markets = compared.flatMap((night) => night.markets ?? []);
  const usual = computeMedian(markets);
  if (tonight.markets !== null && markets.length >= comparedMin && usual >= marketsMin) {
    const fall = 1 - tonight.markets / usual;
    if (fall > rules.marketsShareMax) {
      out.push(
        `markets fell by ${formatPercent(fall)}: the lists name ${tonight.markets}, the median of the last ${markets.length} nights is ${formatRounded(usual)} (drops.markets_share_max is ${rules.marketsShareMax})`,
      );
    }
  }
  const similar = compared.filter(({ polledTo }) => polledTo >= selectedSinceMs);
  const perHour = computeMedian(similar.map(computeTickRate));
  if (similar.length >= comparedMin && (perHour * tonight.polledMs) / hourMs >= ticksMin) {
    const fall = 1 - computeTickRate(tonight) / perHour;
    if (fall > rules.ticksShareMax) {
      out.push(
        `ticks fell by ${formatPercent(fall)}: ${formatRounded(computeTickRate(tonight))} new ticks per hour, the median of the last ${similar.length} nights is ${formatRounded(perHour)} (drops.ticks_share_max is ${rules.ticksShareMax})`,
      );
    }
  }
  return out;
}

/**
 * Describes market lists that are suddenly short, as in an outage or with a key that has another scope; one clause, or
 * null. Empty lists after non-empty ones are always reported, regardless of the allowed drop.
 * @param past counts of the last days, latest first
 */
export function describeShortLists(count: number, past: readonly number[], shareMax: number): string | null {
  const compared = past.slice(0, comparedMax);
  if (compared.length === 0) return null;
  const usual = computeMedian(compared);
  const isEmptied = count === 0 && usual > 0;
  const hasFallen = compared.length >= comparedMin && usual >= marketsMin && 1 - count / usual > shareMax;
  if (!isEmptied && !hasFallen) return null;
  return `the lists name ${count}, the median of the last ${formatCount(compared.length, 'day')} is ${formatRounded(usual)}: no market is marked inactive because of it`;
}

/** New ticks per hour. */
const computeTickRate = ({ ticks, polledMs }: NightVolume): number => ticks / (polledMs / hourMs);

/** Rounds down, so that 100 % means that nothing is left. */
const formatPercent = (share: number): string => `${Math.floor(share * 100)} %`;
const formatRounded = (value: number): string =>
  value < 10 ? String(Math.round(value * 10) / 10) : String(Math.round(value));
