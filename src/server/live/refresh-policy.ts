import { dayMs, hourMs, minuteMs, type Window } from '../../base/window.ts';

/** What is known about the ticks of a symbol. Times are epoch milliseconds. */
export interface TailFacts {
  /** End of the latest covered window; null if nothing is covered. */
  readonly coveredTo: number | null;
  /** Start of trading; null if it is unknown. */
  readonly opensAt: number | null;
  /** End of the symbol's lifetime, after which no ticks are expected; infinite while it is open. */
  readonly endsAt: number;
  /** End of the latest lost window; null if there is none. A part of a lost window cannot prove it restored. */
  readonly lostTo: number | null;
  /** Known ticks per millisecond; null if there are too few to tell. */
  readonly ticksPerMs: number | null;
}

export interface TailRules {
  readonly maxAgeMs: number;
  /** Maximum ticks per page of the upstream. */
  readonly pageLimit: number;
  /** Re-read before the end of the coverage, for ticks that are a little late, in ms. */
  readonly overlapMs: number;
}

/** Pages that one live read may need, by the known density of ticks. A longer tail is the collector's work. */
const pagesMax = 4;

/** Longest tail that a live read fetches, and the longest if the density of ticks is unknown, in ms. */
const tailMsMax = dayMs;
const tailMsUnknown = hourMs;
const tailMsMin = minuteMs;

/** Whether data of this time is too old to be served without asking. A time in the future counts as fresh. */
export const isStale = (dataTime: number | null, nowMs: number, maxAgeMs: number): boolean =>
  dataTime === null || nowMs - dataTime > maxAgeMs;

/**
 * Plans the live read for a request for ticks before `to`: the window that the archive lacks up to now, or its last part
 * if it is long. Null if the archive is fresh enough, or the request needs nothing that the read would fetch.
 */
export function planTail(facts: TailFacts, to: number, nowMs: number, rules: TailRules): Window | null {
  const { coveredTo, opensAt, endsAt, lostTo, ticksPerMs } = facts;
  if (!isStale(coveredTo, nowMs, rules.maxAgeMs)) return null;
  if (coveredTo !== null && coveredTo >= Math.min(to, endsAt)) return null;
  const lengthMax = Math.min(
    tailMsMax,
    ticksPerMs === null ? tailMsUnknown : Math.max(tailMsMin, (pagesMax * rules.pageLimit) / ticksPerMs),
  );
  const bound = Math.max(nowMs - lengthMax, lostTo ?? 0);
  const start = coveredTo === null ? (opensAt ?? 0) : coveredTo - rules.overlapMs;
  const from = Math.max(start, bound);
  return from < Math.min(to, nowMs) ? { from, to: nowMs } : null;
}
