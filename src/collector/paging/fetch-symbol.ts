import type { CoveredWindow, Evidence } from '../../archive/format/coverage.ts';
import { precedenceRanks } from '../../archive/format/precedence.ts';
import type { TickRecord } from '../../archive/journal/journal.ts';
import { UpstreamError } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { emptyTicks } from '../../base/ticks.ts';
import { intersect, isEmpty, isWithin, type Window } from '../../base/window.ts';
import type { Upstream } from '../../client/upstream.ts';
import type { Origin, TickRequestPurpose } from '../../contract/raw-page.ts';
import type { Edge } from '../proof/proven.ts';
import type { Night, Omission } from '../proof/shown.ts';
import {
  type Emptiness,
  type FetchOptions,
  type FetchStep,
  findStalePart,
  joinUnservedWindows,
  thinnedMsMin,
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

/** Dependencies and limits of a symbol fetch. */
export interface FetchContext {
  readonly upstream: Pick<Upstream, 'ticks'>;
  readonly clock: Clock;
  readonly runId: string;
  readonly origin: Origin;
  readonly behavior: ServerBehavior;
  /** Maximum number of ticks per request. */
  readonly pageLimit: number;
  readonly futureSkewMs: number;
  readonly signal: AbortSignal;
  /** What the responses of this run and source show. */
  readonly night: Night;
  /** Times of the ticks that the archive has of this source and that a response of its time must show; absent: none. Epoch ms. */
  loadKnownTimes?(symbol: string, window: Window, observedAt: number): Promise<Float64Array>;
  /** Withdraws what the source has proven, as a response left out a known tick. */
  onOmission?(omission: Omission): Promise<void>;
  /** The windows of which ticks and claims are kept; undefined: all. */
  keptOf?(symbol: string): readonly Window[] | undefined;
  /** Makes a response durable. Resolves when the next one may be appended. */
  append(record: TickRecord): Promise<void>;
  onPage(ticks: number): void;
}

/** A response without ticks. It can be evaluated only after other symbols have been requested. */
export interface EmptyResponse extends Window, Emptiness {
  readonly symbol: string;
}

export interface FetchOutcome {
  readonly empties: readonly EmptyResponse[];
  readonly edges: readonly Edge[];
  /** Windows that the service does not serve, with the reason. */
  readonly lost: readonly UnservedWindow[];
}

/** A window and the options for fetching it. */
export interface FetchPlan extends Window {
  readonly options: FetchOptions;
}

/**
 * Fetches windows of a symbol and makes the ticks and their coverage durable. Rejects with UpstreamError.
 * @param empties receives empty responses as they arrive, so that they count even if a later request fails
 */
export async function fetchSymbol(
  context: FetchContext,
  symbol: string,
  windows: readonly FetchPlan[],
  empties: EmptyResponse[] = [],
): Promise<FetchOutcome> {
  const edges: Edge[] = [];
  const lost: UnservedWindow[] = [];
  const responses: SymbolResponses = { responses: 0, refusal: null };
  for (const { from, to, options } of windows) {
    const queue: WindowRequest[] = [{ from, to }];
    while (queue.length > 0) {
      const request = queue.shift()!;
      const pieces = splitToLength(context.behavior, request);
      if (pieces !== undefined) {
        queue.unshift(...pieces);
        continue;
      }
      // After a split, only the first part begins after the known tick.
      const requestOptions = request.from === from ? options : { ...options, knownTick: null };
      const refusal = await fetchOneWindow(context, symbol, request, requestOptions, responses, {
        empties,
        edges,
        lost,
      });
      if (refusal === null) continue;
      responses.refusal ??= refusal;
      const limit = Math.min(context.pageLimit, context.behavior.limit);
      const parts = await planSmallerRequests(context, symbol, request, limit, responses);
      if (parts === null) lost.push(...giveUpRefused(context.behavior, request, queue, refusal));
      else queue.unshift(...parts);
    }
  }
  // Every request was refused, so the refusal concerns the symbol and not the windows.
  if (responses.responses === 0 && responses.refusal !== null) throw responses.refusal;
  return { empties, edges, lost: joinUnservedWindows(lost) };
}

interface MutableFetchOutcome {
  readonly empties: EmptyResponse[];
  readonly edges: Edge[];
  readonly lost: UnservedWindow[];
}

/**
 * Fetches one window. Returns the error if the server refused the first request, which may be due to its size or the
 * age of its window.
 */
async function fetchOneWindow(
  context: FetchContext,
  symbol: string,
  request: WindowRequest,
  options: FetchOptions,
  responses: SymbolResponses,
  outcome: MutableFetchOutcome,
): Promise<UpstreamError | null> {
  const { behavior } = context;
  const fetch = fetchWindow(behavior, request, options);
  const journal = openRecordBuffer(context, symbol, request);
  let isFirst = true;
  let lastObservation: Observation | null | undefined;
  for (;;) {
    const { value: step, done } = fetch.next(lastObservation);
    lastObservation = undefined;
    if (done === true) break;
    if (step.kind === 'claim')
      await journal.claim({ ...step.window, fetchedAt: step.observedAt, evidence: step.evidence });
    else if (step.kind === 'omission') await noteOmission(context, { symbol, t: step.t, at: step.at });
    else if (step.kind === 'withdraw') await journal.withdraw(step.window);
    else if (step.kind === 'gap')
      outcome.lost.push({ ...step.window, reason: step.reason, ...(step.isTooOld && { isTooOld: true }) });
    else if (step.kind === 'edge') {
      const { kind: _, ...edge } = step;
      outcome.edges.push({ symbol, ...edge });
    } else if (step.kind === 'empty') {
      const { kind: _, window, ...emptiness } = step;
      outcome.empties.push({ symbol, ...window, ...emptiness });
    } else {
      await journal.flush();
      const limit = Math.min(context.pageLimit, behavior.limit);
      const response = await sendPageRequest(context, symbol, step, limit);
      if (response instanceof UpstreamError) {
        if (isFirst) return response;
        lastObservation = null;
        continue;
      }
      const { observation, record, gaps } = response;
      if (isFirst && options.knownTick !== null) context.night.noteKnown(observation.times.length === 0);
      journal.hold(record);
      responses.responses++;
      for (const window of gaps) outcome.lost.push(toStatedGap(window));
      if (isFirst) {
        noteAcceptedSize(behavior, request, limit);
        const lag = findStalePart(request, observation.observedAt);
        if (lag !== null) outcome.lost.push(lag);
      }
      isFirst = false;
      lastObservation = observation;
    }
  }
  await journal.flush();
  return null;
}

/**
 * Sends one request. Returns the error if the server may have refused it because of its size or the age of its window.
 */
async function sendPageRequest(
  context: FetchContext,
  symbol: string,
  {
    window,
    side,
    isExact,
  }: Pick<Extract<FetchStep, { kind: 'request' }>, 'window' | 'isExact'> & { side: TickRequestPurpose['kind'] },
  limit: number,
  sent: Window = window,
): Promise<{ observation: Observation; record: TickRecord; gaps: Window[] } | UpstreamError> {
  const { behavior, clock, signal, origin } = context;
  // `isExact` omits the one-millisecond margin at each end that the server is known to include.
  const requested = toRequestedWindow(behavior, sent, isExact);
  const sentAt = clock.nowMs();
  const kept = context.keptOf?.(symbol);
  const parts = kept === undefined ? [window] : intersect([window], kept);
  const asked = { from: parts[0]?.from ?? window.to, to: parts.at(-1)?.to ?? window.to };
  const purpose: TickRequestPurpose = { origin, asked, kind: side };
  const query = { symbol, ...requested, limit, askedAt: sentAt, meaning: purpose };
  const page = await context.upstream.ticks(query, signal).catch((error: unknown) => {
    if (isSizeRefusal(error)) return error;
    throw error;
  });
  if (page instanceof UpstreamError) return page;
  noteEdges(behavior, requested, page.t);
  const futureMs = clock.nowMs() + context.futureSkewMs;
  const observed = observePage(page, window, { requested, limit, sentAt, futureMs });
  const { ticks, rejected } = observed;
  context.onPage(ticks.t.length);
  const observation = { ...observed.observation, isThinned: await noteShown(context, symbol, observed.observation) };
  const record = { ...createEmptyRecord(context, symbol, window, observation.observedAt), ticks, rejected };
  return { observation, record, gaps: intersect(page.gaps, [window]) };
}

/**
 * Notes what a response shows, unless it leaves out a tick that the archive knows between its first and last one: then the run proves
 * nothing. A server that was caught before may only thin out wide windows: then true, and a narrower one is to be requested, so that in
 * the end each known tick was shown.
 */
async function noteShown(context: FetchContext, symbol: string, o: Observation): Promise<boolean> {
  const { night, behavior } = context;
  const isHalved = behavior.omitsTicks && o.requested.to - o.requested.from > thinnedMsMin;
  const omitted = await findOmitted(context, symbol, o, isHalved ? o.claimableWindow : null);
  // Another response may have been compared meanwhile.
  if (omitted === null || night.omission !== null) night.note(symbol, o.shown, o.shownTimes, o.gaps);
  else if (isHalved) return true;
  else await noteOmission(context, { symbol, t: omitted, at: o.observedAt });
  return false;
}

async function noteOmission({ night, behavior, onOmission }: FetchContext, omission: Omission): Promise<void> {
  if (night.omission !== null) return;
  night.omission = omission;
  // The run proves nothing, however responses compare.
  behavior.omitsTicks = false;
  await onOmission?.(omission);
}

/** The first known tick that a response leaves out in a window, or between its first and last tick; epoch ms. */
async function findOmitted({ night, loadKnownTimes }: FetchContext, symbol: string, o: Observation, w: Window | null) {
  if (loadKnownTimes === undefined || o.times.length < 2 || night.omission !== null) return null;
  const between = w ?? { from: o.times[0]! + 1, to: o.times.at(-1)! };
  const shown = new Set(o.times);
  const omitted = (await loadKnownTimes(symbol, between, o.observedAt)).filter(
    (t) => !shown.has(t) && !o.gaps.some((gap) => isWithin(t, gap)),
  );
  // Each rejected row may be one of them.
  return omitted.length > o.rejected ? omitted[0]! : null;
}

/**
 * Requests a window once and makes the ticks durable, without a claim. Returns null if the server may have refused the
 * request because of its size or the age of the window. Rejects with UpstreamError.
 * @param sent a longer window to request, of which the rest only shows how far the server reaches
 */
export async function requestWindow(
  context: FetchContext,
  symbol: string,
  window: Window,
  sent: Window = window,
): Promise<Observation | null> {
  const step = { window, side: 'recheck', isExact: false } as const;
  const limit = Math.min(context.pageLimit, context.behavior.limit);
  const response = await sendPageRequest(context, symbol, step, limit, sent);
  if (response instanceof UpstreamError) return null;
  await context.append(response.record);
  return response.observation;
}

export const createEmptyRecord = (
  context: Pick<FetchContext, 'runId' | 'origin'>,
  symbol: string,
  window: Window,
  observedAt: number,
): TickRecord => ({
  runId: context.runId,
  symbol,
  requestedWindow: { from: window.from, to: window.to },
  observedAt,
  origin: context.origin,
  rank: precedenceRanks.poll,
  ticks: emptyTicks,
  rejected: [],
  covered: [],
});

/** Buffers claims and appends them together with their response, never before the ticks that they cover. */
function openRecordBuffer(context: FetchContext, symbol: string, request: Window) {
  let heldRecord: TickRecord | null = null;
  let covered: Omit<CoveredWindow, 'origin'>[] = [];
  async function flush(): Promise<void> {
    if (heldRecord === null) return;
    const record = { ...heldRecord, covered };
    heldRecord = null;
    covered = [];
    await context.append(record);
  }
  return {
    flush,
    hold(record: TickRecord): void {
      heldRecord = record;
    },
    async claim(claim: Omit<CoveredWindow, 'origin'>): Promise<void> {
      heldRecord ??= createEmptyRecord(context, symbol, request, claim.fetchedAt);
      covered.push(claim);
    },
    async withdraw(window: Window): Promise<void> {
      await flush();
      heldRecord = { ...createEmptyRecord(context, symbol, request, context.clock.nowMs()), withdrawn: [window] };
      await flush();
    },
  };
}

/** Makes durable what a response covers, of which nothing else is known. */
export async function claimWindow(
  context: FetchContext,
  symbol: string,
  window: Window,
  observedAt: number,
  evidence: Evidence,
): Promise<void> {
  const covered = [{ from: window.from, to: window.to, fetchedAt: observedAt, evidence }];
  if (!isEmpty(window)) await context.append({ ...createEmptyRecord(context, symbol, window, observedAt), covered });
}

/**
 * Abandons a rejected window and all older pending windows. Records the time before which the server refuses requests.
 */
function giveUpRefused(
  behavior: ServerBehavior,
  request: WindowRequest,
  queue: WindowRequest[],
  { reason }: UpstreamError,
): UnservedWindow[] {
  const { older, rest } = partitionOlder(queue, request);
  if (older.length > 0) behavior.refusedBefore = request.to;
  queue.splice(0, queue.length, ...rest);
  // The refusal of a whole window can have any cause. If the window is a part, requests for more recent parts
  // succeeded.
  const isTooOld = request.part !== undefined;
  return [request, ...older].map(({ from, to }) => ({ from, to, reason, ...(isTooOld && { isTooOld }) }));
}
