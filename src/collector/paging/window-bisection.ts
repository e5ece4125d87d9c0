import { UpstreamError } from '../../base/errors.ts';
import type { Window } from '../../base/window.ts';
import type { Upstream } from '../../client/upstream.ts';
import { type ServerBehavior, toRequestedWindow } from './server-behavior.ts';

/** A window no longer than this is not asked for in parts, in ms: a service that refuses it refuses it for its age. */
const partMsMin = 3_600_000;

/** Limits to try where a service may refuse a larger one. */
const lowerLimits = [1000, 100];

/** Statuses by which a service may refuse how much is asked for, or how old it is; it may mean something else by them. */
const sizeStatuses: readonly (number | undefined)[] = [400, 413, 416, 422];

export const isSizeRefusal = (error: unknown): error is UpstreamError =>
  error instanceof UpstreamError && error.failure === 'refused' && sizeStatuses.includes(error.status);

/** What has come of one symbol. */
export interface SymbolResponses {
  responses: number;
  refusal: UpstreamError | null;
}

export interface RefusalContext {
  readonly upstream: Pick<Upstream, 'ticks'>;
  readonly behavior: ServerBehavior;
  readonly signal: AbortSignal;
}

/**
 * What to ask in place of an ask that was refused with `limit`: the same where less is asked for by now, else its parts,
 * the recent first. Null where nothing of it is worth asking for, nor anything older.
 */
export async function planSmallerRequests(
  context: RefusalContext,
  symbol: string,
  ask: WindowRequest,
  limit: number,
  heard: SymbolResponses,
): Promise<readonly WindowRequest[] | null> {
  const { behavior } = context;
  const smaller = (): boolean => limit > behavior.limit || ask.to - ask.from > behavior.windowMsMax;
  if (heard.responses === 0) {
    while (behavior.sizeSearch !== null) await behavior.sizeSearch.catch(() => {});
    if (smaller()) return [ask];
    const sizing = searchAcceptedSize(context, symbol, ask, limit);
    behavior.sizeSearch = sizing.finally(() => {
      behavior.sizeSearch = null;
    });
    if (!(await behavior.sizeSearch)) return null;
    heard.responses++;
    if (smaller()) return [ask];
  }
  return splitRequest(behavior, ask);
}

/** Whether it answers for the last hour of an ask, if need be with a lower limit: that is behavior. */
async function searchAcceptedSize(
  context: RefusalContext,
  symbol: string,
  ask: WindowRequest,
  limit: number,
): Promise<boolean> {
  const { behavior, upstream, signal } = context;
  if (behavior.sizeSearchesLeft === 0) return false;
  const recent = { from: Math.max(ask.from, ask.to - partMsMin), to: ask.to };
  const same = recent.from > ask.from ? [limit] : [];
  const limits = behavior.isLimitConfirmed ? same : [...same, ...lowerLimits.filter((lower) => lower < limit)];
  for (const lower of limits) {
    try {
      await upstream.ticks({ symbol, ...toRequestedWindow(behavior, recent, false), limit: lower }, signal);
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

/** The parts of an ask that was refused for its length or its age; null where it is too short for the first. */
function splitRequest(behavior: ServerBehavior, ask: WindowRequest): readonly WindowRequest[] | null {
  const { from, to } = ask;
  if (to - from <= partMsMin) return null;
  const { refusedBefore } = behavior;
  // The service may go back as far for this symbol as for another; an hour more tells whether it goes further.
  if (from < refusedBefore - partMsMin && refusedBefore < to) {
    const cuts = [to, refusedBefore, refusedBefore - partMsMin, from];
    return cuts.slice(1).map((cut, i) => ({ from: cut, to: cuts[i]!, part: 'some' }));
  }
  const middle = Math.floor((from + to) / 2);
  return [
    { from: middle, to, part: 'some' },
    { from, to: middle, part: 'older half' },
  ];
}

/** The recent part of an ask longer than the service takes, and what is left of it; undefined where it is not. */
export function splitToLength(
  { windowMsMax }: ServerBehavior,
  ask: WindowRequest,
): readonly WindowRequest[] | undefined {
  if (ask.to - ask.from <= windowMsMax) return undefined;
  const cut = ask.to - windowMsMax;
  return [
    { from: cut, to: ask.to, part: 'some' },
    { from: ask.from, to: cut },
  ];
}

/**
 * Learns from an answer how much may be asked for. Where both halves are answered and the whole was not, it is for its
 * length, unless longer windows have been answered in this run.
 */
export function noteAcceptedSize(behavior: ServerBehavior, ask: WindowRequest, limit: number): void {
  const lengthMs = ask.to - ask.from;
  behavior.isLimitConfirmed ||= limit >= behavior.limit || behavior.limit === Number.POSITIVE_INFINITY;
  if (ask.part === 'older half' && behavior.windowMsAcceptedMax <= lengthMs + 1) {
    behavior.windowMsMax = Math.min(behavior.windowMsMax, lengthMs);
  }
  behavior.windowMsAcceptedMax = Math.max(behavior.windowMsAcceptedMax, lengthMs);
}

/**
 * Takes out of what is still to be asked what is older than a part that was refused, and so would be refused as well.
 * A remainder that an answer left is no such part: it may be refused for being too short.
 */
export function partitionOlder(
  asks: readonly WindowRequest[],
  refused: WindowRequest,
): { older: readonly WindowRequest[]; rest: readonly WindowRequest[] } {
  if (refused.part === undefined) return { older: [], rest: asks };
  const isOlder = (ask: WindowRequest): boolean => ask.to <= refused.from;
  return { older: asks.filter(isOlder), rest: asks.filter((ask) => !isOlder(ask)) };
}

/** A window to be fetched. */
export interface WindowRequest extends Window {
  /** A part of a window that was refused; the older half is asked for only where the recent one was answered. */
  readonly part?: 'some' | 'older half';
}
