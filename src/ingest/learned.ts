import type { Window } from '../core/window.ts';
import type { Answer, Ask, Span } from './ask.ts';

/**
 * What a run has learned of how the service pages; shared by all symbols, since one service answers them.
 * - `cap`: the largest count of an answer in this run; an answer that full may be cut off
 * - `capState`: `proved` once asking on has shown that answers of that count are cut off
 * - `side`: which ticks of a window too full it gives; null while unknown
 * - `fromInclusive`, `toInclusive`: true once an answer has shown it, false while unknown
 * - `refusesEarlier`: it does not answer for what lies before the start that an answer states
 */
export interface Learned {
  cap: number;
  capState: 'unseen' | 'waiting' | 'tested' | 'proved';
  side: 'earliest' | 'latest' | null;
  /** The probe under way, which other symbols wait for in place of guessing a side. */
  probe: Promise<void> | null;
  probesLeft: number;
  fromInclusive: boolean;
  toInclusive: boolean;
  refusesEarlier: boolean;
  /** It answers with ticks outside of the window asked for, and does not say that it covers them. */
  windowIgnored: boolean;
  /** Most ticks, and the longest window in ms, that it takes a request for; infinite until it has refused more. */
  limit: number;
  windowMsMax: number;
  /** Whether a request for so many ticks was answered, and the longest window in ms that was. */
  limitHeard: boolean;
  windowMsHeard: number;
  /** Where it was seen to refuse what is older, for some symbol; epoch ms. */
  oldestFrom: number;
  /** The search for what it takes that is under way, and how many more may end in nothing. */
  sizing: Promise<boolean> | null;
  sizingsLeft: number;
}

export const nothingLearned = (): Learned => ({
  cap: 0,
  capState: 'unseen',
  side: null,
  probe: null,
  probesLeft: 2,
  fromInclusive: false,
  toInclusive: false,
  refusesEarlier: false,
  windowIgnored: false,
  limit: Number.POSITIVE_INFINITY,
  windowMsMax: Number.POSITIVE_INFINITY,
  limitHeard: false,
  windowMsHeard: 0,
  oldestFrom: Number.NEGATIVE_INFINITY,
  sizing: null,
  sizingsLeft: 4,
});

/**
 * The window to put into a request: one millisecond early, until an answer has shown that the start is included, and
 * one short, once an answer has shown that the end is: a tick beyond an edge takes room from a page.
 */
export const requestWindow = (ask: Window, learned: Learned): Window => ({
  from: learned.fromInclusive ? ask.from : ask.from - 1,
  to: learned.toInclusive ? ask.to - 1 : ask.to,
});

/**
 * Learns from the edges: a tick at the very end asked for shows that the end is included; so with the start. Ticks
 * beyond the edges come from a service that does not heed them, and then nothing is shown.
 */
export function learnEdges(learned: Learned, requested: Window, t: Float64Array): void {
  if (learned.fromInclusive && learned.toInclusive) return;
  let atFrom = false;
  let atTo = false;
  for (const time of t) {
    if (time < requested.from || time > requested.to) return;
    if (time === requested.from) atFrom = true;
    if (time === requested.to) atTo = true;
  }
  learned.fromInclusive ||= atFrom;
  learned.toInclusive ||= atTo;
}

/**
 * Learns that the service does not heed the window: it brought a tick beyond the edges that stood in the request, and
 * beyond those that it states, where it states any others. What it says it covers is then no more than an echo. What
 * its answers without such ticks said earlier in the run was believed, and stays so: nothing told them apart.
 */
export function learnWindow(
  learned: Learned,
  requested: Window,
  stated: { readonly from: number | null; readonly to: number | null },
  brought: Span | null,
): void {
  if (brought === null) return;
  const from = Math.min(requested.from, stated.from ?? requested.from);
  const to = Math.max(requested.to, stated.to ?? requested.to);
  if (brought.first < from || brought.last > to) learned.windowIgnored = true;
}

/** Notes the size of an answer: what is known of smaller ones is that they were complete. */
export function learnCount(learned: Learned, count: number): void {
  if (count <= learned.cap) return;
  learned.cap = count;
  learned.capState = 'unseen';
}

export const isFull = (learned: Learned, count: number): boolean =>
  count > 0 && (count >= learned.cap || count >= learned.limit);

/** Below this many ticks a cap is no cap that a service would have: asking on early would be asking for nothing. */
const testCountMin = 10;

/**
 * Whether a full answer waits for the end of the run, where a fuller one of another symbol may have proved it complete
 * for nothing. Of each size the second one is asked on at once: where the cap is real, all the others need not wait.
 */
export function mustWait(learned: Learned, count: number): boolean {
  if (learned.capState === 'proved') return false;
  if (learned.capState === 'waiting' && count >= testCountMin) {
    learned.capState = 'tested';
    return false;
  }
  if (learned.capState === 'unseen') learned.capState = 'waiting';
  return true;
}

/**
 * Learns from the answer that went on where its parent may have been cut off. Ticks that came later than the parent's
 * answer prove nothing, and a few may just have been late: only a page full of new ones tells the side.
 */
export function learnFromChild(
  learned: Learned,
  ask: Pick<Ask, 'kind'> & { readonly parent?: Pick<Answer, 'count' | 'span' | 'observedAt'> },
  answer: Answer,
  t: Float64Array,
): void {
  const { parent } = ask;
  if (parent === undefined || parent.span === null || parent.count !== learned.cap) return;
  const { first, last } = parent.span;
  let brought = 0;
  for (const time of t) {
    if (time < parent.observedAt && (ask.kind === 'high' ? time > last : time < first)) brought++;
  }
  if (brought > 0) learned.capState = 'proved';
  if (learned.side !== null || answer.count < testCountMin || !isFull(learned, answer.count)) return;
  if (brought * 2 > answer.count) learned.side = ask.kind === 'high' ? 'earliest' : 'latest';
}

/** Whether one tick out of this stretch would tell its ends apart. */
export const canProbe = (span: Span | null): span is Span => span !== null && span.last - span.first >= 4;

/**
 * What to ask for with limit 1 to learn the side; wide enough that a service that excludes the ends still has both.
 */
export const probeWindow = (span: Span): Window => ({ from: span.first - 1, to: span.last + 1 });

/** The side that one tick tells, asked for with limit 1 out of a stretch with ticks at both ends. */
export function sideOfProbe(span: Span, t: Float64Array): 'earliest' | 'latest' | null {
  if (t.length !== 1) return null;
  if (Math.abs(t[0]! - span.first) <= 1) return 'earliest';
  if (Math.abs(t[0]! - span.last) <= 1) return 'latest';
  return null;
}
