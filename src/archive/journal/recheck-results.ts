import { dayMs, floorToDay, intersect, splitByDay, subtract, union, type Window } from '../../base/window.ts';
import { type CoveredWindow, isProven } from '../format/coverage.ts';

/** Results of the rechecks of one night. Times are epoch ms. */
export interface RecheckNight {
  readonly at: number;
  /**
   * Number of rechecked windows, and of contradicted ones, which had ticks that the archive should have had already.
   */
  readonly windows: number;
  readonly contradicted: number;
  /** Contradicted windows whose new ticks were not late: the server had left them out. */
  readonly leftOut: number;
  /** Number of ticks in the responses for the rechecked windows, and number of new ones among them. */
  readonly seen: number;
  readonly found: number;
}

/** Maximum lateness measured on a day, in ms. */
interface DayLateness {
  readonly day: number;
  readonly ms: number;
}

export interface RecheckHistory {
  /** Latest last; at most 30 each. */
  readonly nights: readonly RecheckNight[];
  readonly lateness: readonly DayLateness[];
  /** When the server was found to leave out ticks. Older coverage is in doubt. Null: never. */
  readonly caughtAt: number | null;
  /**
   * Windows rechecked since the last contradiction. Contradictions between pages of polls count too, if `caughtAt` is
   * set.
   */
  readonly cleanWindows: number;
  /** When the lateness last grew. Coverage fetched earlier, and too soon after its time, is in doubt. Null: never. */
  readonly lateAt: number | null;
  /** When a response last left out a tick that earlier ones showed. It may be gone, so that it is expected no more. Null: never. */
  readonly omittedAt: number | null;
}

export const emptyRecheckHistory: RecheckHistory = {
  nights: [],
  lateness: [],
  caughtAt: null,
  cleanWindows: 0,
  lateAt: null,
  omittedAt: null,
};

/** Maximum number of nights, and of days with lateness, in the history. */
export const recheckNightsMax = 30;

/** Without proof, the server counts as leaving out ticks once the history has this many windows with left-out ticks. */
const leftOutWindowsMin = 2;
/**
 * The server is trusted again after this many windows without a contradiction, once all coverage in doubt has been
 * fetched again.
 */
export const cleanWindowsMin = 100;

/** Ratio of the overlap to the measured lateness. */
const latenessMargin = 1.5;

/**
 * How long the responses of a symbol are kept separate, in ms. Older ones are joined once they are final, and then no longer
 * show lateness.
 */
export const separateResponsesMs = 2 * dayMs;

/** Computes the maximum lateness in the history, in ms; 0 if none was measured. */
export const computeLatenessMs = ({ lateness }: RecheckHistory): number =>
  lateness.reduce((max, { ms }) => Math.max(max, ms), 0);

/**
 * Computes the overlap of polls before the cursor, in ms: the configured one, or 1.5 times the measured lateness if
 * that is more, up to a bound.
 * @param boundMs at least 0; a larger configured overlap still applies
 */
export const computeOverlapMs = (memory: RecheckHistory, configuredMs: number, boundMs: number): number =>
  Math.max(configuredMs, Math.min(boundMs, Math.ceil(latenessMargin * computeLatenessMs(memory))));

/** Records the lateness of a day; `day` is its midnight. Only an increase changes the history. */
export function recordLateness(memory: RecheckHistory, day: number, ms: number, atMs: number): RecheckHistory {
  if (ms <= 0) return memory;
  const knownMs = memory.lateness.find((entry) => entry.day === day)?.ms ?? 0;
  if (ms <= knownMs) return memory;
  const lateness = [...memory.lateness.filter((entry) => entry.day !== day), { day, ms }]
    .filter((entry) => entry.day > day - recheckNightsMax * dayMs)
    .sort((a, b) => a.day - b.day);
  return { ...memory, lateness, lateAt: ms > computeLatenessMs(memory) ? atMs : memory.lateAt };
}

/** The results of the rechecks of one run. */
interface RecheckOutcome extends RecheckNight {
  /**
   * Whether a response for a wide window omitted ticks between its first and last tick that a narrower response
   * returned.
   */
  readonly isProven: boolean;
  /** Maximum measured lateness, in ms; 0 if none was measured. */
  readonly latenessMs: number;
  /** Whether responses contradicted each other while the run fetched. */
  readonly isPagingContradicted: boolean;
}

/** Records the results of a night's rechecks. */
export function recordRechecks(memory: RecheckHistory, outcome: RecheckOutcome): RecheckHistory {
  const { at, windows, contradicted, seen, found, leftOut, latenessMs, isProven, isPagingContradicted } = outcome;
  const known = recordLateness(memory, floorToDay(at), latenessMs, at);
  const nights = windows === 0 ? known.nights : [...known.nights, { at, windows, contradicted, leftOut, seen, found }];
  const isClean = contradicted === 0 && !(memory.caughtAt !== null && isPagingContradicted);
  const cleanWindows = isClean ? memory.cleanWindows + windows : 0;
  const leftOutAll = nights.reduce((sum, night) => sum + night.leftOut, 0);
  const isCaught = leftOut > 0 && (isProven || memory.caughtAt !== null || leftOutAll >= leftOutWindowsMin);
  return {
    ...known,
    nights: nights.slice(-recheckNightsMax),
    cleanWindows,
    caughtAt: isCaught ? at : memory.caughtAt,
  };
}

/**
 * Finds the windows of a symbol's coverage that are in doubt and must be fetched again, latest first and split at UTC
 * midnights: windows fetched before the server was found to leave out ticks; and windows fetched before the lateness
 * was known, so soon after their time that late ticks may be missing.
 * @param overlapMs see `computeOverlapMs`
 */
export function findDoubtfulWindows(
  coverage: readonly CoveredWindow[],
  { caughtAt, lateAt, omittedAt }: RecheckHistory,
  overlapMs: number,
): Window[] {
  const polled = coverage.filter(({ origin }) => origin !== 'import');
  const getFetchedSince = (since: number): CoveredWindow[] => polled.filter(({ fetchedAt }) => fetchedAt >= since);
  const leftOutWindows =
    caughtAt === null
      ? []
      : subtract(
          // After an omission, only recent claims were withdrawn.
          polled.filter((w) => w.fetchedAt < caughtAt && (omittedAt === null || !isProven(w))),
          getFetchedSince(caughtAt),
        );
  const toLatePart = (w: CoveredWindow): Window => ({ from: Math.max(w.from, w.fetchedAt - overlapMs), to: w.to });
  const lateWindows =
    lateAt === null
      ? []
      : subtract(
          polled
            .filter(({ fetchedAt }) => fetchedAt < lateAt && fetchedAt > lateAt - separateResponsesMs)
            .map(toLatePart),
          polled.map((w) => ({ from: w.from, to: Math.min(w.to, w.fetchedAt - overlapMs) })),
        );
  return intersect(union([...leftOutWindows, ...lateWindows]), union(polled))
    .flatMap(splitByDay)
    .reverse();
}

/** Joins the histories of several sources, to sum them up: the nights of all, and the greatest lateness. */
export function joinRecheckHistories(histories: readonly RecheckHistory[]): RecheckHistory {
  return {
    ...emptyRecheckHistory,
    nights: histories.flatMap(({ nights }) => nights),
    lateness: histories.flatMap(({ lateness }) => lateness),
    caughtAt: histories.find(({ caughtAt }) => caughtAt !== null)?.caughtAt ?? null,
  };
}

/** Totals of the rechecks in the history. */
export interface RecheckFacts {
  readonly nights: number;
  readonly windows: number;
  readonly contradicted: number;
  readonly seen: number;
  readonly found: number;
  /** The estimated share of ticks missing from windows that were not rechecked; null if there are too few windows. */
  readonly missingShare: number | null;
  /** Upper bound of the share of incomplete windows, at 95 % confidence. */
  readonly contradictedShareMax: number;
  readonly latenessMs: number;
  readonly isCaught: boolean;
}

/** With fewer windows there is no estimate. */
const windowsMin = 30;

export function sumRechecks(memory: RecheckHistory): RecheckFacts {
  const sum = (name: 'windows' | 'contradicted' | 'seen' | 'found'): number =>
    memory.nights.reduce((total, night) => total + night[name], 0);
  const [windows, contradicted, seen, found] = [sum('windows'), sum('contradicted'), sum('seen'), sum('found')];
  return {
    nights: memory.nights.length,
    windows,
    contradicted,
    seen,
    found,
    missingShare: windows < windowsMin || seen === 0 ? null : found / seen,
    contradictedShareMax: computeShareMax(contradicted, windows),
    latenessMs: computeLatenessMs(memory),
    isCaught: memory.caughtAt !== null,
  };
}

/**
 * Upper end of the one-sided 95 % Wilson score interval (E. B. Wilson 1927) of `hits` in `count`; 1 if `count` is 0.
 */
function computeShareMax(hits: number, count: number): number {
  if (count === 0) return 1;
  const z = 1.645;
  const p = hits / count;
  const middle = p + (z * z) / (2 * count);
  const spread = z * Math.sqrt((p * (1 - p)) / count + (z * z) / (4 * count * count));
  return Math.min(1, (middle + spread) / (1 + (z * z) / count));
}
