import { union, type Window } from '../core/window.ts';

/** A window that the service does not bring, and why; `reason` is one clause. */
export type UnservedWindow = Window & {
  readonly reason: string;
  /** Whether the service said that it does not go back so far. */
  readonly isTooOld?: boolean;
};

/** The reason where a response names a window as a gap. */
export const statedGapReason = 'the service says that it lacks this window';

export const toStatedGap = ({ from, to }: Window): UnservedWindow => ({ from, to, reason: statedGapReason });

/** The reason where a window lies after the moment at which the response about it was generated. */
export const staleReason = 'the service answers as of an earlier moment';

/** A response this much older than what was asked for comes from a service that has stood still, in ms. */
const staleMsMin = 3_600_000;

/** What of a window a response is too old to speak for, where that is more than clocks and caches explain. */
export const findStalePart = (window: Window, observedAt: number): UnservedWindow | null =>
  window.to - observedAt >= staleMsMin
    ? { from: Math.max(window.from, observedAt), to: window.to, reason: staleReason }
    : null;

/** The reason where no element of a response can be used. */
export const formatNoneUsable = (elements: number, reason: string): string =>
  `none of ${elements} tick${elements === 1 ? '' : 's'} can be used: ${reason}`;

/** Joins what was lost piecemeal. */
export const joinUnservedWindows = (lost: readonly UnservedWindow[]): UnservedWindow[] =>
  [...Map.groupBy(lost, (w) => `${w.isTooOld === true} ${w.reason}`).values()].flatMap((list) =>
    union(list).map((w) => ({ ...w, reason: list[0]!.reason, ...(list[0]!.isTooOld && { isTooOld: true }) })),
  );
