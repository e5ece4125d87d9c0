import type { RejectedInput, TickColumns } from '../../base/ticks.ts';
import { timeEnd, timeMin } from '../../base/time.ts';
import { intersectTwo, isEmpty, isWithin, minuteMs, type Window } from '../../base/window.ts';
import type { TickPage } from '../../client/upstream.ts';
import { type Shown, summarizeShown } from '../proof/shown.ts';

/** What one response shows about its requested window. Times are epoch milliseconds. */
export interface Observation {
  readonly window: Window;
  /** The window as sent in the request. */
  readonly requested: Window;
  /** Distinct times of the usable ticks inside `window`, ascending. */
  readonly times: Float64Array;
  /** Number of distinct usable ticks (time and price), inside `window` or not. */
  readonly count: number;
  /** Number of distinct ticks at the first and at the last of `times`. */
  readonly countAtFirst: number;
  readonly countAtLast: number;
  /** Number of distinct usable ticks before and after `requested`. */
  readonly countBefore: number;
  readonly countAfter: number;
  /** First and last usable tick, inside `window` or not. Null if there is none. */
  readonly first: number | null;
  /** The earliest usable tick that is not before the requested window. Null if there is none. */
  readonly firstRequested: number | null;
  readonly last: number | null;
  /** Number of elements received, whether it reaches the requested limit, and how many were rejected. */
  readonly received: number;
  readonly isFull: boolean;
  readonly rejected: number;
  /** Reason for the first rejected element. Empty if there is none. */
  readonly rejectedReason: string;
  readonly observedAt: number;
  /** Generation time that the response states, or null. In a replay, two responses with the same time count as one observation. */
  readonly generatedAt: number | null;
  /**
   * The window that the response may cover: the part that was requested, that the server states, and that lies before
   * the generation time. May be empty.
   */
  readonly claimableWindow: Window;
  /**
   * Whether the response states a start at its first tick, or an end at its last tick, that is narrower than requested,
   * and thus states where it was truncated.
   */
  readonly isTruncatedLow: boolean;
  readonly isTruncatedHigh: boolean;
  /** Windows for which the service states that it has no data. */
  readonly gaps: readonly Window[];
  /** What it shows as a witness, and of its own edges. */
  readonly shown: Shown;
  /** Distinct times of the usable ticks inside of what was requested, which may be more than `window`, ascending. */
  readonly shownTimes: Float64Array;
  /** Whether a known tick is missing, so that a narrower window is to be requested: see `noteShown`. */
  readonly isThinned?: boolean;
}

/** The parameters of a request, and its time. Times are epoch milliseconds. */
interface SentRequest {
  readonly requested: Window;
  /** Maximum number of ticks requested. */
  readonly limit: number;
  readonly sentAt: number;
  /** Latest time accepted in the response. */
  readonly futureMs: number;
}

interface ObservedPage {
  readonly observation: Observation;
  /** Usable ticks inside the window, in the order received. */
  readonly ticks: TickColumns;
  readonly rejected: readonly RejectedInput[];
}

/** Evaluates a response of the tick route: its usable ticks, and the window that it may cover. */
export function observePage(
  page: TickPage,
  window: Window,
  { requested, limit, sentAt, futureMs }: SentRequest,
): ObservedPage {
  const observedAt = resolveObservedAt(page.generatedAt, sentAt, futureMs, page.servedAt);
  const { ticks, rejected, span } = validateTicks(page, window, futureMs);
  const { count, before, after, firstRequested } = countDistinct(page, requested, futureMs);
  const times = listDistinctTimes(ticks.t);
  const claimable = computeClaimableWindow(window, requested, page, times, observedAt);
  const observation: Observation = {
    window: { from: window.from, to: window.to },
    requested,
    times,
    count,
    countBefore: before,
    countAfter: after,
    observedAt,
    claimableWindow: claimable,
    countAtFirst: countAt(ticks, times[0]),
    countAtLast: countAt(ticks, times.at(-1)),
    first: span?.first ?? null,
    firstRequested,
    last: span?.last ?? null,
    received: page.received,
    isFull: page.received >= limit,
    rejected: rejected.length,
    gaps: page.gaps,
    ...summarizeRequested(page, window, requested, times, futureMs, rejected.length > 0),
    rejectedReason: rejected[0]?.reason ?? '',
    generatedAt: page.generatedAt === observedAt ? page.generatedAt : null,
    isTruncatedLow: times.length > 0 && page.from === times[0] && page.from > requested.from + 1,
    isTruncatedHigh:
      times.length > 0 && page.to !== null && isAtTick(page.to, times.at(-1)!) && page.to < requested.to - 1,
  };
  return { observation, ticks, rejected };
}

/** A request may be longer than the window of which its ticks are kept: what it shows is of all of it. */
function summarizeRequested(
  page: TickPage,
  window: Window,
  requested: Window,
  times: Float64Array,
  futureMs: number,
  hasRejected: boolean,
): Pick<Observation, 'shown' | 'shownTimes'> {
  // Requests have a margin of a millisecond at each end.
  const sent = { from: Math.min(window.from, requested.from + 1), to: Math.max(window.to, requested.to) };
  if (page.t.length === times.length && !hasRejected)
    return { shown: summarizeShown(sent, times, page.received), shownTimes: times };
  const all = listDistinctTimes(page.t.filter((t, i) => findTickFlaw(t, page.p[i]!, futureMs) === undefined));
  const inside = all.filter((t) => isWithin(t, sent));
  return { shown: summarizeShown(sent, inside, page.received, hasRejected ? null : all), shownTimes: inside };
}

/** Number of distinct prices at one time. */
function countAt({ t, p }: TickColumns, time: number | undefined): number {
  if (time === undefined) return 0;
  let at = t.indexOf(time);
  if (t.indexOf(time, at + 1) < 0) return 1;
  const prices = new Set<number>();
  for (; at >= 0; at = t.indexOf(time, at + 1)) prices.add(p[at]!);
  return prices.size;
}

/** An end may be stated as the last tick or as the millisecond after it. */
const isAtTick = (end: number, tick: number): boolean => end === tick || end === tick + 1;

/**
 * A stated end includes its own millisecond if it equals a tick of the response, or repeats a request whose ends the server
 * is known to include. Any other end excludes its own millisecond.
 */
function computeClaimableWindow(
  window: Window,
  requested: Window,
  page: Pick<TickPage, 'from' | 'to'>,
  times: Float64Array,
  observedAt: number,
): Window {
  const isFromExact = page.from === requested.from && requested.from === window.from;
  const isToExact = page.to === requested.to && requested.to === window.to - 1;
  const from = page.from === null || page.from === times[0] || isFromExact ? page.from : page.from + 1;
  const to = page.to === null || (page.to !== times.at(-1) && !isToExact) ? page.to : page.to + 1;
  const claimable = intersectTwo(
    { from: window.from, to: Math.min(window.to, observedAt) },
    { from: from ?? window.from, to: to ?? window.to },
  );
  return isEmpty(claimable) ? { from: window.from, to: window.from } : claimable;
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

/** Counts distinct usable ticks, and those before and after the requested window. */
function countDistinct(
  { t, p }: TickColumns,
  requested: Window,
  futureMs: number,
): { count: number; before: number; after: number; firstRequested: number | null } {
  let isAscending = true;
  for (let i = 1; i < t.length && isAscending; i++) isAscending = t[i - 1]! < t[i]!;
  const isInside = (time: number): boolean => time >= requested.from && time <= requested.to;
  if (isAscending && (t.length === 0 || (isInside(t[0]!) && isInside(t.at(-1)!) && t.at(-1)! <= futureMs)))
    return { count: t.length, before: 0, after: 0, firstRequested: t[0] ?? null };
  const ticks = new Set<string>();
  const before = new Set<string>();
  const after = new Set<string>();
  let firstRequested: number | null = null;
  for (let i = 0; i < t.length; i++) {
    const time = t[i]!;
    if (findTimeFlaw(time, futureMs) !== undefined || !Number.isFinite(p[i]!)) continue;
    const tick = `${time} ${p[i]}`;
    ticks.add(tick);
    if (time < requested.from) {
      before.add(tick);
      continue;
    }
    if (time > requested.to) after.add(tick);
    firstRequested = Math.min(firstRequested ?? time, time);
  }
  return { count: ticks.size, before: before.size, after: after.size, firstRequested };
}

/**
 * Returns when a response was generated. If the response states no plausible time, that is when the request was sent:
 * the arrival time would claim ticks that appeared in between. Times are epoch milliseconds.
 * @param futureMs latest time accepted: now, plus the allowed skew between two clocks
 * @param servedAt the server's clock when the response was sent. If it is far behind `sentAt`, our clock is ahead or a
 * cache is in between; later times are not claimed
 */
export function resolveObservedAt(
  generatedAt: number | null,
  sentAt: number,
  futureMs: number,
  servedAt: number | null = null,
): number {
  if (generatedAt !== null && generatedAt >= timeMin && generatedAt <= futureMs) return generatedAt;
  const moment = servedAt !== null && servedAt >= timeMin && servedAt < sentAt - skewMsMax ? servedAt : sentAt;
  // If the clock was set back after the request was sent, later ticks are rejected, so nothing after this time may be
  // claimed.
  return Math.min(moment, futureMs);
}

/** Maximum difference between two synchronised clocks, in ms. */
const skewMsMax = minuteMs;

interface TickSpan {
  readonly first: number;
  readonly last: number;
}

export interface ValidatedTicks {
  /** Usable ticks inside the window, in the order received. */
  readonly ticks: TickColumns;
  /** Rejected ticks, as received. */
  readonly rejected: readonly RejectedInput[];
  /** Number of usable ticks outside the window. They are fetched with their own window. */
  readonly outsideCount: number;
  /** First and last usable tick, inside the window or not. Null if there is none. */
  readonly span: TickSpan | null;
}

/**
 * Sorts the ticks of a response into usable ones, unusable ones and those outside the window. Values are never guessed:
 * seconds in place of milliseconds give a time outside the years 2000 to 2100. `futureMs` is the latest time accepted,
 * epoch ms. If every tick is usable and inside, `ticks` holds the page's own columns.
 */
export function validateTicks(
  page: TickColumns & { readonly rejected: readonly RejectedInput[] },
  window: Window,
  futureMs: number,
): ValidatedTicks {
  const { t, p } = page;
  const clean = measureCleanPrefix(page, window, futureMs);
  let { first, last } = clean;
  const getSpan = (): TickSpan | null => (first > last ? null : { first, last });
  if (clean.length === t.length) return { ticks: { t, p }, rejected: page.rejected, outsideCount: 0, span: getSpan() };
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
    if (isWithin(time, window)) {
      keptT[kept] = time;
      keptP[kept++] = p[i]!;
    } else outside++;
  }
  const ticks = { t: keptT.subarray(0, kept), p: keptP.subarray(0, kept) };
  return { ticks, rejected, outsideCount: outside, span: getSpan() };
}

/** Counts the ticks before the first one that is unusable or outside, with their minimum and maximum time. Such ticks are rare. */
function measureCleanPrefix(
  { t, p }: TickColumns,
  window: Window,
  futureMs: number,
): TickSpan & { readonly length: number } {
  const from = Math.max(window.from, timeMin);
  const to = Math.min(window.to, timeEnd);
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

/**
 * Returns why a time cannot belong to a tick or an order book; undefined if it can. `futureMs` is the latest time
 * accepted, epoch ms.
 */
export function findTimeFlaw(t: number, futureMs: number, name = 't'): string | undefined {
  if (!Number.isInteger(t)) return `${name} is not a whole number of milliseconds`;
  if (t < timeMin || t >= timeEnd) return `${name} is outside the years 2000 to 2100`;
  if (t > futureMs) return `${name} is in the future`;
  return undefined;
}
