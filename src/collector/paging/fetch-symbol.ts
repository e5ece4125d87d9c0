import type { CoveredWindow } from '../../archive/format/coverage.ts';
import { precedenceRanks } from '../../archive/format/precedence.ts';
import type { TickRecord } from '../../archive/journal/journal.ts';
import { UpstreamError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { emptyTicks } from '../../base/ticks.ts';
import { intersect, type Window } from '../../base/window.ts';
import type { Upstream } from '../../client/upstream.ts';
import type { Origin, TickRequestPurpose } from '../../contract/raw-page.ts';
import {
  type FetchOptions,
  type FetchStep,
  findStalePart,
  joinUnservedWindows,
  toStatedGap,
  type UnservedWindow,
} from './fetch-steps.ts';
import { fetchWindow } from './fetch-window.ts';
import { type Observation, observePage } from './observation.ts';
import { noteEdges, type ServerBehavior, toRequestedWindow } from './server-behavior.ts';
import {
  isSizeRefusal,
  noteAcceptedSize,
  partitionOlder,
  planSmallerRequests,
  type SymbolResponses,
  splitToLength,
  type WindowRequest,
} from './window-bisection.ts';

/** What covering windows needs from outside. */
export interface FetchContext {
  readonly upstream: Pick<Upstream, 'ticks'>;
  readonly clock: Clock;
  readonly runId: string;
  readonly origin: Origin;
  readonly behavior: ServerBehavior;
  /** Ticks asked for in one request. */
  readonly pageLimit: number;
  readonly futureSkewMs: number;
  readonly signal: AbortSignal;
  /** Makes a response durable; resolves when it may go on. */
  append(record: TickRecord): Promise<void>;
  onPage(ticks: number): void;
}

/** A response without ticks: what it proves shows only once others were asked. */
export interface EmptyResponse extends Window {
  readonly symbol: string;
  readonly observedAt: number;
  /** The request began at a tick that the service brought before, and does not bring now. */
  readonly lacksKnownTick: boolean;
}

export interface FetchOutcome {
  readonly empties: readonly EmptyResponse[];
  /** Windows taken for whole by the sizes of their pages alone. */
  readonly presumed: readonly Window[];
  /** Windows that the service does not bring, with the reason. */
  readonly lost: readonly UnservedWindow[];
}

/** A window, and how it is fetched. */
export interface FetchPlan extends Window {
  readonly options: FetchOptions;
}

/**
 * Fetches windows of a symbol and makes durable what came and what it proves. Rejects with UpstreamError.
 * @param empties receives the empty responses as they come: they count, though a later request fails
 */
export async function fetchSymbol(
  context: FetchContext,
  symbol: string,
  windows: readonly FetchPlan[],
  empties: EmptyResponse[] = [],
): Promise<FetchOutcome> {
  const presumed: Window[] = [];
  const lost: UnservedWindow[] = [];
  const heard: SymbolResponses = { responses: 0, refusal: null };
  for (const { from, to, options } of windows) {
    const asks: WindowRequest[] = [{ from, to }];
    while (asks.length > 0) {
      const ask = asks.shift()!;
      const cut = splitToLength(context.behavior, ask);
      if (cut !== undefined) {
        asks.unshift(...cut);
        continue;
      }
      // Only the part that begins where the plan does begins after the known tick.
      const how = ask.from === from ? options : { ...options, knownTick: null };
      const refusal = await fetchOneWindow(context, symbol, ask, how, heard, { empties, presumed, lost });
      if (refusal === null) continue;
      heard.refusal ??= refusal;
      const limit = Math.min(context.pageLimit, context.behavior.limit);
      const parts = await planSmallerRequests(context, symbol, ask, limit, heard);
      if (parts === null) lost.push(...giveUpRefused(context.behavior, ask, asks, refusal));
      else asks.unshift(...parts);
    }
  }
  // Refused whatever was asked: that is about the symbol.
  if (heard.responses === 0 && heard.refusal !== null) throw heard.refusal;
  return { empties, presumed, lost: joinUnservedWindows(lost) };
}

interface MutableFetchOutcome {
  readonly empties: EmptyResponse[];
  readonly presumed: Window[];
  readonly lost: UnservedWindow[];
}

/** Fetches one window; resolves to the error where its first request was refused, for how much it asks for or how old it is. */
async function fetchOneWindow(
  context: FetchContext,
  symbol: string,
  ask: WindowRequest,
  options: FetchOptions,
  heard: SymbolResponses,
  outcome: MutableFetchOutcome,
): Promise<UpstreamError | null> {
  const { behavior, clock } = context;
  const fetch = fetchWindow(behavior, ask, options);
  const journal = openRecordBuffer(context, symbol, ask);
  let isFirst = true;
  let answer: Observation | null | undefined;
  for (;;) {
    const { value: step, done } = fetch.next(answer);
    answer = undefined;
    if (done === true) break;
    if (step.kind === 'claim')
      await journal.claim({ ...step.window, fetchedAt: step.observedAt, evidence: step.evidence });
    else if (step.kind === 'withdraw') await journal.withdraw(step.window);
    else if (step.kind === 'gap')
      outcome.lost.push({ ...step.window, reason: step.reason, ...(step.isTooOld && { isTooOld: true }) });
    else if (step.kind === 'presumed') outcome.presumed.push(step.window);
    else if (step.kind === 'pause') await clock.sleep(pauseMs);
    else if (step.kind === 'empty') {
      const { window, observedAt, lacksKnownTick } = step;
      outcome.empties.push({ symbol, from: window.from, to: window.to, observedAt, lacksKnownTick });
    } else {
      await journal.flush();
      const limit = Math.min(context.pageLimit, behavior.limit);
      const response = await sendPageRequest(context, symbol, step, limit);
      if (response instanceof UpstreamError) {
        if (isFirst) return response;
        answer = null;
        continue;
      }
      const { observation, record, gaps } = response;
      journal.hold(record);
      heard.responses++;
      for (const window of gaps) outcome.lost.push(toStatedGap(window));
      if (isFirst) {
        noteAcceptedSize(behavior, ask, limit);
        const lag = findStalePart(ask, observation.observedAt);
        if (lag !== null) outcome.lost.push(lag);
      }
      isFirst = false;
      answer = observation;
    }
  }
  await journal.flush();
  return null;
}

/** How long the clock is given to move on, in ms: responses of one moment are one observation. */
const pauseMs = 2;

/** Sends one request; the error where the service may have refused how much was asked for, or how old it is. */
async function sendPageRequest(
  context: FetchContext,
  symbol: string,
  {
    window,
    side,
    isExact,
  }: Pick<Extract<FetchStep, { kind: 'request' }>, 'window' | 'isExact'> & { side: TickRequestPurpose['kind'] },
  limit: number,
): Promise<{ observation: Observation; record: TickRecord; gaps: Window[] } | UpstreamError> {
  const { behavior, clock, signal, origin } = context;
  // A tick that has to come again shows by itself whether the start is included.
  const requested = toRequestedWindow(behavior, window, isExact);
  const sentAt = clock.nowMs();
  const meaning: TickRequestPurpose = { origin, asked: { from: window.from, to: window.to }, kind: side };
  const query = { symbol, ...requested, limit, askedAt: sentAt, meaning };
  const page = await context.upstream.ticks(query, signal).catch((error: unknown) => {
    if (isSizeRefusal(error)) return error;
    throw error;
  });
  if (page instanceof UpstreamError) return page;
  noteEdges(behavior, requested, page.t);
  const futureMs = clock.nowMs() + context.futureSkewMs;
  const { observation, ticks, rejected } = observePage(page, window, { requested, limit, sentAt, futureMs });
  context.onPage(ticks.t.length);
  const record = { ...createEmptyRecord(context, symbol, window, observation.observedAt), ticks, rejected };
  return { observation, record, gaps: intersect(page.gaps, [window]) };
}

/**
 * Requests a window once and makes durable what it brings; claims nothing of it. Null where the service may have refused
 * how much was asked for, or how old it is. Rejects with UpstreamError.
 */
export async function requestOnce(context: FetchContext, symbol: string, window: Window): Promise<Observation | null> {
  const step = { window, side: 'recheck', isExact: false } as const;
  const response = await sendPageRequest(context, symbol, step, Math.min(context.pageLimit, context.behavior.limit));
  if (response instanceof UpstreamError) return null;
  await context.append(response.record);
  return response.observation;
}

const createEmptyRecord = (context: FetchContext, symbol: string, asked: Window, observedAt: number): TickRecord => ({
  runId: context.runId,
  symbol,
  requestedWindow: { from: asked.from, to: asked.to },
  observedAt,
  origin: context.origin,
  rank: precedenceRanks.poll,
  ticks: emptyTicks,
  rejected: [],
  covered: [],
});

/** Makes claims durable, with the response before them or after it: never before the ticks that they speak of. */
function openRecordBuffer(context: FetchContext, symbol: string, ask: Window) {
  let held: TickRecord | null = null;
  let covered: Omit<CoveredWindow, 'origin'>[] = [];
  async function flush(): Promise<void> {
    if (held === null) return;
    const record = { ...held, covered };
    held = null;
    covered = [];
    await context.append(record);
  }
  return {
    flush,
    hold(record: TickRecord): void {
      held = record;
    },
    async claim(claim: Omit<CoveredWindow, 'origin'>): Promise<void> {
      held ??= createEmptyRecord(context, symbol, ask, claim.fetchedAt);
      covered.push(claim);
    },
    async withdraw(window: Window): Promise<void> {
      await flush();
      held = { ...createEmptyRecord(context, symbol, ask, context.clock.nowMs()), withdrawn: [window] };
      await flush();
    },
  };
}

/** Makes durable what empty responses prove. */
export async function claimEmptyResponse(
  context: FetchContext,
  empty: EmptyResponse,
  oldestTick: number,
): Promise<void> {
  const { symbol, from, to, observedAt, lacksKnownTick } = empty;
  const base = { fetchedAt: observedAt };
  // What is older than anything that the service ever showed may be gone there.
  const since = lacksKnownTick ? to : Math.max(from, Math.min(to, oldestTick));
  const covered = [
    { from, to: since, evidence: 'inferred' as const, ...base },
    { from: since, to, evidence: 'confirmed' as const, ...base },
  ].filter((window) => window.from < window.to);
  if (covered.length > 0) await context.append({ ...createEmptyRecord(context, symbol, empty, observedAt), covered });
}

/** Gives up what was refused, and of what is still to be asked what is older: a refusal of its age is remembered. */
function giveUpRefused(
  behavior: ServerBehavior,
  ask: WindowRequest,
  asks: WindowRequest[],
  { reason }: UpstreamError,
): UnservedWindow[] {
  const { older, rest } = partitionOlder(asks, ask);
  if (older.length > 0) behavior.refusedBefore = ask.to;
  asks.splice(0, asks.length, ...rest);
  // One that was refused whole may have been refused for anything; of parts the recent ones were answered.
  const isTooOld = ask.part !== undefined;
  return [ask, ...older].map(({ from, to }) => ({ from, to, reason, ...(isTooOld && { isTooOld }) }));
}
