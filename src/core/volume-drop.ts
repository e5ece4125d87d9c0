import { formatCount } from './format-quantity.ts';
import { computeMedian } from './nightly-stats.ts';

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

const hourMs = 3_600_000;

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
        `markets fell by ${formatPercent(fall)}: the lists name ${tonight.markets}, and ${formatRounded(usual)} in the median of the last ${markets.length} nights (falls.markets_share_max is ${rules.marketsShareMax})`,
      );
    }
  }
  const perHour = computeMedian(compared.map(computeTickRate));
  if (compared.length >= comparedMin && (perHour * tonight.polledMs) / hourMs >= ticksMin) {
    const fall = 1 - computeTickRate(tonight) / perHour;
    if (fall > rules.ticksShareMax) {
      out.push(
        `ticks fell by ${formatPercent(fall)}: ${formatRounded(computeTickRate(tonight))} new ones an hour, and ${formatRounded(perHour)} in the median of the last ${compared.length} nights (falls.ticks_share_max is ${rules.ticksShareMax})`,
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
