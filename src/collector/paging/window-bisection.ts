import { UpstreamError } from '../../base/errors.ts';
import { dayMs, floorToDay, hourMs, minuteMs, type Window } from '../../base/window.ts';
import type { Upstream } from '../../client/upstream.ts';
import { type ServerBehavior, toRequestedWindow } from './server-behavior.ts';

/** Windows up to this length are not split, in ms. If a service rejects such a window, its age is the cause. */
const splitMsMin = hourMs;

/** Limits to try if a service may refuse a larger one. */
const lowerLimits = [1000, 100];

/**
 * HTTP status codes with which a service may refuse a request because of its size or the age of its window. They can
 * have other causes.
 */
const sizeStatuses: readonly (number | undefined)[] = [400, 413, 416, 422];

export const isSizeRefusal = (error: unknown): error is UpstreamError =>
  error instanceof UpstreamError && error.failure === 'refused' && sizeStatuses.includes(error.status);

/** Number of responses for one symbol so far, and its first refusal. */
export interface SymbolResponses {
  responses: number;
  refusal: UpstreamError | null;
}

interface RefusalContext {
  readonly upstream: Pick<Upstream, 'ticks'>;
  readonly behavior: ServerBehavior;
  readonly signal: AbortSignal;
}

/**
 * Returns the requests that replace a request refused with `limit`: the same window if the limits have been lowered
 * since, otherwise its parts, the most recent first. Null if neither it nor anything older can be served.
 */
export async function planSmallerRequests(
  context: RefusalContext,
  symbol: string,
  request: WindowRequest,
  limit: number,
  responses: SymbolResponses,
): Promise<readonly WindowRequest[] | null> {
  const { behavior } = context;
  const isSmallerNow = (): boolean => limit > behavior.limit || request.to - request.from > behavior.windowMsMax;
  if (responses.responses === 0) {
    while (behavior.sizeSearch !== null) await behavior.sizeSearch.catch(() => {});
    if (isSmallerNow()) return [request];
    const search = searchAcceptedSize(context, symbol, request, limit);
    behavior.sizeSearch = search.finally(() => {
      behavior.sizeSearch = null;
    });
    if (!(await behavior.sizeSearch)) return null;
    responses.responses++;
    if (isSmallerNow()) return [request];
  }
  return splitRequest(behavior, request);
}

/** Searches for a limit at which the service serves the last hour of a request, and records it. */
async function searchAcceptedSize(
  context: RefusalContext,
  symbol: string,
  request: WindowRequest,
  limit: number,
): Promise<boolean> {
  const { behavior, upstream, signal } = context;
  if (behavior.sizeSearchesLeft === 0) return false;
  const recentWindow = { from: Math.max(request.from, request.to - splitMsMin), to: request.to };
  const sameLimit = recentWindow.from > request.from ? [limit] : [];
  const limits = behavior.isLimitConfirmed
    ? sameLimit
    : [...sameLimit, ...lowerLimits.filter((lower) => lower < limit)];
  for (const lower of limits) {
    try {
      await upstream.ticks({ symbol, ...toRequestedWindow(behavior, recentWindow, false), limit: lower }, signal);
    } catch (error) {
      if (!isSizeRefusal(error)) throw error;
      continue;
    }
    if (lower < limit && !behavior.isLimitConfirmed) behavior.limit = lower;
    return true;
  }
  behavior.sizeSearchesLeft--;
  return false;
}

/**
 * The parts of a request that was refused because of its length or age. Null if it is too short for its length to be the
 * cause.
 */
function splitRequest(behavior: ServerBehavior, request: WindowRequest): readonly WindowRequest[] | null {
  const { from, to } = request;
  if (to - from <= splitMsMin) return null;
  const { refusedBefore } = behavior;
  // History may begin at the same time for this symbol as for others. One more hour shows whether it begins earlier.
  if (from < refusedBefore - splitMsMin && refusedBefore < to) {
    const cuts = [to, refusedBefore, refusedBefore - splitMsMin, from];
    return cuts.slice(1).map((cut, i) => ({ from: cut, to: cuts[i]!, part: 'some' }));
  }
  // Servers limit windows to whole days, and a request has margins.
  const half = Math.ceil((to - from) / 2);
  const middle = to - (half < dayMs ? half : floorToDay(half) - minuteMs);
  return [
    { from: middle, to, part: 'some' },
    { from, to: middle, part: 'older half' },
  ];
}

/** Splits off the most recent part of a request that is longer than the service accepts. Undefined if it is short enough. */
export function splitToLength(
  { windowMsMax }: ServerBehavior,
  request: WindowRequest,
): readonly WindowRequest[] | undefined {
  if (request.to - request.from <= windowMsMax) return undefined;
  const cut = request.to - windowMsMax;
  return [
    { from: cut, to: request.to, part: 'some' },
    // Only responses that share a tick prove what lies between them.
    { from: request.from, to: cut + Math.floor(windowMsMax / 12) },
  ];
}

/**
 * Infers from a response which requests the service accepts. If both halves of a refused window succeed, the window was
 * refused because of its length, unless a longer window has succeeded in this run.
 */
export function noteAcceptedSize(behavior: ServerBehavior, request: WindowRequest, limit: number): void {
  const lengthMs = request.to - request.from;
  behavior.isLimitConfirmed ||= limit >= behavior.limit || behavior.limit === Number.POSITIVE_INFINITY;
  if (request.part === 'older half' && behavior.windowMsAcceptedMax <= lengthMs + 1) {
    behavior.windowMsMax = Math.min(behavior.windowMsMax, lengthMs);
  }
  behavior.windowMsAcceptedMax = Math.max(behavior.windowMsAcceptedMax, lengthMs);
}

/**
 * Separates the pending requests that are older than a refused part and would be refused as well. The remainder that
 * `splitToLength` leaves is not such a part: it may have been refused because it is too short.
 */
export function partitionOlder(
  requests: readonly WindowRequest[],
  refused: WindowRequest,
): { older: readonly WindowRequest[]; rest: readonly WindowRequest[] } {
  if (refused.part === undefined) return { older: [], rest: requests };
  const isOlder = (request: WindowRequest): boolean => request.to <= refused.from;
  return { older: requests.filter(isOlder), rest: requests.filter((request) => !isOlder(request)) };
}

export interface WindowRequest extends Window {
  /** Set for a part of a refused window. The older half is requested only if the recent one got a response. */
  readonly part?: 'some' | 'older half';
}
