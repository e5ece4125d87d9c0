import type { CoveredWindow, Evidence } from '../../archive/format/coverage.ts';
import { hourMs, isEmpty, subtract, union, type Window } from '../../base/window.ts';
import type { Observation } from './observation.ts';
import type { ServerBehavior, WindowSide } from './server-behavior.ts';

/** The next step of a window fetch. The caller passes back the observation of a `request`, or null if the server refused it. */
export type FetchStep =
  | {
      readonly kind: 'request';
      readonly window: Window;
      readonly side: 'whole' | WindowSide;
      readonly isExact: boolean;
    }
  /** The last two responses have the same timestamp: the clock must advance before the next request. */
  | { readonly kind: 'pause' }
  | { readonly kind: 'claim'; readonly window: Window; readonly evidence: Evidence; readonly observedAt: number }
  /** An empty response. It can be judged only after all symbols of the run have been requested. */
  | { readonly kind: 'empty'; readonly window: Window; readonly observedAt: number; readonly lacksKnownTick: boolean }
  | { readonly kind: 'withdraw'; readonly window: Window }
  /** `isTooOld`: the server states, or shows by a refusal, that its history starts at or after the end of the window. */
  | { readonly kind: 'gap'; readonly window: Window; readonly reason: string; readonly isTooOld?: boolean }
  /** Considered complete only because of its page size. It is fetched again if page sizes turn out to be unreliable. */
  | { readonly kind: 'presumed'; readonly window: Window };

export type FetchSteps<T = void> = Generator<FetchStep, T, Observation | null | undefined>;

export interface FetchOptions {
  /** `next`: the window after the last tick stays inferred, and the next poll confirms it without an extra request. */
  readonly confirm: 'now' | 'next';
  /**
   * Last tick of the symbol in the archive, epoch ms. A page that ends before it, in a window that ends after it, was
   * truncated.
   */
  readonly lastTick: number | null;
  /** Last known tick of the symbol, epoch ms: requests begin there. Null: no known tick is close enough. */
  readonly knownTick: number | null;
  /**
   * Adjoining inferred windows up to the end of coverage, in order. A page that contains the known tick confirms them; a
   * page with further ticks in them withdraws them.
   */
  readonly inferred: readonly CoveredWindow[];
  /**
   * End of the coverage, epoch ms, if the end is proven and everything from the known tick on is covered. A page with the known
   * tick and no ticks between them proves that again. Absent or null otherwise.
   */
  readonly coveredTo?: number | null;
}

export const defaultFetchOptions: FetchOptions = { confirm: 'now', lastTick: null, knownTick: null, inferred: [] };

export const contradictionReason = 'the responses of the service contradict each other';
export const crowdedReason = 'more ticks in one millisecond than a page holds';
export const ignoredWindowReason = 'the service ignores from/to';
export const noResponseReason = 'the service does not serve this window';

/** If a larger share of a response's elements is unusable, its window becomes a gap. */
export const rejectedShareMax = 0.01;
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
  splitsLeft: number;
  idleRequests: number;
  narrowResponses: number;
  crowdedMoments: number;
  /** Whether responses of the server contradicted each other before this fetch. */
  readonly hasContradictedBefore: boolean;
  /**
   * Width in ms of the narrowest window for which responses disagreed, if the server had contradicted itself before
   * this fetch. Windows at least this wide are split.
   */
  contradictedMs: number;
  /** Whether a claim was made for the current window. */
  hasClaimed: boolean;
  /** Number of elements in the largest page of this fetch. */
  largestPage: number;
  /** Whether a page contains ticks in a window that earlier polls inferred to be empty. */
  isTailContradicted: boolean;
  /** Windows that the service states as gaps, and windows of pages with too many rejected elements. */
  readonly excludedWindows: Window[];
}

export const isRequested = ({ requested }: Observation, { from, to }: Window): boolean =>
  requested.from === from && requested.to === to;

/** Requests a window. Returns null if the server refused it. */
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
  if (o.first !== null) behavior.oldestTick = Math.min(behavior.oldestTick, o.first);
  return o;
}

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

/** Claims a window except for its excluded parts. */
export function* claim(progress: FetchProgress, window: Window, evidence: Evidence, observedAt: number): FetchSteps {
  for (const { from, to } of subtract([window], progress.excludedWindows)) {
    const part = { from, to: Math.min(to, observedAt) };
    if (isEmpty(part)) continue;
    progress.hasClaimed = true;
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
