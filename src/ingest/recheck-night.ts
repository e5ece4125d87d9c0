import { type CoveredWindow, isProven } from '../core/coverage.ts';
import {
  cleanWindowsMin,
  findDoubtfulWindows,
  type RecheckMemory,
  type RecheckNight,
  recordRechecks,
  separateResponsesMs,
} from '../core/rechecks.ts';
import { covers, intersectTwo, isEmpty, type Window } from '../core/window.ts';
import type { SymbolPlan } from './plan.ts';
import { type Contradiction, type RecheckContext, recheck } from './recheck.ts';

/** What a night of rechecks needs from outside. */
export interface RecheckNightContext extends RecheckContext {
  /** Requests that the run has sent so far. */
  countRequests(): number;
  /** Makes durable that windows of one origin are only inferred. */
  demote(symbol: string, windows: readonly CoveredWindow[]): Promise<void>;
}

export interface RecheckLimits {
  /** Windows to recheck; see `countRechecks`. */
  readonly windows: number;
  /** Requests that may go to what is in doubt, besides what was contradicted tonight. */
  readonly rereadRequestsMax: number;
  /** How far before its cursor a poll reads again, by what is remembered; in ms. */
  computeOverlapMs(memory: RecheckMemory): number;
}

/** What the rechecks of a night came to. Counts; times in ms. */
export interface RecheckNightOutcome extends RecheckNight {
  readonly requests: number;
  /** Windows that count as covered no more, or as inferred only. */
  readonly withdrawn: number;
  /** Windows in doubt that were read again, and those left for the next nights. */
  readonly reread: number;
  readonly doubtful: number;
  readonly latenessMs: number;
  readonly memory: RecheckMemory;
}

/** Windows in doubt that are fetched at a time: two at first, then as many as the requests left should be enough for. */
const rereadWindowsFirst = 2;
const rereadWindowsMax = 64;

/**
 * Rechecks a sample, and reads again what the findings of this night and of the nights before put in doubt.
 * @param isPagingContradicted whether responses contradicted each other while this run polled
 */
export async function recheckNight(
  context: RecheckNightContext,
  memory: RecheckMemory,
  limits: RecheckLimits,
  isPagingContradicted: boolean,
): Promise<RecheckNightOutcome> {
  const begun = context.countRequests();
  const at = context.nowMs();
  const { contradictions, windows, seen, found } = await recheck(context, limits.windows);
  // What was in doubt before teaches nothing new.
  const isNews = ({ fetchedAt }: { readonly fetchedAt: number }): boolean => fetchedAt >= (memory.caughtAt ?? 0);
  const left = contradictions.filter((one) => one.isLeftOut && isNews(one));
  const latenessMs = contradictions.reduce((max, one) => Math.max(max, one.latenessMs ?? 0), 0);
  const night = { at, windows, contradicted: contradictions.length, leftOut: left.length, seen, found };
  const isProven = left.some((one) => one.isProven);
  let noted = recordRechecks(memory, { ...night, latenessMs, isProven, isPagingContradicted });
  let withdrawn = contradictions.reduce((sum, one) => sum + one.withdrawn.length, 0);
  if (noted.caughtAt !== memory.caughtAt) {
    noted = { ...noted, caughtAt: Math.max(at, findNewestFetchedAt(context, contradictions) + 1) };
    withdrawn += await demoteAll(context, noted.caughtAt!);
  }
  const { reread, doubtful } = await rereadDoubtful(context, noted, limits);
  const isTrusted = noted.cleanWindows >= cleanWindowsMin && doubtful === 0;
  return {
    ...night,
    requests: context.countRequests() - begun,
    withdrawn,
    reread,
    doubtful,
    latenessMs,
    memory: isTrusted ? { ...noted, caughtAt: null } : noted,
  };
}

/** When the latest response but for those to what was withdrawn was generated, by the service's clock; epoch ms. */
function findNewestFetchedAt(context: RecheckNightContext, contradictions: readonly Contradiction[]): number {
  let newest = 0;
  for (const { symbol } of context.symbols) {
    const again = contradictions.filter((one) => one.symbol === symbol).flatMap(({ withdrawn }) => withdrawn);
    for (const w of context.getCoverage(symbol)) if (!covers(again, w)) newest = Math.max(newest, w.fetchedAt);
  }
  return newest;
}

/** Takes what was fetched before the service was caught for inferred only; resolves to how many windows that are. */
async function demoteAll(context: RecheckNightContext, caughtAt: number): Promise<number> {
  let count = 0;
  for (const { symbol } of context.symbols) {
    const proven = context
      .getCoverage(symbol)
      .filter((w) => isProven(w) && w.origin !== 'import' && w.fetchedAt < caughtAt);
    for (const ofOrigin of Map.groupBy(proven, ({ origin }) => origin).values()) await context.demote(symbol, ofOrigin);
    count += proven.length;
  }
  return count;
}

/** Fetches again what is in doubt, the latest days of all symbols first, until the requests are used up. */
async function rereadDoubtful(
  context: RecheckNightContext,
  memory: RecheckMemory,
  { computeOverlapMs, rereadRequestsMax }: RecheckLimits,
): Promise<{ reread: number; doubtful: number }> {
  // What was fetched longer ago is told apart no more.
  const isLateNews = memory.lateAt !== null && context.nowMs() - memory.lateAt < separateResponsesMs;
  if (memory.caughtAt === null && !isLateNews) return { reread: 0, doubtful: 0 };
  const overlapMs = computeOverlapMs(memory);
  const doubtful = context.symbols.flatMap(({ symbol }) =>
    findDoubtfulWindows(context.getCoverage(symbol), memory, overlapMs).flatMap(
      (w): (Window & { symbol: string })[] => {
        const piece = intersectTwo(w, { from: Number.NEGATIVE_INFINITY, to: context.endMs });
        return isEmpty(piece) ? [] : [{ ...piece, symbol }];
      },
    ),
  );
  doubtful.sort((a, b) => b.to - a.to);
  const begun = context.countRequests();
  let reread = 0;
  for (;;) {
    const used = context.countRequests() - begun;
    if (reread >= doubtful.length || used >= rereadRequestsMax) break;
    const affordable = reread === 0 ? rereadWindowsFirst : Math.floor((rereadRequestsMax - used) / (used / reread));
    const batch = doubtful.slice(reread, reread + Math.max(1, Math.min(rereadWindowsMax, affordable)));
    const plans = [...Map.groupBy(batch, ({ symbol }) => symbol)].map(
      ([symbol, windows]): SymbolPlan => ({ symbol, windows: windows.toReversed(), isFirst: false }),
    );
    await context.refetch(plans);
    reread += batch.length;
  }
  return { reread, doubtful: doubtful.length - reread };
}

/** What is written of windows of one origin that are only inferred from now on. */
export const createDemotion = (
  windows: readonly CoveredWindow[],
): { withdrawn: Window[]; covered: Omit<CoveredWindow, 'origin'>[] } => ({
  withdrawn: windows.map(({ from, to }) => ({ from, to })),
  covered: windows.map(({ from, to, fetchedAt }) => ({ from, to, fetchedAt, evidence: 'inferred' as const })),
});
