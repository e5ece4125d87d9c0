import type { Evidence } from '../../archive/format/coverage.ts';
import { hourMs, isEmpty, subtract, union, type Window } from '../../base/window.ts';
import type { Edge } from '../proof/proven.ts';
import type { Observation } from './observation.ts';
import { type ServerBehavior, toRequestedWindow, type WindowSide } from './server-behavior.ts';

/** The next step of a window fetch. The caller passes back the observation of a `request`, or null if the server refused it. */
export type FetchStep =
  | {
      readonly kind: 'request';
      readonly window: Window;
      readonly side: 'whole' | WindowSide;
      readonly isExact: boolean;
    }
  | { readonly kind: 'claim'; readonly window: Window; readonly evidence: Evidence; readonly observedAt: number }
  /** An empty response. It can be judged only after all symbols of the run have been requested. */
  | ({ readonly kind: 'empty'; readonly window: Window } & Emptiness)
  | { readonly kind: 'withdraw'; readonly window: Window }
  /** `isTooOld`: the server states, or shows by a refusal, that its history starts at or after the end of the window. */
  | { readonly kind: 'gap'; readonly window: Window; readonly reason: string; readonly isTooOld?: boolean }
  /** A response for a short window left out a tick that another one showed. */
  | { readonly kind: 'omission'; readonly t: number; readonly at: number }
  /** An end of what a response showed. Whether it is proven is judged when all symbols of the run were requested. */
  | ({ readonly kind: 'edge' } & Omit<Edge, 'symbol'>);

export type FetchSteps<T = void> = Generator<FetchStep, T, Observation | null | undefined>;

/** A response without ticks in its window. */
export interface Emptiness {
  readonly observedAt: number;
  /** Whether the request began at a tick that the server returned earlier but not this time. */
  readonly lacksKnownTick: boolean;
  /** Whether it has ticks beside its window, which may have used up a budget of the server. */
  readonly hasOthers: boolean;
  /** The window as it was sent, which the server searched, perhaps from one end to where it gave up. */
  readonly sent: Window;
}

export interface FetchOptions {
  /** Whether the next poll begins at the last tick, so that this one looks no further unless the page looks truncated. */
  readonly isContinued: boolean;
  /**
   * Last tick of the symbol in the archive, epoch ms. A page that ends before it, in a window that ends after it, was
   * truncated.
   */
  readonly lastTick: number | null;
  /** Last known tick of the symbol, epoch ms: requests begin there. Null: no known tick is close enough. */
  readonly knownTick: number | null;
  /** Whether the time before the first tick lacks proof, although a known tick comes later. */
  readonly isLowUnproven?: boolean;
}

export const defaultFetchOptions: FetchOptions = { isContinued: false, lastTick: null, knownTick: null };

export const contradictionReason = 'the responses of the service contradict each other';
export const crowdedReason = 'more ticks in one millisecond than a page holds';
export const ignoredWindowReason = 'the service ignores from/to';
export const noResponseReason = 'the service does not serve this window';

/** If a larger share of a response's elements is unusable, its window becomes a gap. */
const rejectedShareMax = 0.01;
export const noGap: Window = { from: 0, to: 0 };

/** A server that thins out wide windows shows all ticks of such a short one. In ms. */
export const thinnedMsMin = hourMs;

/** Maximum number of consecutive requests without progress. */
export const idleRequestsMax = 30;

/** Minimum number of distinct ticks in one millisecond that may fill a page. */
export const crowdedTicksMin = 4;

export interface PendingWindow extends Window {
  /** The request uses the exact edges of the window because the server is known to include them. */
  readonly isExact?: boolean;
  /** The window lies before the start that a response stated. */
  readonly isEarlier?: boolean;
  /** The window is part of a planned window: the known tick does not apply to its start. */
  readonly isPart?: boolean;
}

/** State of one window fetch: what is pending, and the limits that remain. */
export interface FetchProgress {
  readonly behavior: ServerBehavior;
  readonly options: FetchOptions;
  readonly pending: PendingWindow[];
  /** The widest gap between two ticks of a response for the current window. */
  widestGap: Window;
  /** Number of responses that lack the tick from which they were requested. */
  breaks: number;
  idleRequests: number;
  narrowResponses: number;
  crowdedMoments: number;
  /** Number of elements in the largest page of this fetch. */
  largestPage: number;
  /** Windows that the service states as gaps, and windows of pages with too many rejected elements. */
  readonly excludedWindows: Window[];
}

export const isRequested = ({ requested }: Observation, { from, to }: Window): boolean =>
  requested.from === from && requested.to === to;

/**
 * Requests a window, and once more with exact edges if the ticks at the edges may have filled the page. Returns null if the server
 * refused it.
 */
export function* requestPage(
  progress: FetchProgress,
  window: Window,
  side: 'whole' | WindowSide,
  isExact = false,
): FetchSteps<Observation | null> {
  progress.idleRequests++;
  const o = (yield { kind: 'request', window, side, isExact }) ?? null;
  if (o === null) return null;
  const { behavior, excludedWindows } = progress;
  for (const window of o.gaps) excludedWindows.push(window);
  progress.largestPage = Math.max(progress.largestPage, o.received);
  behavior.largestPage = Math.max(behavior.largestPage, o.received);
  const { gap } = o.shown;
  if (gap !== null && gap.to - gap.from > progress.widestGap.to - progress.widestGap.from) progress.widestGap = gap;
  if (o.times.length === 0 && o.last !== null && !isRequested(o, toRequestedWindow(behavior, window, true)))
    return yield* requestPage(progress, window, side, true);
  return o;
}

/** Whether a response has more than one tick before or after its request: some servers always add one. */
export const ignoresWindow = ({ countBefore, countAfter }: Observation): boolean => countBefore > 1 || countAfter > 1;

export const hasTooManyRejected = ({ received, rejected }: Observation): boolean =>
  rejected > rejectedShareMax * received;

export const formatRejectedReason = ({ received, rejected }: Observation): string =>
  `${rejected} of ${received} elements in a response were rejected`;

/** Turns the window of a page into a gap: too many elements were rejected, and their times are unknown. */
export function* excludePage(progress: FetchProgress, o: Observation, requestedWindow: Window): FetchSteps {
  const { times } = o;
  const { from, to } = times.length === 0 ? requestedWindow : { from: times[0]!, to: times.at(-1)! + 1 };
  progress.excludedWindows.push({ from, to });
  yield createGapStep({ from, to: Math.min(to, o.observedAt) }, formatRejectedReason(o));
}

/** The part of an edge's window from its tick on, up to the first excluded window. */
export const cutAtExcluded = ({ from, to }: Window, side: Edge['side'], excluded: readonly Window[]): Window => {
  const parts = subtract([{ from, to }], excluded);
  const part = side === 'after' ? parts[0] : parts.at(-1);
  return (side === 'after' ? part?.from === from : part?.to === to) ? part! : { from, to: from };
};

/** Claims a window except for its excluded parts. */
export function* claim(progress: FetchProgress, window: Window, evidence: Evidence, observedAt: number): FetchSteps {
  for (const { from, to } of subtract([window], progress.excludedWindows)) {
    const part = { from, to: Math.min(to, observedAt) };
    if (isEmpty(part)) continue;
    yield { kind: 'claim', window: part, evidence, observedAt };
  }
}

export const createGapStep = (window: Window, reason: string): Extract<FetchStep, { kind: 'gap' }> => ({
  kind: 'gap',
  reason,
  window: { from: window.from, to: window.to },
});

/** A gap before the start of the server's history. */
export const createTooOldStep = (window: Window): FetchStep => ({
  ...createGapStep(window, noResponseReason),
  isTooOld: true,
});

/** A window that the service does not serve. `reason` is one clause. */
export type UnservedWindow = Window & {
  readonly reason: string;
  /** Whether the window lies before the start of the server's history. */
  readonly isTooOld?: boolean;
};

/** Reason for a window that a response states as a gap. */
export const statedGapReason = 'the service states that it has no data for this window';

export const toStatedGap = ({ from, to }: Window): UnservedWindow => ({ from, to, reason: statedGapReason });

/** Reason for a window that ends after its response was generated. */
export const staleReason = 'the response was generated before the end of the window';

/** If a response is older than the requested end by at least this much, the server's data is stale. In ms. */
const staleMsMin = hourMs;

/** The part of a window after the response was generated. Null if clock skew and caches can explain the difference. */
export const findStalePart = (window: Window, observedAt: number): UnservedWindow | null =>
  window.to - observedAt >= staleMsMin
    ? { from: Math.max(window.from, observedAt), to: window.to, reason: staleReason }
    : null;

/** Reason for a response without a usable element. */
export const formatNoneUsable = (elements: number, reason: string): string =>
  `${elements} of ${elements} tick${elements === 1 ? '' : 's'} rejected: ${reason}`;

/** Joins adjoining windows that have the same reason. */
export const joinUnservedWindows = (unserved: readonly UnservedWindow[]): UnservedWindow[] =>
  [...Map.groupBy(unserved, (w) => `${w.isTooOld === true} ${w.reason}`).values()].flatMap((list) =>
    union(list).map((w) => ({ ...w, reason: list[0]!.reason, ...(list[0]!.isTooOld && { isTooOld: true }) })),
  );
