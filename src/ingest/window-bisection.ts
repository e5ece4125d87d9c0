import { UpstreamError } from '../core/errors.ts';
import type { Upstream } from '../upstream/upstream.ts';
import type { Ask } from './page-request.ts';
import { requestedWindow, type ServerBehavior } from './server-behavior.ts';

/** A window no longer than this is not asked for in parts, in ms: a service that refuses it refuses it for its age. */
const partMsMin = 3_600_000;

/** Limits to try where a service may refuse a larger one. */
const lowerLimits = [1000, 100];

/** Statuses by which a service may refuse how much is asked for, or how old it is; it may mean something else by them. */
const sizeStatuses: readonly (number | undefined)[] = [400, 413, 416, 422];

export const isAboutSize = (error: unknown): error is UpstreamError =>
  error instanceof UpstreamError && error.failure === 'refused' && sizeStatuses.includes(error.status);

/** What has come of one symbol. */
export interface Heard {
  answers: number;
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
export async function instead(
  context: RefusalContext,
  symbol: string,
  ask: Ask,
  limit: number,
  heard: Heard,
): Promise<readonly Ask[] | null> {
  const { behavior } = context;
  const smaller = (): boolean => limit > behavior.limit || ask.to - ask.from > behavior.windowMsMax;
  if (heard.answers === 0) {
    while (behavior.sizing !== null) await behavior.sizing.catch(() => {});
    if (smaller()) return [ask];
    const sizing = answersToLess(context, symbol, ask, limit);
    behavior.sizing = sizing.finally(() => {
      behavior.sizing = null;
    });
    if (!(await behavior.sizing)) return null;
    heard.answers++;
    if (smaller()) return [ask];
  }
  return partsOf(behavior, ask);
}

/** Whether it answers for the last hour of an ask, if need be with a lower limit: that is behavior. */
async function answersToLess(context: RefusalContext, symbol: string, ask: Ask, limit: number): Promise<boolean> {
  const { behavior, upstream, signal } = context;
  if (behavior.sizingsLeft === 0) return false;
  const recent = { from: Math.max(ask.from, ask.to - partMsMin), to: ask.to };
  const same = recent.from > ask.from ? [limit] : [];
  const limits = behavior.limitHeard ? same : [...same, ...lowerLimits.filter((lower) => lower < limit)];
  for (const lower of limits) {
    try {
      await upstream.ticks({ symbol, ...requestedWindow(behavior, recent, false), limit: lower }, signal);
    } catch (error) {
      if (!isAboutSize(error)) throw error;
      continue;
    }
    if (lower < limit && !behavior.limitHeard) behavior.limit = lower;
    return true;
  }
  behavior.sizingsLeft--;
  return false;
}

/** The parts of an ask that was refused for its length or its age; null where it is too short for the first. */
function partsOf(behavior: ServerBehavior, ask: Ask): readonly Ask[] | null {
  const { from, to } = ask;
  if (to - from <= partMsMin) return null;
  const { oldestFrom } = behavior;
  // The service may go back as far for this symbol as for another; an hour more tells whether it goes further.
  if (from < oldestFrom - partMsMin && oldestFrom < to) {
    const cuts = [to, oldestFrom, oldestFrom - partMsMin, from];
    return cuts.slice(1).map((cut, i) => ({ from: cut, to: cuts[i]!, part: 'some' }));
  }
  const middle = Math.floor((from + to) / 2);
  return [
    { from: middle, to, part: 'some' },
    { from, to: middle, part: 'older half' },
  ];
}

/** The recent part of an ask longer than the service takes, and what is left of it; undefined where it is not. */
export function cutToLength({ windowMsMax }: ServerBehavior, ask: Ask): readonly Ask[] | undefined {
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
export function learnSize(behavior: ServerBehavior, ask: Ask, limit: number): void {
  const lengthMs = ask.to - ask.from;
  behavior.limitHeard ||= limit >= behavior.limit || behavior.limit === Number.POSITIVE_INFINITY;
  if (ask.part === 'older half' && behavior.windowMsHeard <= lengthMs + 1) {
    behavior.windowMsMax = Math.min(behavior.windowMsMax, lengthMs);
  }
  behavior.windowMsHeard = Math.max(behavior.windowMsHeard, lengthMs);
}

/**
 * Takes out of what is still to be asked what is older than a part that was refused, and so would be refused as well.
 * A remainder that an answer left is no such part: it may be refused for being too short.
 */
export function withoutOlder(asks: readonly Ask[], refused: Ask): { older: readonly Ask[]; rest: readonly Ask[] } {
  if (refused.part === undefined) return { older: [], rest: asks };
  const isOlder = (ask: Ask): boolean => ask.to <= refused.from;
  return { older: asks.filter(isOlder), rest: asks.filter((ask) => !isOlder(ask)) };
}
