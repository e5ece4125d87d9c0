import type { Random } from '../base/ports.ts';
import type { RawRequest } from '../contract/raw-page.ts';
import {
  AttemptError,
  classifyStatus,
  classifyUnreadable,
  createUpstreamError,
  parseServedAt,
  type RequestSubject,
  type ResponseHead,
  sanitizeErrorDetail,
} from './classify-error.ts';
import { PauseTooLongError, type Permit, type RateLimiter } from './limiter.ts';
import { parseRateHeaders } from './rate-headers.ts';
import { UnreadableResponseError } from './response-body.ts';
import type { Transport } from './transport.ts';
import type { UpstreamDeps, UpstreamLimits } from './upstream.ts';

/** State shared by all requests with one key. */
export interface UpstreamSession extends UpstreamDeps {
  readonly apiKey: string;
  readonly limits: UpstreamLimits;
  readonly transport: Transport;
  readonly limiter: RateLimiter;
  readonly retryBudget: RetryBudget;
  /** Aborted with the AttemptError that ends every request: a refused credential, or closing. */
  readonly halt: AbortController;
  /** Each caller's signal joined with `halt`. */
  readonly joinedSignals: WeakMap<AbortSignal, AbortSignal>;
  readonly counts: { requests: number; retries: number; bytes: number };
  /** Called after each attempt. */
  readonly onAttempt: () => void;
}

interface UpstreamRequest<T> {
  readonly subject: RequestSubject;
  /** Including the query. */
  readonly path: string;
  /** Null: the raw response is not stored. */
  readonly rawRequest: RawRequest | null;
  /** Time of the request, epoch ms, stored with the raw response. */
  readonly askedAt: number;
  /** @throws UnreadableResponseError */
  readonly decode: (bytes: Uint8Array, head: ResponseHead) => T;
}

/**
 * Sends a request, and retries until there is a usable response or no retry is allowed.
 * @throws UpstreamError, or the reason of `outer`, immediately
 */
export async function requestWithRetries<T>(
  session: UpstreamSession,
  request: UpstreamRequest<T>,
  outer?: AbortSignal,
): Promise<T> {
  outer?.throwIfAborted();
  const { signal: halted } = session.halt;
  const signal = outer === undefined ? halted : joinSignals(session, outer);
  const faults: AttemptError[] = [];
  for (;;) {
    const attempt = faults.length;
    try {
      // Waits outside the rate limiter, so that a retry does not occupy a slot.
      if (attempt > 0) await session.clock.sleep(computeJitterMs(session, attempt - 1), signal);
      const run = (permit: Permit) => attemptOnce(session, request, attempt, permit, signal);
      const response = await session.limiter.run(run, { priority: attempt, signal });
      session.retryBudget.noteSuccess();
      return response;
    } catch (error) {
      outer?.throwIfAborted();
      faults.push(requireRetryable(session, error, faults, request.subject));
      session.log?.debug(
        { request: request.subject.describe(), attempt: attempt + 1, reason: faults.at(-1)!.message },
        'retrying',
      );
    }
  }
}

/** A signal that aborts with the caller's or the session's. Cached per caller, because each signal adds listeners. */
function joinSignals({ halt, joinedSignals: cache }: UpstreamSession, outer: AbortSignal): AbortSignal {
  const joined = cache.get(outer) ?? AbortSignal.any([outer, halt.signal]);
  cache.set(outer, joined);
  return joined;
}

async function attemptOnce<T>(
  session: UpstreamSession,
  request: UpstreamRequest<T>,
  attempt: number,
  permit: Permit,
  signal: AbortSignal,
) {
  const { path, decode, rawRequest, askedAt } = request;
  session.counts.requests++;
  if (attempt > 0) session.counts.retries++;
  try {
    const response = await session.transport.get(path, signal, (head) => {
      permit.noteResponse(head.status === 429);
      applyStatedRate(session, head);
      checkHead(session, head, attempt);
    });
    session.counts.bytes += response.bytesReceived;
    // Called before decoding, so that responses that the decoder rejects are kept as well.
    if (rawRequest !== null)
      session.onResponse?.({
        asked: rawRequest,
        askedAt,
        receivedAt: session.clock.nowMs(),
        servedAt: parseServedAt(response),
        status: response.status,
        body: response.bytes,
      });
    try {
      return decode(response.bytes, response);
    } catch (error) {
      throw error instanceof UnreadableResponseError ? classifyUnreadable(error, response, response.bytes) : error;
    }
  } finally {
    session.onAttempt();
  }
}

/** Applies the rate that the service states. Pauses if the remaining requests are used up by those in flight. */
function applyStatedRate(session: UpstreamSession, head: ResponseHead): void {
  const { ratePerSecond, remaining, resetMs } = parseRateHeaders(head, session.clock.nowMs());
  if (ratePerSecond !== undefined) session.limiter.capRate(ratePerSecond * session.limits.statedRateShare);
  if (remaining === undefined || resetMs === undefined || remaining > session.limiter.countInFlight()) return;
  const pauseMs = Math.min(resetMs, session.limits.retryAfterMsMax);
  if (pauseMs === 0) return;
  session.limiter.pause(pauseMs);
  session.log?.info({ remaining, pause_ms: Math.ceil(pauseMs) }, 'the rate limit of the service is exhausted');
}

/** Handles the status before the body arrives. Otherwise, other requests would start during a pause. */
function checkHead(session: UpstreamSession, head: ResponseHead, attempt: number): void {
  const fault = classifyStatus(head, session.clock.nowMs());
  if (fault === undefined) return;
  const { status } = fault;
  const pauseMs =
    fault.pauseMs ?? (status === 429 ? session.limits.retryDelayMsMin + computeJitterMs(session, attempt) : undefined);
  if (pauseMs !== undefined) {
    session.limiter.pause(pauseMs);
    session.log?.warn({ status, pause_ms: Math.ceil(pauseMs) }, 'the service requested a pause');
  }
  throw fault;
}

/**
 * Decides whether to retry after a failed attempt. Returns its error if so.
 * @throws UpstreamError if not
 */
function requireRetryable(
  session: UpstreamSession,
  error: unknown,
  before: readonly AttemptError[],
  subject: RequestSubject,
): AttemptError {
  if (session.halt.signal.aborted) throw createUpstreamError(subject, [session.halt.signal.reason as AttemptError]);
  if (error instanceof PauseTooLongError) {
    const reason = `the service requested a pause of ${Math.round(error.pauseMs / 1000)} s, which exceeds the maximum`;
    throw before.length > 0
      ? createUpstreamError(subject, before, reason)
      : createUpstreamError(subject, [new AttemptError('transient', reason)]);
  }
  if (!(error instanceof AttemptError)) throw error;
  // The service may have quoted the key in its response.
  error.message = error.message.replaceAll(session.apiKey, '[key]');
  if (error.detail !== undefined) error.detail = sanitizeErrorDetail(error.detail, session.apiKey);
  const faults = [...before, error];
  if (error.failure === 'credential') abortAllRequests(session, error);
  if (error.failure === 'credential' || error.failure === 'refused') throw createUpstreamError(subject, faults);
  if (faults.length >= session.limits.retryAttemptsMax) throw createUpstreamError(subject, faults);
  if (!session.retryBudget.take()) throw createUpstreamError(subject, faults, 'retry budget exhausted');
  return error;
}

function abortAllRequests(session: UpstreamSession, { message, status }: AttemptError): void {
  const facts = status === undefined ? {} : { status };
  session.log?.warn(facts, 'the service refused the credential');
  session.halt.abort(new AttemptError('credential', `given up: the service rejected this key (${message})`, facts));
}

function computeJitterMs({ limits, random }: UpstreamSession, attempt: number): number {
  return computeBackoffMs(attempt, limits.retryDelayMsMin, limits.retryDelayMsMax, random);
}

/** Limits the retries of all requests of a client. */
type RetryBudget = ReturnType<typeof createRetryBudget>;

/** Creates a token bucket. It starts full, and each success returns `gain` tokens, as in gRPC's retry throttling (gRFC A6). */
export function createRetryBudget(retriesMax: number, gain: number) {
  let tokens = retriesMax;
  return {
    /** Takes one retry. False if there is none left. */
    take(): boolean {
      if (tokens < 1) return false;
      tokens -= 1;
      return true;
    },
    noteSuccess() {
      tokens = Math.min(retriesMax, tokens + gain);
    },
  };
}

/**
 * Delay before retry `attempt` (from 0), in ms: "full jitter", uniform in [0, min(max, min · 2^attempt)), so that clients
 * that failed together do not retry together (M. Brooker, "Exponential backoff and jitter", 2015).
 */
export function computeBackoffMs(attempt: number, delayMsMin: number, delayMsMax: number, random: Random): number {
  return random() * Math.min(delayMsMax, delayMsMin * 2 ** attempt);
}
