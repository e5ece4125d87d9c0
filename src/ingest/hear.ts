import type { Window } from '../core/window.ts';
import type { TickPage } from '../upstream/upstream.ts';
import type { Answer, Ask } from './ask.ts';
import { type Judged, judge } from './judge.ts';
import { type Learned, learnCount, learnEdges, learnFromChild, learnWindow } from './learned.ts';
import { momentOf } from './moment.ts';
import { readClaims, spanOf } from './paging.ts';

/** What stood in a request, and when it and its answer were. Times are epoch milliseconds. */
export interface Sent {
  readonly requested: Window;
  readonly sentAt: number;
  /** The latest time that is believed of the answer. */
  readonly futureMs: number;
}

/** An answer of the tick route, judged and learned from: what matters of it for paging, and what it brought. */
export function hear(
  learned: Learned,
  ask: Ask,
  { requested, sentAt, futureMs }: Sent,
  page: TickPage,
): { readonly answer: Answer } & Pick<Judged, 'ticks' | 'rejected'> {
  const observedAt = momentOf(page.generatedAt, sentAt, futureMs, page.servedAt);
  learnEdges(learned, requested, page.t);
  learnCount(learned, page.received);
  const { ticks, rejected, outside, brought } = judge(page, ask, futureMs);
  if (outside > 0) learnWindow(learned, requested, page, brought);
  const span = spanOf(ticks);
  const answer = {
    count: page.received,
    span,
    brought,
    observedAt,
    asked: { from: ask.from, to: ask.to },
    requested,
    ...readClaims(ask, page, span, observedAt, learned),
  };
  learnFromChild(learned, ask, answer, ticks.t);
  return { answer, ticks, rejected };
}
