import { type CoveredWindow, isProven } from '../../archive/format/coverage.ts';
import {
  cleanWindowsMin,
  findDoubtfulWindows,
  type RecheckMemory,
  type RecheckNight,
  recordRechecks,
  separateResponsesMs,
} from '../../archive/journal/recheck-results.ts';
import type { Random } from '../../base/ports.ts';
import { covers, dayMs, intersectTwo, isEmpty, isWithin, union, type Window } from '../../base/window.ts';
import type { Observation } from '../paging/observation.ts';
import type { SymbolPlan } from '../paging/plan.ts';
import {
  computeTickReach,
  drawMoment,
  drawSymbol,
  listCoveredDays,
  placeWindow,
  type RecheckCandidate,
} from './recheck-plan.ts';

/** What rechecks need from outside. */
export interface RecheckContext {
  readonly symbols: readonly RecheckCandidate[];
  /** How long after a moment a response must come to be final, in ms. */
  readonly settleMs: number;
  /** The latest moment that is rechecked, excluded; epoch ms. */
  readonly endMs: number;
  readonly random: Random;
  /** Coverage with what is journaled, at the grain of responses. */
  getCoverage(symbol: string): readonly CoveredWindow[];
  /** Times of the ticks that the archive has, journaled ones included; ascending, distinct. */
  loadTickTimes(symbol: string, window: Window): Promise<Float64Array>;
  nowMs(): number;
  /** Sends one request and makes durable what it brings; null where the service refuses it or fails. */
  requestPage(symbol: string, window: Window): Promise<Observation | null>;
  /** Makes durable that windows count as covered no more. */
  withdraw(symbol: string, windows: readonly Window[]): Promise<void>;
  /** Fetches windows of a service that was caught: every response is compared with narrower ones. */
  refetch(plans: readonly SymbolPlan[]): Promise<void>;
}

/** A settled window that brought ticks which the archive should have had. */
export interface Contradiction extends Window {
  readonly symbol: string;
  /** Coverage that was withdrawn for it. */
  readonly withdrawn: readonly Window[];
  /** New ticks of these windows once they were fetched again. */
  readonly ticks: number;
  /** How late they were at least, in ms; null where they were left out, or nobody can tell. */
  readonly latenessMs: number | null;
  /** When the latest of the responses that claimed these ticks' moments was generated, epoch ms. */
  readonly fetchedAt: number;
  /** Whether the service left the ticks out, though it had them: `proven` by a wide response without them. */
  readonly isLeftOut: boolean;
  readonly isProven: boolean;
}

export interface RecheckResult {
  readonly requests: number;
  readonly windows: number;
  /** Ticks that the rechecked windows brought, and those of them that were new. */
  readonly seen: number;
  readonly found: number;
  readonly contradictions: readonly Contradiction[];
}

/** How many times as many windows are rechecked at most where some of them contradict. */
const sampleGrowthMax = 32;
/** How many further windows a contradiction is worth at least. */
const sampleGrowthMin = 8;
/** Contradictions after which a run knows enough: what is left is to read again what is in doubt. */
const contradictionsMax = 8;
/** Requests in a row that the service may refuse before it is asked no more. */
const refusedRequestsMax = 8;
/** How often a draw may fail to find anything settled, for each window. */
const drawsMax = 8;

/**
 * Reads a sample of settled windows again, with bounds and widths of its own. What brings ticks that the archive should
 * have had is withdrawn and fetched again; the sample is doubled then, by eight windows at least, up to 32 times its size,
 * eight contradictions, or the proof that the service leaves ticks out: more would teach nothing new.
 * @param windows how many to recheck
 */
export async function recheck(context: RecheckContext, windows: number): Promise<RecheckResult> {
  const contradictions: Contradiction[] = [];
  const sum = { requests: 0, windows: 0, seen: 0, found: 0 };
  let wanted = windows;
  let refused = 0;
  for (let drawn = 0; drawn < wanted * drawsMax && sum.requests < wanted; drawn++) {
    const one = await drawWindow(context);
    if (one === null) continue;
    const { symbol, window, coverage } = one;
    const known = new Set(await context.loadTickTimes(symbol, window));
    sum.requests++;
    const o = await context.requestPage(symbol, window);
    refused = o === null ? refused + 1 : 0;
    if (refused >= refusedRequestsMax) break;
    if (o === null) continue;
    sum.windows++;
    sum.seen += o.times.length;
    const found = [...o.times].filter((t) => !known.has(t) && coverage.some((w) => isWithin(t, w)));
    if (found.length === 0) continue;
    sum.found += found.length;
    const contradiction = await resolveContradiction(context, symbol, window, coverage, found);
    contradictions.push(contradiction);
    if (contradiction.isProven || contradictions.length >= contradictionsMax) break;
    wanted = Math.min(windows * sampleGrowthMax, Math.max(wanted * 2, sum.windows + sampleGrowthMin));
  }
  return { ...sum, contradictions };
}

interface DrawnWindow {
  readonly symbol: string;
  readonly window: Window;
  /** What polls and backfills covered of the symbol. */
  readonly coverage: readonly CoveredWindow[];
}

/** Draws a window; null where the symbol drawn has nothing that is settled there. */
async function drawWindow({
  symbols,
  settleMs,
  endMs,
  random,
  ...context
}: RecheckContext): Promise<DrawnWindow | null> {
  const symbol = drawSymbol(symbols, random);
  if (symbol === null) return null;
  const coverage = context
    .getCoverage(symbol)
    .filter(({ origin, from }) => origin !== 'import' && from < endMs)
    .map((w) => ({ ...w, to: Math.min(w.to, endMs) }));
  const moment = drawMoment(coverage, settleMs, random);
  if (moment === null) return null;
  const times = await context.loadTickTimes(symbol, computeTickReach(moment));
  return { symbol, window: placeWindow(moment, coverage, settleMs, times, random), coverage };
}

/** Withdraws the days of coverage that a window contradicts, fetches them again, and judges by what came. */
async function resolveContradiction(
  context: RecheckContext,
  symbol: string,
  window: Window,
  coverage: readonly CoveredWindow[],
  found: readonly number[],
): Promise<Contradiction> {
  const withdrawn = listCoveredDays(coverage, found);
  const span = { from: withdrawn[0]!.from, to: withdrawn.at(-1)!.to };
  const isNew = new Set(found);
  const before = new Set([...(await context.loadTickTimes(symbol, span))].filter((t) => !isNew.has(t)));
  const relapse = await compareWithWideResponse(context, symbol, coverage, found);
  await context.withdraw(symbol, withdrawn);
  await context.refetch([{ symbol, windows: union(withdrawn), isFirst: false }]);
  const fresh = [...(await context.loadTickTimes(symbol, span))].filter((t) => !before.has(t));
  const judged =
    relapse === 'late' ? { ...judgeNewTicks(coverage, fresh), isLeftOut: false } : judgeNewTicks(coverage, fresh);
  const isProven = relapse === 'left out';
  const claims = coverage.filter((w) => found.some((t) => isWithin(t, w)));
  const fetchedAt = claims.reduce((max, w) => Math.max(max, w.fetchedAt), 0);
  const verdict = isProven ? { isLeftOut: true, latenessMs: null } : judged;
  return { symbol, from: window.from, to: window.to, withdrawn, ticks: fresh.length, fetchedAt, ...verdict, isProven };
}

/**
 * Requests all from where the response that claimed the ticks began up to now. What is a contiguous run brings each of
 * them that lies between its first and last tick: they were late. Where one is left out again, the service samples, or
 * joins two sources.
 */
async function compareWithWideResponse(
  context: RecheckContext,
  symbol: string,
  coverage: readonly CoveredWindow[],
  found: readonly number[],
): Promise<'late' | 'left out' | 'unknown'> {
  const from = Math.min(...found.map((t) => findResponse(coverage, t)?.from ?? t));
  const o = await context.requestPage(symbol, { from, to: context.nowMs() });
  if (o === null || o.times.length === 0) return 'unknown';
  const brought = new Set(o.times);
  const inside = found.filter((t) => o.times[0]! <= t && t <= o.times.at(-1)!);
  if (inside.some((t) => !brought.has(t))) return 'left out';
  return inside.length === found.length ? 'late' : 'unknown';
}

/** The latest response that claimed a moment: when it was generated, and from where on it and its pages reached. */
function findResponse(coverage: readonly CoveredWindow[], t: number): { fetchedAt: number; from: number } | null {
  const claims = coverage.filter((w) => isWithin(t, w));
  if (claims.length === 0) return null;
  const fetchedAt = claims.reduce((max, w) => Math.max(max, w.fetchedAt), 0);
  const pages = union(coverage.filter((w) => Math.abs(w.fetchedAt - fetchedAt) < distinguishableMsMin));
  return { fetchedAt, from: Math.max(fetchedAt - separateResponsesMs, pages.find((w) => isWithin(t, w))!.from) };
}

/** In responses that go back so far, late ticks and left-out ones can be told apart by where they lie. */
const distinguishableMsMin = dayMs / 4;

/**
 * Judges new ticks inside coverage. A late tick was not there yet when its response was generated: it lies shortly before
 * that moment, and how long before is the least that it was late. A service that leaves ticks out does so anywhere.
 * @param times of the new ticks, epoch ms
 */
export function judgeNewTicks(
  coverage: readonly CoveredWindow[],
  times: readonly number[],
): Pick<Contradiction, 'latenessMs' | 'isLeftOut'> {
  const newest = coverage.reduce((max, { fetchedAt }) => Math.max(max, fetchedAt), Number.NEGATIVE_INFINITY);
  let [latenessMs, isLeftOut, isTold] = [0, false, false];
  for (const t of times) {
    const response = findResponse(coverage, t);
    // Responses of long ago are joined: when each was generated is not known any more.
    if (response === null || t <= newest - separateResponsesMs) continue;
    const { fetchedAt } = response;
    const spanMs = fetchedAt - response.from;
    const isFar = fetchedAt - t > Math.min(spanMs, dayMs) / 2;
    isTold = true;
    isLeftOut ||= isFar;
    if (!isFar || spanMs < distinguishableMsMin) latenessMs = Math.max(latenessMs, fetchedAt - t);
  }
  if (!isTold) return { latenessMs: null, isLeftOut: true };
  return { latenessMs: latenessMs === 0 ? null : latenessMs, isLeftOut };
}

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
