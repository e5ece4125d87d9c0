import type { CoveredWindow, Evidence } from '../../archive/format/coverage.ts';
import { isEmpty, subtract, union, type Window } from '../../base/window.ts';
import type { Observation } from './observation.ts';
import type { ServerBehavior, WindowSide } from './server-behavior.ts';

/** What fetching a window does next. A request is answered by its observation, or null where the service refused it. */
export type FetchStep =
  | {
      readonly kind: 'request';
      readonly window: Window;
      readonly side: 'whole' | WindowSide;
      readonly isExact: boolean;
    }
  /** The last response is of the same moment as the one before: the clock has to move on before the next. */
  | { readonly kind: 'pause' }
  | { readonly kind: 'claim'; readonly window: Window; readonly evidence: Evidence; readonly observedAt: number }
  /** An empty response: what it proves shows only once all symbols of the run were asked. */
  | { readonly kind: 'empty'; readonly window: Window; readonly observedAt: number; readonly lacksKnownTick: boolean }
  | { readonly kind: 'withdraw'; readonly window: Window }
  /** `isTooOld`: the service states, or shows by a refusal, that it goes back no further than the end of the window. */
  | { readonly kind: 'gap'; readonly window: Window; readonly reason: string; readonly isTooOld?: boolean }
  /** Taken for whole by the size of its page alone: to be fetched again where sizes turn out to mean nothing. */
  | { readonly kind: 'presumed'; readonly window: Window };

export type FetchSteps<T = void> = Generator<FetchStep, T, Observation | null | undefined>;

export interface FetchOptions {
  /** `next`: what comes after the last tick stays inferred, and the next poll confirms it at no extra request. */
  readonly confirm: 'now' | 'next';
  /** The last tick that the archive has of the symbol, epoch ms: a page that ends before it, and not the window, was cut off. */
  readonly lastTick: number | null;
  /** The last tick that is known of the symbol, epoch ms: a request begins there. Null: none that is near. */
  readonly knownTick: number | null;
  /**
   * Adjoining inferred windows up to the end of coverage, in order. A page that contains the known tick confirms them; a page
   * with further ticks in them withdraws them.
   */
  readonly inferred: readonly CoveredWindow[];
}

export const defaultFetchOptions: FetchOptions = { confirm: 'now', lastTick: null, knownTick: null, inferred: [] };

export const contradictionReason = 'the responses of the service contradict each other';
export const crowdedReason = 'more ticks in one millisecond than a page holds';
export const ignoredWindowReason = 'the service does not heed the window asked for';
export const noResponseReason = 'the service does not answer for this window';

/** Where more of the elements of a response are unusable, its window is a gap. */
export const rejectedShareMax = 0.01;
/** How many requests may come to nothing in a row. */
export const idleRequestsMax = 30;

/** Distinct ticks of one millisecond that may fill a page. */
export const crowdTicksMin = 4;

export interface PendingWindow extends Window {
  /** The request begins and ends at the very edges of the window, where they are known to be included. */
  readonly isExact?: boolean;
  /** It lies before the start that a response stated. */
  readonly isEarlier?: boolean;
  /** Part of a window: the known tick is not about its start. */
  readonly isPart?: boolean;
}

/** What is left to do of a window as planned, and what it may still cost. */
export interface FetchProgress {
  readonly behavior: ServerBehavior;
  readonly options: FetchOptions;
  readonly pending: PendingWindow[];
  splitsLeft: number;
  idleRequests: number;
  narrowResponses: number;
  crowdedMoments: number;
  /** Whether responses of the server contradicted each other before. */
  readonly hasContradictedBefore: boolean;
  /** Of a server that was caught: the narrowest window, in ms, about which responses disagreed. None as wide is asked for again. */
  contradictedMs: number;
  /** Whether something of the window being fetched was claimed so far. */
  hasClaimed: boolean;
  /** Elements of the largest page so far. */
  largestPage: number;
  /** Whether a page showed ticks where the polls before inferred that there are none. */
  isTailContradicted: boolean;
  /** Windows that the service says it lacks, and windows of pages with too much that is unusable. */
  readonly excludedWindows: Window[];
}

export const isRequested = ({ requested }: Observation, { from, to }: Window): boolean =>
  requested.from === from && requested.to === to;

/** Requests a window; null where the service refused it. */
export function* requestPage(
  work: FetchProgress,
  window: Window,
  side: 'whole' | WindowSide,
  isExact = false,
): FetchSteps<Observation | null> {
  work.idleRequests++;
  const o = (yield { kind: 'request', window, side, isExact }) ?? null;
  if (o === null) return null;
  const { behavior, excludedWindows } = work;
  for (const window of o.gaps) excludedWindows.push(window);
  work.largestPage = Math.max(work.largestPage, o.received);
  behavior.largestPage = Math.max(behavior.largestPage, o.received);
  if (o.first !== null) behavior.oldestTick = Math.min(behavior.oldestTick, o.first);
  return o;
}

export const hasTooManyRejected = ({ received, rejected }: Observation): boolean =>
  rejected > rejectedShareMax * received;

export const formatRejectedReason = ({ received, rejected }: Observation): string =>
  `${rejected} of the ${received} elements of a response are unusable`;

/** Leaves what a page speaks for as a gap, as too much of it is unusable: nobody knows of which moments that is. */
export function* excludePage(work: FetchProgress, o: Observation, asked: Window): FetchSteps {
  const { times } = o;
  const { from, to } = times.length === 0 ? asked : { from: times[0]!, to: times.at(-1)! + 1 };
  work.excludedWindows.push({ from, to });
  yield createGapStep({ from, to: Math.min(to, o.observedAt) }, formatRejectedReason(o));
}

/** Claims a window but for what is known to be lacking. */
export function* claim(work: FetchProgress, window: Window, evidence: Evidence, observedAt: number): FetchSteps {
  for (const { from, to } of subtract([window], work.excludedWindows)) {
    const piece = { from, to: Math.min(to, observedAt) };
    if (isEmpty(piece)) continue;
    work.hasClaimed = true;
    yield { kind: 'claim', window: piece, evidence, observedAt };
  }
}

export const createGapStep = (window: Window, reason: string): Extract<FetchStep, { kind: 'gap' }> => ({
  kind: 'gap',
  reason,
  window: { from: window.from, to: window.to },
});

/** A gap where the service goes back less far. */
export const createTooOldStep = (window: Window): FetchStep => ({
  ...createGapStep(window, noResponseReason),
  isTooOld: true,
});

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
