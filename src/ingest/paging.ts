import type { TickColumns } from '../core/tick.ts';
import { intersect, intersection, isEmpty, subtract, union, type Window } from '../core/window.ts';
import type { Answer, Ask, Claims, Span } from './ask.ts';
import { isFull, type Learned, requestWindow } from './learned.ts';

/** What to claim of an answer, what to ask next, the most promising first, and what the service brings nothing of. */
export interface Turn {
  readonly claim: readonly Window[];
  readonly next: readonly Ask[];
  readonly stuck: readonly Window[];
}

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

/** Splits what was asked into what the answer speaks for and what it does not claim. */
export function readClaims(
  ask: Window,
  page: { readonly from: number | null; readonly to: number | null; readonly gaps: readonly Window[] },
  span: Span | null,
  observedAt: number,
  learned: Learned,
): Claims {
  const until = { from: ask.from, to: Math.min(ask.to, observedAt) };
  // An end that names a tick of the answer includes it; any other only where ends are known to be included.
  const fromIncluded = learned.fromInclusive || page.from === span?.first;
  const toIncluded = learned.toInclusive || page.to === span?.last;
  const from = page.from === null ? Number.NEGATIVE_INFINITY : page.from + (fromIncluded ? 0 : 1);
  const to = page.to === null ? Number.POSITIVE_INFINITY : page.to + (toIncluded ? 1 : 0);
  const spoken = intersection(until, { from, to });
  return {
    answered: subtract([spoken], page.gaps),
    unclaimed: subtract([until], [spoken]),
    spoke: !isEmpty(spoken),
  };
}

/** Ticks this shortly before an answer's generation show that it goes on until then, in ms. */
const freshMs = 60_000;

/**
 * The answer as far as it can be believed. Where the service does not heed the window, nothing says what an answer is
 * about but its ticks: the stretch between the first and the last, and on to the moment of the answer where they come
 * close to it and nothing was left out there. Without ticks it is about nothing.
 */
function believed(learned: Learned, answer: Answer): Answer {
  const { brought, observedAt, answered } = answer;
  if (!learned.windowIgnored) return answer;
  const full = isFull(learned, answer.count);
  const stretch: Window[] = [];
  if (brought !== null) {
    // Where it may be cut off, another price of the moment there may be missing.
    const from = full && learned.side !== 'earliest' ? brought.first + 1 : brought.first;
    const to = full && learned.side !== 'latest' ? brought.last : brought.last + 1;
    stretch.push({ from, to: to > brought.last && brought.last >= observedAt - freshMs ? observedAt : to });
  }
  const heard = intersect(answered, stretch);
  return {
    ...answer,
    answered: heard,
    unclaimed: union([...answer.unclaimed, ...subtract(answered, stretch)]),
    spoke: heard.length > 0,
  };
}

/** Reads an answer: what it settles, and what is left to ask. */
export function turnOf(learned: Learned, ask: Ask, received: Answer): Turn {
  const answer = believed(learned, received);
  const full = isFull(learned, answer.count);
  const { span } = answer;
  const hardlyAnything = span === null ? full || !answer.spoke : full && span.first === span.last;
  if (hardlyAnything) {
    // Ticks beyond the edges took the room: worth another try where the edges have been learned since.
    const again = requestWindow(ask, learned);
    const moved = again.from !== answer.requested.from || again.to !== answer.requested.to;
    if (moved) return { claim: [], next: [ask], stuck: [] };
  }
  return full ? turnOfFull(learned, ask, answer) : keep(learned, answer, ask, []);
}

/**
 * Reads an answer that may be cut off. Whichever side the service keeps, the answer is whole between its first and its
 * last tick; these two are asked for again, since another price at the same moment may have been cut off. Where all of
 * a page is at one moment, no request can bring more of that moment.
 */
function turnOfFull(learned: Learned, ask: Ask, answer: Answer): Turn {
  const { span } = answer;
  if (span === null || !answer.spoke) return { claim: [], next: [], stuck: [ask] };
  const single = span.first === span.last;
  // It gave the same page again.
  if (single && learned.windowIgnored) return keep(learned, answer, ask, []);
  const low: Ask = { from: ask.from, to: single ? span.first : span.first + 1, kind: 'low', parent: answer };
  const high: Ask = { from: single ? span.last + 1 : span.last, to: ask.to, kind: 'high', parent: answer };
  if (learned.side === 'earliest') return keep(learned, answer, { from: ask.from, to: high.from }, [high]);
  if (learned.side === 'latest') return keep(learned, answer, { from: low.to, to: ask.to }, [low]);
  const wider = high.to - high.from >= low.to - low.from ? [high, low] : [low, high];
  return keep(learned, answer, { from: low.to, to: high.from }, wider);
}

/** Whether the side makes it needless to ask: a service that keeps the earliest has left out nothing before them. */
export const isNeedless = (learned: Learned, ask: Ask): boolean =>
  (ask.kind === 'low' && learned.side === 'earliest') || (ask.kind === 'high' && learned.side === 'latest');

/** A needless ask is settled by its parent's answer. */
export const turnOfNeedless = (learned: Learned, ask: Ask, parent: Answer): Turn =>
  keep(learned, believed(learned, parent), ask, []);

/**
 * Claims what the answer speaks for of `sure`, where it left out nothing. What it does not claim there is asked on: a
 * service may claim just the span of its ticks, or answer for so much time at once. Only one that states a later start
 * than asked, time and again, has nothing before it.
 */
function keep(learned: Learned, answer: Answer, sure: Window, next: readonly Ask[]): Turn {
  const asks: Ask[] = [];
  const stuck: Window[] = [];
  for (const w of intersect(answer.unclaimed, [sure])) {
    const earlier = w.from === answer.asked.from && w.to !== answer.span?.first;
    if (!answer.spoke || learned.windowIgnored || (earlier && learned.refusesEarlier)) stuck.push(w);
    else asks.push({ ...w, kind: earlier ? 'earlier' : 'whole' });
  }
  return { claim: intersect(answer.answered, [sure]), next: [...next.filter((w) => !isEmpty(w)), ...asks], stuck };
}

/**
 * Whether an answer that leaves more to ask brings so little that a service which goes on so must be given up: a page
 * full of one moment, or one that was not full and speaks for less than a minute. Null where nothing is left to ask.
 */
export function isIdle(learned: Learned, answer: Answer, turn: Turn): boolean | null {
  if (turn.next.length === 0) return null;
  if (isFull(learned, answer.count)) return answer.count >= 10 && answer.span?.first === answer.span?.last;
  return turn.claim.reduce((sum, w) => sum + w.to - w.from, 0) < 60_000;
}
