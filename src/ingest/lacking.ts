import type { Rejected } from '../core/tick.ts';
import { union, type Window } from '../core/window.ts';
import type { Answer, Ask } from './ask.ts';
import type { Learned } from './learned.ts';

/** A window that the service does not bring, and why; `reason` is one clause. */
export type Lost = Window & { readonly reason: string };

export const unanswered =
  (learned: Pick<Learned, 'windowIgnored'>) =>
  (w: Window): Lost => ({
    from: w.from,
    to: w.to,
    reason: learned.windowIgnored
      ? 'the service does not heed the window asked for'
      : 'the service does not answer for this window',
  });

/** The reason where an answer names a window as a gap. */
export const lacksReason = 'the service says that it lacks this window';

export const named = (w: Window): Lost => ({ ...w, reason: lacksReason });

/** The reason where a window lies after the moment at which the answer for it was generated. */
export const staleReason = 'the service answers as of an earlier moment';

/** An answer this much older than what was asked for comes from a service that has stood still, in ms. */
const lagMsMin = 3_600_000;

/** What of a window an answer is too old to speak for, where that is more than clocks and caches explain. */
export const lagOf = (ask: Ask, { observedAt }: Pick<Answer, 'observedAt'>): Lost | null =>
  ask.kind === 'whole' && ask.to - observedAt >= lagMsMin
    ? { from: Math.max(ask.from, observedAt), to: ask.to, reason: staleReason }
    : null;

/**
 * Whether an answer has elements and none of them tells a moment and a price: what happened in its window is as unknown
 * as before, and claiming it would make a quiet day of a format that has changed.
 */
export const saysNothing = (rejected: readonly Rejected[], brought: unknown): boolean =>
  rejected.length > 0 && brought === null;

export const noneUsable = (rejected: readonly Rejected[]): string =>
  `none of ${rejected.length} tick${rejected.length === 1 ? '' : 's'} can be used: ${rejected[0]!.reason}`;

/** Joins what was lost piecemeal. */
export const joinLost = (lost: readonly Lost[]): Lost[] =>
  [...Map.groupBy(lost, (w) => w.reason)].flatMap(([reason, list]) => union(list).map((w) => ({ ...w, reason })));
