import type { TickColumns } from '../core/tick.ts';
import { intersect, intersection, isEmpty, subtract, type Window } from '../core/window.ts';

/**
 * What a run has learned of how the service pages; shared by all symbols, since one service answers them.
 * - `cap`: the largest count of an answer in this run; an answer that full may be cut off
 * - `capProved`: asking on has shown that answers of that count are cut off
 * - `side`: which ticks of a window too full it gives; null until proved
 */
export interface Learned {
  cap: number;
  capProved: boolean;
  /** An answer of `cap` ticks waits until the end of the run: a fuller one would prove it complete for nothing. */
  capWaits: boolean;
  side: 'earliest' | 'latest' | null;
  probed: boolean;
  fromInclusive: boolean;
  toInclusive: boolean;
}

export const nothingLearned = (): Learned => ({
  cap: 0,
  capProved: false,
  capWaits: false,
  side: null,
  probed: false,
  fromInclusive: false,
  toInclusive: false,
});

/** A window to be asked for, and why: `low` and `high` are what an answer of its parent may have left out. */
export interface Ask extends Window {
  readonly kind: 'whole' | 'low' | 'high';
  /** For low and high: what the parent's answer spoke for, and when; claimed where the side makes asking needless. */
  readonly answered?: readonly Window[];
  readonly answeredAt?: number;
  /** For low and high: the parent's first and last tick, and how many elements it had. */
  readonly parent?: Span & { readonly count: number };
}

export interface Span {
  readonly first: number;
  readonly last: number;
}

/** What matters of an answer for paging. Times in epoch ms. */
export interface Answer {
  /** Elements received, usable or not. */
  readonly count: number;
  /** First and last usable tick inside the ask; null where there is none. */
  readonly span: Span | null;
  /** What the answer speaks for: asked, claimed by the service, before it was generated, without the gaps it names. */
  readonly answered: readonly Window[];
  /** What was asked and lies before the answer's generation, but the service did not claim. */
  readonly unclaimed: readonly Window[];
  readonly observedAt: number;
}

/** The window to put into a request: one millisecond early, until an answer has shown that the start is included. */
export const requestWindow = (ask: Window, learned: Learned): Window => ({
  from: learned.fromInclusive ? ask.from : ask.from - 1,
  to: ask.to,
});

/** Learns from the edges: a tick at the very end asked for shows that the end is included; so with the start. */
export function learnEdges(learned: Learned, requested: Window, t: Float64Array): void {
  if (learned.fromInclusive && learned.toInclusive) return;
  for (const time of t) {
    if (time === requested.from) learned.fromInclusive = true;
    if (time === requested.to) learned.toInclusive = true;
  }
}

/** Notes the size of an answer. */
export function learnCount(learned: Learned, count: number): void {
  if (count <= learned.cap) return;
  learned.cap = count;
  learned.capProved = false;
  learned.capWaits = false;
}

export const isFull = (learned: Learned, count: number): boolean => count > 0 && count >= learned.cap;

export function spanOf(ticks: TickColumns): Span | null {
  if (ticks.t.length === 0) return null;
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  for (const t of ticks.t) {
    if (t < first) first = t;
    if (t > last) last = t;
  }
  return { first, last };
}

/** What to claim of a full answer and what to ask next, the most promising first. */
export interface Turn {
  readonly claim: readonly Window[];
  readonly next: readonly Ask[];
  /** Windows that cannot be had: the service brings nothing of them. */
  readonly stuck: readonly Window[];
}

/**
 * Reads an answer that may be cut off. Whichever side the service keeps, the answer is whole between its first and its
 * last tick; these two are asked for again, since another price at the same moment may have been cut off.
 */
export function turnOfFull(learned: Learned, ask: Ask, answer: Answer): Turn {
  const { span, answered, observedAt } = answer;
  if (span === null) return { claim: [], next: [], stuck: [ask] };
  const spans = { answered, answeredAt: observedAt, parent: { ...span, count: answer.count } };
  // Where the answer has not moved on from the edge, its one moment is all there is to hold on to: step over it.
  const highFrom = span.last > ask.from ? span.last : span.last + 1;
  const lowTo = span.first < ask.to - 1 ? span.first + 1 : span.first;
  const low: Ask = { from: ask.from, to: lowTo, kind: 'low', ...spans };
  const high: Ask = { from: highFrom, to: ask.to, kind: 'high', ...spans };
  if (learned.side === 'earliest') return keep(answer, { from: ask.from, to: highFrom }, [high]);
  if (learned.side === 'latest') return keep(answer, { from: lowTo, to: ask.to }, [low]);
  if (lowTo >= highFrom) {
    // All at one moment: the two sides meet there.
    return keep(answer, { from: span.first, to: span.last + 1 }, [
      { ...low, to: span.first },
      { ...high, from: span.last + 1 },
    ]);
  }
  const wider = high.to - high.from >= low.to - low.from ? [high, low] : [low, high];
  return keep(answer, { from: lowTo, to: highFrom }, wider);
}

const keep = (answer: Answer, sure: Window, next: readonly Ask[]): Turn => ({
  claim: intersect(answer.answered, [sure]),
  next: next.filter((w) => !isEmpty(w)),
  stuck: intersect(answer.unclaimed, [sure]),
});

/** Whether the side makes it needless to ask: a service that keeps the earliest has left out nothing before them. */
export const isNeedless = (learned: Learned, ask: Ask): boolean =>
  (ask.kind === 'low' && learned.side === 'earliest') || (ask.kind === 'high' && learned.side === 'latest');

/** Ticks that the parent's answer had left out: strictly beyond its first or last tick. */
export function newTicks(ask: Ask, ticks: TickColumns): number {
  if (ask.parent === undefined) return 0;
  let count = 0;
  for (const t of ticks.t) if (ask.kind === 'high' ? t > ask.parent.last : t < ask.parent.first) count++;
  return count;
}

/** The side that one tick tells, asked for with limit 1 out of a stretch with ticks at both ends. */
export function sideOfProbe(span: Span, t: Float64Array): 'earliest' | 'latest' | null {
  if (t.length !== 1 || span.last - span.first < 4) return null;
  if (Math.abs(t[0]! - span.first) <= 1) return 'earliest';
  if (Math.abs(t[0]! - span.last) <= 1) return 'latest';
  return null;
}

/**
 * What is left to ask after an answer that was not full. A service that claims just the span of its ticks is asked
 * on for the rest; one that says it begins later has nothing before.
 */
export function restOfPartial(ask: Window, answer: Answer): { readonly next: Window[]; readonly stuck: Window[] } {
  const next: Window[] = [];
  const stuck: Window[] = [];
  for (const w of answer.unclaimed) {
    const hugsTicks =
      answer.span !== null &&
      (w.to === answer.span.first || w.from === answer.span.last || w.from === answer.span.last + 1);
    const movedOn = answer.answered.length > 0 && w.from > ask.from;
    if (hugsTicks || movedOn) next.push(w);
    else stuck.push(w);
  }
  return { next, stuck };
}

/** Splits what was asked into what the answer speaks for and what it does not claim. */
export function readClaims(
  ask: Window,
  page: { readonly from: number | null; readonly to: number | null; readonly gaps: readonly Window[] },
  observedAt: number,
  learned: Learned,
): Pick<Answer, 'answered' | 'unclaimed'> {
  const until = { from: ask.from, to: Math.min(ask.to, observedAt) };
  const to = page.to === null ? Number.POSITIVE_INFINITY : page.to + (learned.toInclusive ? 1 : 0);
  const claimed = { from: page.from ?? Number.NEGATIVE_INFINITY, to };
  const spoken = intersection(until, claimed);
  return { answered: subtract([spoken], page.gaps), unclaimed: subtract([until], [spoken]) };
}
