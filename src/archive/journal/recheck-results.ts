import { dayMs, floorToDay, intersect, splitByDay, subtract, union, type Window } from '../../base/window.ts';
import type { CoveredWindow } from '../format/coverage.ts';

/** What the rechecks of one night found. Times are epoch ms. */
export interface RecheckNight {
  readonly at: number;
  /** Settled windows that were read again, and those of them that brought ticks which the archive should have had. */
  readonly windows: number;
  readonly contradicted: number;
  /** Those of the contradicted windows whose new ticks are no late ones: the service left them out. */
  readonly leftOut: number;
  /** Ticks in these windows that the service brought, and those of them that were new. */
  readonly seen: number;
  readonly found: number;
}

/** The lateness that a day's runs measured: the greatest time, in ms, for which a tick was not there yet. */
export interface DayLateness {
  readonly day: number;
  readonly ms: number;
}

/** What is remembered of rechecks from night to night. */
export interface RecheckMemory {
  /** Latest last; at most 30 each. */
  readonly nights: readonly RecheckNight[];
  readonly lateness: readonly DayLateness[];
  /** When the service was caught leaving ticks out: what was fetched before is in doubt. Null: it was not. */
  readonly caughtAt: number | null;
  /** Windows that were rechecked since anything contradicted, the paging of polls included. */
  readonly cleanWindows: number;
  /** When lateness last grew: what was fetched before, and so shortly before, is in doubt. Null: never. */
  readonly lateAt: number | null;
}

export const emptyRecheckMemory: RecheckMemory = {
  nights: [],
  lateness: [],
  caughtAt: null,
  cleanWindows: 0,
  lateAt: null,
};

/** Nights, and days with lateness, that are remembered. */
export const recheckNightsMax = 30;

/** Left-out windows of the remembered nights from which on the service counts as caught, where none is proven. */
const leftOutWindowsMin = 2;
/** Windows without a contradiction after which a service that was caught is trusted again, once all was read again. */
export const cleanWindowsMin = 100;

/** How much longer than the measured lateness the overlap is. */
const latenessMargin = 1.5;

/** How long the responses of a symbol are told apart: older ones are joined, and no lateness can be read off them. */
export const separateResponsesMs = 2 * dayMs;

/** The greatest lateness that is remembered, in ms; 0 where none was measured. */
export const computeLatenessMs = ({ lateness }: RecheckMemory): number =>
  lateness.reduce((max, { ms }) => Math.max(max, ms), 0);

/**
 * How far before its cursor a poll reads again, in ms: as configured, or half as much again as the measured lateness
 * where that is more, up to a bound.
 * @param boundMs at least 0; what is configured counts though it is more
 */
export const computeOverlapMs = (memory: RecheckMemory, configuredMs: number, boundMs: number): number =>
  Math.max(configuredMs, Math.min(boundMs, Math.ceil(latenessMargin * computeLatenessMs(memory))));

/** Remembers a lateness of a day, `day` being its midnight; less than what is known changes nothing. */
export function recordLateness(memory: RecheckMemory, day: number, ms: number, atMs: number): RecheckMemory {
  if (ms <= 0) return memory;
  const before = memory.lateness.find((of) => of.day === day)?.ms ?? 0;
  if (ms <= before) return memory;
  const lateness = [...memory.lateness.filter((of) => of.day !== day), { day, ms }]
    .filter((of) => of.day > day - recheckNightsMax * dayMs)
    .sort((a, b) => a.day - b.day);
  return { ...memory, lateness, lateAt: ms > computeLatenessMs(memory) ? atMs : memory.lateAt };
}

/** What the rechecks of one run came to. */
export interface RecheckOutcome extends RecheckNight {
  /** Whether a wide response lacked ticks between its own that a narrow one brought. */
  readonly isProven: boolean;
  /** The greatest lateness that was measured, in ms; 0 where none was. */
  readonly latenessMs: number;
  /** Whether responses contradicted each other while the run fetched. */
  readonly isPagingContradicted: boolean;
}

/** Remembers what a night's rechecks found. */
export function recordRechecks(memory: RecheckMemory, outcome: RecheckOutcome): RecheckMemory {
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
 * What of a symbol's coverage is in doubt and is to be read again, the latest first and cut at UTC midnights: all that
 * was fetched before the service was caught; and what was fetched so shortly after its own time that late ticks may be
 * missing, before lateness was known.
 * @param overlapMs see `computeOverlapMs`
 */
export function findDoubtfulWindows(
  coverage: readonly CoveredWindow[],
  { caughtAt, lateAt }: RecheckMemory,
  overlapMs: number,
): Window[] {
  const polled = coverage.filter(({ origin }) => origin !== 'import');
  const sure = (since: number): CoveredWindow[] => polled.filter(({ fetchedAt }) => fetchedAt >= since);
  const left =
    caughtAt === null
      ? []
      : subtract(
          polled.filter(({ fetchedAt }) => fetchedAt < caughtAt),
          sure(caughtAt),
        );
  const hasty = (w: CoveredWindow): Window => ({ from: Math.max(w.from, w.fetchedAt - overlapMs), to: w.to });
  const late =
    lateAt === null
      ? []
      : subtract(
          polled.filter(({ fetchedAt }) => fetchedAt < lateAt && fetchedAt > lateAt - separateResponsesMs).map(hasty),
          polled.map((w) => ({ from: w.from, to: Math.min(w.to, w.fetchedAt - overlapMs) })),
        );
  return intersect(union([...left, ...late]), union(polled))
    .flatMap(splitByDay)
    .reverse();
}

/** What the rechecks of the remembered nights say together. */
export interface RecheckFacts {
  readonly nights: number;
  readonly windows: number;
  readonly contradicted: number;
  readonly seen: number;
  readonly found: number;
  /** The share of ticks that is expected to be missing from what was not rechecked; null: too few windows to say. */
  readonly missingShare: number | null;
  /** The greatest share of windows with something missing that the sample leaves likely, 95 of 100 times. */
  readonly contradictedShareMax: number;
  readonly latenessMs: number;
  readonly isCaught: boolean;
}

/** Fewer windows than this say nothing of the whole. */
const windowsMin = 30;

/** Sums up the nights that are remembered. */
export function sumRechecks(memory: RecheckMemory): RecheckFacts {
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
 * Upper end of the Wilson score interval (E. B. Wilson 1927), 95 % one-sided, of `hits` among `count`; 1 for none.
 */
function computeShareMax(hits: number, count: number): number {
  if (count === 0) return 1;
  const z = 1.645;
  const p = hits / count;
  const middle = p + (z * z) / (2 * count);
  const spread = z * Math.sqrt((p * (1 - p)) / count + (z * z) / (4 * count * count));
  return Math.min(1, (middle + spread) / (1 + (z * z) / count));
}
