import type { RejectedInput, TickColumns } from '../../base/ticks.ts';
import { timeEnd, timeMin } from '../../base/time.ts';
import { intersectTwo, isEmpty, isWithin, type Window } from '../../base/window.ts';
import type { TickPage } from '../../client/upstream.ts';

/** What one response says of the window that it was requested for. Times are epoch milliseconds. */
export interface Observation {
  readonly window: Window;
  /** The window that stood in the request. */
  readonly requested: Window;
  /** Distinct times of the usable ticks inside `asked`, ascending. */
  readonly times: Float64Array;
  /** Distinct usable ticks (time and price), inside `asked` or not. */
  readonly count: number;
  /** Those of the first, and of the last, of `times`. */
  readonly countAtFirst: number;
  readonly countAtLast: number;
  /** Distinct usable ticks before and after what was requested. */
  readonly countBefore: number;
  readonly countAfter: number;
  /** First and last usable tick, wherever they lie; null where there is none. */
  readonly first: number | null;
  readonly last: number | null;
  /** Elements received, whether that is as many as were requested, and those of them that are unusable. */
  readonly received: number;
  readonly isFull: boolean;
  readonly rejected: number;
  /** Why the first of them is; empty where none is. */
  readonly rejectedReason: string;
  readonly observedAt: number;
  /** As stated; null where the response does not say. Two responses with one moment are one observation. */
  readonly generatedAt: number | null;
  /** What it may speak for: asked, stated by the service, before it was generated. May be empty. */
  readonly claimableWindow: Window;
  /** Whether it states an end narrower than requested at its first, or last, tick: it says where it was cut. */
  readonly isTruncatedLow: boolean;
  readonly isTruncatedHigh: boolean;
  /** Windows that the service says it lacks. */
  readonly gaps: readonly Window[];
}

/** What stood in a request, and when it and its response were. Times are epoch milliseconds. */
export interface SentRequest {
  readonly requested: Window;
  /** The most ticks that it asked for. */
  readonly limit: number;
  readonly sentAt: number;
  /** The latest time that is believed of the response. */
  readonly futureMs: number;
}

export interface ObservedPage {
  readonly observation: Observation;
  /** Usable ticks inside the asked window, in the order they came. */
  readonly ticks: TickColumns;
  readonly rejected: readonly RejectedInput[];
}

/** Judges a response of the tick route: its usable ticks, and what it may speak for. */
export function observePage(
  page: TickPage,
  asked: Window,
  { requested, limit, sentAt, futureMs }: SentRequest,
): ObservedPage {
  const observedAt = resolveObservedAt(page.generatedAt, sentAt, futureMs, page.servedAt);
  const { ticks, rejected, span } = validateTicks(page, asked, futureMs);
  const { count, before, after } = countDistinct(page, requested, futureMs);
  const times = listDistinctTimes(ticks.t);
  const reach = computeClaimableWindow(asked, requested, page, times, observedAt);
  const observation: Observation = {
    window: { from: asked.from, to: asked.to },
    requested,
    times,
    count,
    countBefore: before,
    countAfter: after,
    observedAt,
    claimableWindow: reach,
    countAtFirst: countAt(ticks, times[0]),
    countAtLast: countAt(ticks, times.at(-1)),
    first: span?.first ?? null,
    last: span?.last ?? null,
    received: page.received,
    isFull: page.received >= limit,
    rejected: rejected.length,
    gaps: page.gaps,
    rejectedReason: rejected[0]?.reason ?? '',
    generatedAt: page.generatedAt === observedAt ? page.generatedAt : null,
    isTruncatedLow: times.length > 0 && page.from === times[0] && page.from > requested.from + 1,
    isTruncatedHigh:
      times.length > 0 && page.to !== null && isAtTick(page.to, times.at(-1)!) && page.to < requested.to - 1,
  };
  return { observation, ticks, rejected };
}

/** Distinct prices of one moment. */
function countAt({ t, p }: TickColumns, time: number | undefined): number {
  if (time === undefined) return 0;
  let at = t.indexOf(time);
  if (t.indexOf(time, at + 1) < 0) return 1;
  const prices = new Set<number>();
  for (; at >= 0; at = t.indexOf(time, at + 1)) prices.add(p[at]!);
  return prices.size;
}

/** An end may name the last tick, or the millisecond after it. */
const isAtTick = (end: number, tick: number): boolean => end === tick || end === tick + 1;

/**
 * An end that names a tick of the response includes it, and so does one that repeats a request whose ends are known to be
 * included; any other is taken to exclude its own millisecond.
 */
function computeClaimableWindow(
  asked: Window,
  requested: Window,
  page: Pick<TickPage, 'from' | 'to'>,
  times: Float64Array,
  observedAt: number,
): Window {
  const isFromExact = page.from === requested.from && requested.from === asked.from;
  const isToExact = page.to === requested.to && requested.to === asked.to - 1;
  const from = page.from === null || page.from === times[0] || isFromExact ? page.from : page.from + 1;
  const to = page.to === null || (page.to !== times.at(-1) && !isToExact) ? page.to : page.to + 1;
  const reach = intersectTwo(
    { from: asked.from, to: Math.min(asked.to, observedAt) },
    { from: from ?? asked.from, to: to ?? asked.to },
  );
  return isEmpty(reach) ? { from: asked.from, to: asked.from } : reach;
}

function listDistinctTimes(t: Float64Array): Float64Array {
  let isAscending = true;
  for (let i = 1; i < t.length && isAscending; i++) isAscending = t[i - 1]! < t[i]!;
  if (isAscending) return t;
  const sorted = t.slice().sort();
  let n = 0;
  for (let i = 0; i < sorted.length; i++) if (i === 0 || sorted[i] !== sorted[i - 1]) sorted[n++] = sorted[i]!;
  return sorted.subarray(0, n);
}

/** Counts distinct usable ticks, and those of them before and after what was requested. */
function countDistinct(
  { t, p }: TickColumns,
  requested: Window,
  futureMs: number,
): { count: number; before: number; after: number } {
  let isAscending = true;
  for (let i = 1; i < t.length && isAscending; i++) isAscending = t[i - 1]! < t[i]!;
  const isInside = (time: number): boolean => time >= requested.from && time <= requested.to;
  if (isAscending && (t.length === 0 || (isInside(t[0]!) && isInside(t.at(-1)!) && t.at(-1)! <= futureMs)))
    return { count: t.length, before: 0, after: 0 };
  const ticks = new Set<string>();
  const before = new Set<string>();
  const after = new Set<string>();
  for (let i = 0; i < t.length; i++) {
    const time = t[i]!;
    if (findTimeFlaw(time, futureMs) !== undefined || !Number.isFinite(p[i]!)) continue;
    const tick = `${time} ${p[i]}`;
    ticks.add(tick);
    if (time < requested.from) before.add(tick);
    else if (time > requested.to) after.add(tick);
  }
  return { count: ticks.size, before: before.size, after: after.size };
}

/**
 * When an answer was generated. Where it does not say, or names a time that cannot be, it is not before the request
 * was sent; taking the time of its arrival would claim what came in between. Times are epoch milliseconds.
 * @param futureMs the latest time that is believed: now, and the skew that two clocks may have
 * @param parseServedAt the service's time when the answer left it: far behind `sentAt` it shows that our clock is ahead, or a
 * cache in between; what was not yet then is not claimed
 */
export function resolveObservedAt(
  generatedAt: number | null,
  sentAt: number,
  futureMs: number,
  servedAt: number | null = null,
): number {
  if (generatedAt !== null && generatedAt >= timeMin && generatedAt <= futureMs) return generatedAt;
  const moment = servedAt !== null && servedAt >= timeMin && servedAt < sentAt - skewMsMax ? servedAt : sentAt;
  // A clock that was set back since the request was sent: ticks after this are rejected, so that nothing may be claimed there.
  return Math.min(moment, futureMs);
}

/** Two clocks that are set by the same time differ by less, in ms. */
const skewMsMax = 60_000;

export interface TickSpan {
  readonly first: number;
  readonly last: number;
}

export interface ValidatedTicks {
  /** Usable ticks inside the asked window, in the order they came. */
  readonly ticks: TickColumns;
  /** Unusable ones, as received. */
  readonly rejected: readonly RejectedInput[];
  /** Usable ticks outside of the asked window: nobody asked for them, they come with their own window. */
  readonly outsideCount: number;
  /** First and last usable tick, asked for or not; null where there is none. */
  readonly span: TickSpan | null;
}

/**
 * Sorts the ticks of an answer into usable, unusable and not asked for. Nothing is repaired by guessing: seconds in
 * place of milliseconds are a time outside the years 2000 to 2100. `futureMs` is the latest time believed, epoch ms.
 * Where every tick is usable and asked for, `ticks` holds the page's own columns.
 */
export function validateTicks(
  page: TickColumns & { readonly rejected: readonly RejectedInput[] },
  asked: Window,
  futureMs: number,
): ValidatedTicks {
  const { t, p } = page;
  const clean = measureCleanPrefix(page, asked, futureMs);
  let { first, last } = clean;
  const brought = (): TickSpan | null => (first > last ? null : { first, last });
  if (clean.length === t.length) return { ticks: { t, p }, rejected: page.rejected, outsideCount: 0, span: brought() };
  const rejected = [...page.rejected];
  const keptT = new Float64Array(t.length);
  const keptP = new Float64Array(t.length);
  let kept = clean.length;
  keptT.set(t.subarray(0, kept));
  keptP.set(p.subarray(0, kept));
  let outside = 0;
  for (let i = kept; i < t.length; i++) {
    const time = t[i]!;
    const reason = findTickFlaw(time, p[i]!, futureMs);
    if (reason !== undefined) {
      rejected.push({ reason, raw: JSON.stringify({ t: time, p: p[i] }) });
      continue;
    }
    if (time < first) first = time;
    if (time > last) last = time;
    if (isWithin(time, asked)) {
      keptT[kept] = time;
      keptP[kept++] = p[i]!;
    } else outside++;
  }
  const ticks = { t: keptT.subarray(0, kept), p: keptP.subarray(0, kept) };
  return { ticks, rejected, outsideCount: outside, span: brought() };
}

/** How many ticks come before the first that is unusable or not asked for, which is rare; and the least and greatest time of them. */
function measureCleanPrefix(
  { t, p }: TickColumns,
  asked: Window,
  futureMs: number,
): TickSpan & { readonly length: number } {
  const from = Math.max(asked.from, timeMin);
  const to = Math.min(asked.to, timeEnd);
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  let length = 0;
  for (; length < t.length; length++) {
    const time = t[length]!;
    const isUsable = Number.isInteger(time) && time <= futureMs && Number.isFinite(p[length]!);
    if (!(isUsable && from <= time && time < to)) break;
    if (time < first) first = time;
    if (time > last) last = time;
  }
  return { length, first, last };
}

function findTickFlaw(t: number, p: number, futureMs: number): string | undefined {
  return findTimeFlaw(t, futureMs) ?? (Number.isFinite(p) ? undefined : 'p is not finite');
}

/** Why a moment cannot be the time of a tick or an order book; `futureMs` is the latest that is believed, epoch ms. */
export function findTimeFlaw(t: number, futureMs: number): string | undefined {
  if (!Number.isInteger(t)) return 't is not a whole number of milliseconds';
  if (t < timeMin || t >= timeEnd) return 't is outside the years 2000 to 2100';
  if (t > futureMs) return 't is in the future';
  return undefined;
}
