import { ranks } from '../core/merge.ts';
import type { RawHead, RawPage, TicksMeaning } from '../core/raw-page.ts';
import { union } from '../core/window.ts';
import type { TickRecord } from '../state/journal.ts';
import type { BookRecord } from '../state/journal-books.ts';
import { decodeTickPage } from '../upstream/decode.ts';
import { decodeOrderbook } from '../upstream/decode-orderbook.ts';
import type { TickPage } from '../upstream/upstream.ts';
import type { Ask } from './ask.ts';
import { readBookAnswer } from './collect-books.ts';
import { hear } from './hear.ts';
import { saysNothing } from './lacking.ts';
import { type Learned, requestWindow, sideOfProbe } from './learned.ts';
import { turnOf } from './paging.ts';

/** An answer of the tick route that was to bring ticks, as it was kept. */
export interface RawTicks {
  readonly head: RawHead;
  readonly symbol: string;
  readonly requested: { readonly from: number; readonly to: number };
  readonly meaning: TicksMeaning;
  readonly page: TickPage;
}

/**
 * Decodes an answer of the tick route; undefined for one of another route, or one that was to bring no ticks.
 * @throws UnreadableAnswer
 */
export function decodeRawTicks({ body, ...head }: RawPage): RawTicks | undefined {
  const { asked } = head;
  if (asked.route !== 'ticks' || asked.meaning === null) return undefined;
  const { symbol, from, to, meaning } = asked;
  return {
    head,
    symbol,
    requested: { from, to },
    meaning,
    page: { ...decodeTickPage(body, symbol), servedAt: head.servedAt },
  };
}

const sentOf = ({ head, requested }: RawTicks, futureSkewMs: number) => ({
  ...{ requested, sentAt: head.askedAt, futureMs: head.receivedAt + futureSkewMs },
});

/**
 * Learns from an answer what the run learned from it. Only with what all answers of a run taught can each be read: the
 * collector, too, leaves for the end what only the others can tell.
 */
export function learnAgain(learned: Learned, raw: RawTicks, futureSkewMs: number): void {
  const { meaning, page } = raw;
  if (meaning.kind !== 'probe') {
    hear(learned, askOf(raw), sentOf(raw, futureSkewMs), page);
    return;
  }
  const span = { first: meaning.asked.from, last: meaning.asked.to - 1 };
  if (page.received === 1) learned.side ??= sideOfProbe(span, page.t);
}

/** Reads an answer as the collector does, and claims of it what it alone makes certain; undefined for a probe. */
export function readAgain(
  learned: Learned,
  raw: RawTicks,
  futureSkewMs: number,
): Omit<TickRecord, 'runId'> | undefined {
  const { meaning, page, symbol } = raw;
  if (meaning.kind === 'probe') return undefined;
  const ask = askOf(raw);
  const { answer, ticks, rejected } = hear(learned, ask, sentOf(raw, futureSkewMs), page);
  // As if it had been asked with all that is known now: nobody can be asked again.
  const whole = { ...answer, requested: requestWindow(ask, learned) };
  const claim = saysNothing(rejected, answer.brought) ? [] : turnOf(learned, ask, whole).claim;
  const { observedAt } = answer;
  return {
    ...{ symbol, asked: meaning.asked, observedAt, origin: meaning.origin, rank: ranks.poll, ticks, rejected },
    covered: union(claim).map((w) => ({ ...w, fetchedAt: observedAt })),
  };
}

function askOf({ meaning, requested }: RawTicks): Ask {
  const { asked, kind, parent } = meaning;
  const ask = { ...asked, kind: kind === 'probe' ? ('whole' as const) : kind };
  if (parent === undefined) return ask;
  const { count, observedAt, ...span } = parent;
  const nothing = { answered: [], unclaimed: [], spoke: true };
  return { ...ask, parent: { count, observedAt, span, brought: span, asked, requested, ...nothing } };
}

/**
 * Reads an answer of the order-book route as the collector does.
 * @throws UnreadableAnswer
 */
export function readBookAgain(
  { body, ...head }: RawPage,
  symbol: string,
  futureSkewMs: number,
): Omit<BookRecord, 'runId'> {
  const answer = decodeOrderbook(body, symbol);
  return readBookAnswer(symbol, answer, { sentAt: head.askedAt, futureMs: head.receivedAt + futureSkewMs });
}
