import { type CoveredWindow, isProven } from '../../archive/format/coverage.ts';
import {
  cleanWindowsMin,
  findDoubtfulWindows,
  type RecheckHistory,
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
  drawSymbol,
  drawTime,
  listCoveredDays,
  placeWindow,
  type RecheckCandidate,
} from './recheck-plan.ts';

/** Dependencies and limits of rechecks. */
interface RecheckContext {
  readonly symbols: readonly RecheckCandidate[];
  /** End of the range that is rechecked, exclusive, epoch ms. */
  readonly endMs: number;
  readonly random: Random;
  /** Coverage including the journal, one window per response. */
  getCoverage(symbol: string): readonly CoveredWindow[];
  /** Times of the ticks in the archive and the journal, ascending and distinct. */
  loadTickTimes(symbol: string, window: Window): Promise<Float64Array>;
  nowMs(): number;
  /** Sends one request and makes its ticks durable. Null if the service refuses it or fails. */
  requestPage(symbol: string, window: Window): Promise<Observation | null>;
  /** Makes the withdrawal of windows from coverage durable. */
  withdraw(symbol: string, windows: readonly Window[]): Promise<void>;
  /** Fetches windows again, and compares each response with narrower ones. */
  refetch(plans: readonly SymbolPlan[]): Promise<void>;
}

/** A proven window that returned ticks missing from the archive. */
interface Contradiction extends Window {
  readonly symbol: string;
  /** Coverage that was withdrawn because of it. */
  readonly withdrawn: readonly Window[];
  /** Minimum lateness of the new ticks, in ms. Null if they were omitted, or if it is unknown. */
  readonly latenessMs: number | null;
  /** Generation time of the latest response that covered these ticks, epoch ms. */
  readonly fetchedAt: number;
  /** Whether the server omitted the ticks although it had them. `isProven`: a wide response without them proves it. */
  readonly isLeftOut: boolean;
  readonly isProven: boolean;
}

interface RecheckResult {
  readonly requests: number;
  readonly windows: number;
  /** Ticks in the rechecked windows, and how many of them were new. */
  readonly seen: number;
  readonly found: number;
  readonly contradictions: readonly Contradiction[];
}

/** Maximum factor by which the sample grows after contradictions. */
const sampleGrowthMax = 32;
/** Minimum number of further windows after a contradiction. */
const sampleGrowthMin = 8;
/**
 * Number of contradictions after which the recheck stops. More would show nothing new; the doubtful windows are fetched
 * again.
 */
const contradictionsMax = 8;
/** Number of consecutive refused or failed requests after which the recheck stops. */
const refusedRequestsMax = 8;
/** Maximum number of draws per window. Some draws find no proven window. */
const drawsMax = 8;

/**
 * Fetches a random sample of proven windows again, with bounds and widths different from before. If a window returns
 * ticks missing from the archive, its coverage is withdrawn and fetched again. The sample then doubles, by at least
 * eight windows, up to 32 times its size. Stops after eight contradictions, or a proof that the server omits ticks.
 * @param windows number of windows to recheck
 */
export async function recheck(context: RecheckContext, windows: number): Promise<RecheckResult> {
  const contradictions: Contradiction[] = [];
  const totals = { requests: 0, windows: 0, seen: 0, found: 0 };
  let windowsPlanned = windows;
  let refusals = 0;
  for (let drawn = 0; drawn < windowsPlanned * drawsMax && totals.requests < windowsPlanned; drawn++) {
    const drawnWindow = await drawWindow(context);
    if (drawnWindow === null) continue;
    const { symbol, window, coverage } = drawnWindow;
    const known = new Set(await context.loadTickTimes(symbol, window));
    totals.requests++;
    const o = await context.requestPage(symbol, window);
    refusals = o === null ? refusals + 1 : 0;
    if (refusals >= refusedRequestsMax) break;
    if (o === null) continue;
    totals.windows++;
    totals.seen += o.times.length;
    const newTimes = [...o.times].filter((t) => !known.has(t) && coverage.some((w) => isWithin(t, w)));
    if (newTimes.length === 0) continue;
    totals.found += newTimes.length;
    const contradiction = await resolveContradiction(context, symbol, window, coverage, newTimes);
    contradictions.push(contradiction);
    if (contradiction.isProven || contradictions.length >= contradictionsMax) break;
    windowsPlanned = Math.min(
      windows * sampleGrowthMax,
      Math.max(windowsPlanned * 2, totals.windows + sampleGrowthMin),
    );
  }
  return { ...totals, contradictions };
}

interface DrawnWindow {
  readonly symbol: string;
  readonly window: Window;
  /** The symbol's coverage by polls and backfills. */
  readonly coverage: readonly CoveredWindow[];
}

/** Draws a window. Null if the drawn symbol has no proven coverage. */
async function drawWindow({ symbols, endMs, random, ...context }: RecheckContext): Promise<DrawnWindow | null> {
  const symbol = drawSymbol(symbols, random);
  if (symbol === null) return null;
  const coverage = context
    .getCoverage(symbol)
    .filter(({ origin, from }) => origin !== 'import' && from < endMs)
    .map((w) => ({ ...w, to: Math.min(w.to, endMs) }));
  const proven = coverage.filter(isProven);
  const moment = drawTime(proven, random);
  if (moment === null) return null;
  const times = await context.loadTickTimes(symbol, computeTickReach(moment));
  return { symbol, window: placeWindow(moment, proven, times, random), coverage };
}

/** Withdraws the days of coverage that a window contradicts, fetches them again, and evaluates the new ticks. */
async function resolveContradiction(
  context: RecheckContext,
  symbol: string,
  window: Window,
  coverage: readonly CoveredWindow[],
  newTimes: readonly number[],
): Promise<Contradiction> {
  const withdrawn = listCoveredDays(coverage, newTimes);
  const span = { from: withdrawn[0]!.from, to: withdrawn.at(-1)!.to };
  const isNew = new Set(newTimes);
  const knownBefore = new Set([...(await context.loadTickTimes(symbol, span))].filter((t) => !isNew.has(t)));
  const wideResult = await compareWithWideResponse(context, symbol, coverage, newTimes);
  await context.withdraw(symbol, withdrawn);
  await context.refetch([{ symbol, windows: union(withdrawn), isFirst: false }]);
  const newTicks = [...(await context.loadTickTimes(symbol, span))].filter((t) => !knownBefore.has(t));
  const judgement =
    wideResult === 'late'
      ? { ...classifyNewTicks(coverage, newTicks), isLeftOut: false }
      : classifyNewTicks(coverage, newTicks);
  const isProven = wideResult === 'left out';
  const claims = coverage.filter((w) => newTimes.some((t) => isWithin(t, w)));
  const fetchedAt = claims.reduce((max, w) => Math.max(max, w.fetchedAt), 0);
  const finding = isProven ? { isLeftOut: true, latenessMs: null } : judgement;
  return { symbol, from: window.from, to: window.to, withdrawn, fetchedAt, ...finding, isProven };
}

/**
 * Requests one window from the start of the response that covered the new ticks up to now. If this response contains
 * all of them, they were late. If it omits one between its first and last tick, the server samples or joins two
 * sources.
 */
async function compareWithWideResponse(
  context: RecheckContext,
  symbol: string,
  coverage: readonly CoveredWindow[],
  newTimes: readonly number[],
): Promise<'late' | 'left out' | 'unknown'> {
  const from = Math.min(...newTimes.map((t) => findResponse(coverage, t)?.from ?? t));
  const o = await context.requestPage(symbol, { from, to: context.nowMs() });
  if (o === null || o.times.length === 0) return 'unknown';
  const returnedTimes = new Set(o.times);
  const inside = newTimes.filter((t) => o.times[0]! <= t && t <= o.times.at(-1)!);
  if (inside.some((t) => !returnedTimes.has(t))) return 'left out';
  return inside.length === newTimes.length ? 'late' : 'unknown';
}

/** The latest response that covered a time: its generation time, and the start of the range that its pages cover. */
function findResponse(coverage: readonly CoveredWindow[], t: number): { fetchedAt: number; from: number } | null {
  const claims = coverage.filter((w) => isWithin(t, w));
  if (claims.length === 0) return null;
  const fetchedAt = claims.reduce((max, w) => Math.max(max, w.fetchedAt), 0);
  const pages = union(coverage.filter((w) => Math.abs(w.fetchedAt - fetchedAt) < distinguishableMsMin));
  return { fetchedAt, from: Math.max(fetchedAt - separateResponsesMs, pages.find((w) => isWithin(t, w))!.from) };
}

/** Minimum span of a response, in ms, from which late ticks can be told from omitted ones by their position. */
const distinguishableMsMin = dayMs / 4;

/**
 * Evaluates new ticks inside coverage. A late tick was not available when its response was generated: it lies shortly before
 * that time, and the difference is its minimum lateness. A server that omits ticks does so anywhere.
 * @param times of the new ticks, epoch ms
 */
export function classifyNewTicks(
  coverage: readonly CoveredWindow[],
  times: readonly number[],
): Pick<Contradiction, 'latenessMs' | 'isLeftOut'> {
  const newest = coverage.reduce((max, { fetchedAt }) => Math.max(max, fetchedAt), Number.NEGATIVE_INFINITY);
  let [latenessMs, isLeftOut, isTold] = [0, false, false];
  for (const t of times) {
    const response = findResponse(coverage, t);
    // Coverage by old responses is joined: their generation times are unknown.
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

/** Dependencies and limits of a night of rechecks. */
export interface RecheckNightContext extends RecheckContext {
  /** Requests of the run so far. */
  countRequests(): number;
  /** Records that windows of one origin are only inferred. They are durable when it returns. */
  demote(symbol: string, windows: readonly CoveredWindow[]): void;
}

interface RecheckLimits {
  /** Number of windows to recheck; see `countRechecks`. */
  readonly windows: number;
  /** Request limit for doubtful windows, in addition to those contradicted tonight. */
  readonly rereadRequestsMax: number;
  /** The overlap of a poll according to recheck results, in ms. */
  computeOverlapMs(memory: RecheckHistory): number;
}

/** The result of a night of rechecks. Times in ms. */
export interface RecheckNightOutcome extends RecheckNight {
  readonly requests: number;
  /** Windows that lost their coverage, or are only inferred from now on. */
  readonly withdrawn: number;
  /** Doubtful windows that were fetched again, and those that remain for the next nights. */
  readonly reread: number;
  readonly doubtful: number;
  readonly latenessMs: number;
  readonly memory: RecheckHistory;
}

/** Doubtful windows per batch: the first batch, and the maximum. Later batches are as large as the remaining requests allow. */
const rereadWindowsFirst = 2;
const rereadWindowsMax = 64;

/**
 * Rechecks a sample, and fetches again the windows that the results of this night and of earlier nights put in doubt.
 * @param isPagingContradicted whether responses contradicted each other while this run polled
 */
export async function recheckNight(
  context: RecheckNightContext,
  memory: RecheckHistory,
  limits: RecheckLimits,
  isPagingContradicted: boolean,
): Promise<RecheckNightOutcome> {
  const requestsBefore = context.countRequests();
  const at = context.nowMs();
  const { contradictions, windows, seen, found } = await recheck(context, limits.windows);
  // A contradiction of coverage that was already doubtful shows nothing new.
  const isNews = ({ fetchedAt }: { readonly fetchedAt: number }): boolean => fetchedAt >= (memory.caughtAt ?? 0);
  const leftOutNews = contradictions.filter((contradiction) => contradiction.isLeftOut && isNews(contradiction));
  const latenessMs = contradictions.reduce((max, contradiction) => Math.max(max, contradiction.latenessMs ?? 0), 0);
  const nightCounts = {
    at,
    windows,
    contradicted: contradictions.length,
    leftOut: leftOutNews.length,
    seen,
    found,
  };
  const isProven = leftOutNews.some((contradiction) => contradiction.isProven);
  let updatedMemory = recordRechecks(memory, { ...nightCounts, latenessMs, isProven, isPagingContradicted });
  let withdrawn = contradictions.reduce((count, contradiction) => count + contradiction.withdrawn.length, 0);
  if (updatedMemory.caughtAt !== memory.caughtAt) {
    updatedMemory = { ...updatedMemory, caughtAt: Math.max(at, findNewestFetchedAt(context, contradictions) + 1) };
    withdrawn += demoteAll(context, updatedMemory.caughtAt!);
  }
  const { reread, doubtful } = await rereadDoubtful(context, updatedMemory, limits);
  const isTrusted = updatedMemory.cleanWindows >= cleanWindowsMin && doubtful === 0;
  return {
    ...nightCounts,
    requests: context.countRequests() - requestsBefore,
    withdrawn,
    reread,
    doubtful,
    latenessMs,
    memory: isTrusted ? { ...updatedMemory, caughtAt: null } : updatedMemory,
  };
}

/** Generation time of the latest response, except for those of withdrawn windows, by the service's clock. Epoch ms. */
function findNewestFetchedAt(context: RecheckNightContext, contradictions: readonly Contradiction[]): number {
  let newest = 0;
  for (const { symbol } of context.symbols) {
    const refetched = contradictions
      .filter((contradiction) => contradiction.symbol === symbol)
      .flatMap(({ withdrawn }) => withdrawn);
    for (const w of context.getCoverage(symbol)) if (!covers(refetched, w)) newest = Math.max(newest, w.fetchedAt);
  }
  return newest;
}

/** Demotes coverage by responses before `caughtAt` to inferred, but not what is older than `since`. Returns the number of windows. */
export function demoteAll(
  context: Pick<RecheckNightContext, 'symbols' | 'getCoverage' | 'demote'>,
  caughtAt: number,
  since = Number.NEGATIVE_INFINITY,
): number {
  let count = 0;
  for (const { symbol } of context.symbols) {
    const proven = context
      .getCoverage(symbol)
      .filter((w) => isProven(w) && w.origin !== 'import' && w.fetchedAt < caughtAt)
      .map((w) => ({ ...w, from: w.fetchedAt >= since ? w.from : Math.max(w.from, since) }))
      .filter((w) => !isEmpty(w));
    for (const ofOrigin of Map.groupBy(proven, ({ origin }) => origin).values()) context.demote(symbol, ofOrigin);
    count += proven.length;
  }
  return count;
}

/** Fetches doubtful windows again, the latest of all symbols first, until the request limit is reached. */
async function rereadDoubtful(
  context: RecheckNightContext,
  memory: RecheckHistory,
  { computeOverlapMs, rereadRequestsMax }: RecheckLimits,
): Promise<{ reread: number; doubtful: number }> {
  // Older responses cannot be distinguished.
  const isLateNews = memory.lateAt !== null && context.nowMs() - memory.lateAt < separateResponsesMs;
  if (memory.caughtAt === null && !isLateNews) return { reread: 0, doubtful: 0 };
  const overlapMs = computeOverlapMs(memory);
  const doubtful = context.symbols.flatMap(({ symbol }) =>
    findDoubtfulWindows(context.getCoverage(symbol), memory, overlapMs).flatMap(
      (w): (Window & { symbol: string })[] => {
        const part = intersectTwo(w, { from: Number.NEGATIVE_INFINITY, to: context.endMs });
        return isEmpty(part) ? [] : [{ ...part, symbol }];
      },
    ),
  );
  doubtful.sort((a, b) => b.to - a.to);
  const requestsBefore = context.countRequests();
  let reread = 0;
  for (;;) {
    const used = context.countRequests() - requestsBefore;
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

/** The journal entry that turns windows of one origin into inferred ones. */
export const createDemotion = (
  windows: readonly CoveredWindow[],
): { withdrawn: Window[]; covered: Omit<CoveredWindow, 'origin'>[] } => ({
  withdrawn: windows.map(({ from, to }) => ({ from, to })),
  covered: windows.map(({ from, to, fetchedAt }) => ({ from, to, fetchedAt, evidence: 'inferred' as const })),
});
