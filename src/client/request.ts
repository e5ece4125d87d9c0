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
import { UnreadableResponseError } from './json-response.ts';
import { PauseTooLongError, type RateLimiter, type RequestTurn } from './limiter.ts';
import { parseRateHeaders } from './rate-headers.ts';
import type { Transport } from './transport.ts';
import type { UpstreamDeps, UpstreamLimits } from './upstream.ts';

/** What all requests under one key share. */
export interface UpstreamSession extends UpstreamDeps {
  readonly apiKey: string;
  readonly limits: UpstreamLimits;
  readonly transport: Transport;
  readonly limiter: RateLimiter;
  readonly retryBudget: RetryBudget;
  /** Aborted with the Fault that ends every request: a refused credential, or closing. */
  readonly halt: AbortController;
  /** Of each caller's signal that and this one's as one. */
  readonly joinedSignals: WeakMap<AbortSignal, AbortSignal>;
  readonly counts: { requests: number; retries: number; bytes: number };
  /** Called after every try. */
  readonly onAttempt: () => void;
}

export interface UpstreamRequest<T> {
  readonly subject: RequestSubject;
  /** With its query. */
  readonly path: string;
  readonly asked: RawRequest;
  /** When it was asked, for whoever keeps the answer; epoch ms. */
  readonly askedAt: number;
  /** @throws UnreadableResponseError */
  readonly decode: (bytes: Uint8Array, head: ResponseHead) => T;
}

/**
 * Asks until there is a usable answer or no further try is worth it.
 * @throws UpstreamError, or the reason of `outer`, at once
 */
export async function requestWithRetries<T>(
  key: UpstreamSession,
  question: UpstreamRequest<T>,
  outer?: AbortSignal,
): Promise<T> {
  outer?.throwIfAborted();
  const { signal: halted } = key.halt;
  const signal = outer === undefined ? halted : joinSignals(key, outer);
  const faults: AttemptError[] = [];
  for (;;) {
    const attempt = faults.length;
    try {
      // Outside the slots: a request that waits for its retry keeps nobody else waiting.
      if (attempt > 0) await key.clock.sleep(computeJitterMs(key, attempt - 1), signal);
      const run = (turn: RequestTurn) => attemptOnce(key, question, attempt, turn, signal);
      const answer = await key.limiter.run(run, { priority: attempt, signal });
      key.retryBudget.noteSuccess();
      return answer;
    } catch (error) {
      outer?.throwIfAborted();
      faults.push(requireRetryable(key, error, faults, question.subject));
      key.log?.debug(
        { what: question.subject.describe(), attempt: attempt + 1, reason: faults.at(-1)!.message },
        'retrying',
      );
    }
  }
}

/** Aborted when either the caller's signal or the key's is. One for all requests of a caller: each costs listeners. */
function joinSignals({ halt, joinedSignals: known }: UpstreamSession, outer: AbortSignal): AbortSignal {
  const made = known.get(outer) ?? AbortSignal.any([outer, halt.signal]);
  known.set(outer, made);
  return made;
}

async function attemptOnce<T>(
  key: UpstreamSession,
  question: UpstreamRequest<T>,
  attempt: number,
  turn: RequestTurn,
  signal: AbortSignal,
) {
  const { path, decode, asked, askedAt } = question;
  key.counts.requests++;
  if (attempt > 0) key.counts.retries++;
  try {
    const answer = await key.transport.get(path, signal, (head) => {
      turn.noteResponse(head.status !== 429);
      applyStatedRate(key, head);
      checkHead(key, head, attempt);
    });
    key.counts.bytes += answer.bytesReceived;
    // Before it is decoded: what the decoder refuses is what will be asked for.
    key.onResponse?.({
      asked,
      askedAt,
      receivedAt: key.clock.nowMs(),
      servedAt: parseServedAt(answer),
      status: answer.status,
      body: answer.bytes,
    });
    try {
      return decode(answer.bytes, answer);
    } catch (error) {
      throw error instanceof UnreadableResponseError ? classifyUnreadable(error, answer, answer.bytes) : error;
    }
  } finally {
    key.onAttempt();
  }
}

/** Keeps to the rate that the service states, and pauses where what is left is spent by what is under way. */
function applyStatedRate(key: UpstreamSession, head: ResponseHead): void {
  const { ratePerSecond, remaining, resetMs } = parseRateHeaders(head, key.clock.nowMs());
  if (ratePerSecond !== undefined) key.limiter.capRate(ratePerSecond);
  if (remaining === undefined || resetMs === undefined || remaining > key.limiter.countInFlight()) return;
  const pauseMs = Math.min(resetMs, key.limits.retryAfterMsMax);
  if (pauseMs === 0) return;
  key.limiter.pause(pauseMs);
  key.log?.info({ remaining, pauseMs }, 'the requests that the service allows are used up for now');
}

/** Acts before the body is there: until then other requests would start under a key that is to pause. */
function checkHead(key: UpstreamSession, head: ResponseHead, attempt: number): void {
  const fault = classifyStatus(head, key.clock.nowMs());
  if (fault === undefined) return;
  const { status } = fault;
  const pauseMs =
    fault.pauseMs ?? (status === 429 ? key.limits.retryDelayMsMin + computeJitterMs(key, attempt) : undefined);
  if (pauseMs !== undefined) {
    key.limiter.pause(pauseMs);
    key.log?.warn({ status, pauseMs: Math.ceil(pauseMs) }, 'the service asked for a pause');
  }
  throw fault;
}

/**
 * Weighs a failed try after `before`: returns its fault when another try is worth it.
 * @throws UpstreamError when none is
 */
function requireRetryable(
  key: UpstreamSession,
  error: unknown,
  before: readonly AttemptError[],
  subject: RequestSubject,
): AttemptError {
  if (key.halt.signal.aborted) throw createUpstreamError(subject, [key.halt.signal.reason as AttemptError]);
  if (error instanceof PauseTooLongError) {
    const reason = `the service asked for a pause of ${Math.round(error.pauseMs / 1000)} s, longer than is waited`;
    throw before.length > 0
      ? createUpstreamError(subject, before, reason)
      : createUpstreamError(subject, [new AttemptError('transient', reason)]);
  }
  if (!(error instanceof AttemptError)) throw error;
  // The service may have echoed the key in what the reason quotes.
  error.message = error.message.replaceAll(key.apiKey, '[key]');
  if (error.detail !== undefined) error.detail = sanitizeErrorDetail(error.detail, key.apiKey);
  const faults = [...before, error];
  if (error.failure === 'credential') haltAll(key, error);
  if (error.failure === 'credential' || error.failure === 'refused') throw createUpstreamError(subject, faults);
  if (faults.length >= key.limits.retryAttemptsMax) throw createUpstreamError(subject, faults);
  if (!key.retryBudget.take()) throw createUpstreamError(subject, faults, 'no retries left in the budget');
  return error;
}

function haltAll(key: UpstreamSession, { message, status }: AttemptError): void {
  const facts = status === undefined ? {} : { status };
  key.log?.warn(facts, 'the service refused the credential');
  key.halt.abort(new AttemptError('credential', `given up: the service ${message} to this key`, facts));
}

function computeJitterMs({ limits, random }: UpstreamSession, attempt: number): number {
  return computeBackoffMs(attempt, limits.retryDelayMsMin, limits.retryDelayMsMax, random);
}

/** Retries on credit, shared by all requests of a client. */
export interface RetryBudget {
  /** Takes one; false when there is none left. */
  take(): boolean;
  noteSuccess(): void;
}

/** A token bucket: starts full, each success gives `gain` back. The idea is gRPC's retry throttling (gRFC A6). */
export function createRetryBudget(retriesMax: number, gain: number): RetryBudget {
  let tokens = retriesMax;
  return {
    take() {
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
 * Milliseconds to wait before retry `attempt` (from 0): "full jitter", anything in [0, min(max, min · 2^attempt)), so
 * that clients which failed together do not come back together (M. Brooker, "Exponential backoff and jitter", 2015).
 */
export function computeBackoffMs(attempt: number, delayMsMin: number, delayMsMax: number, random: Random): number {
  return random() * Math.min(delayMsMax, delayMsMin * 2 ** attempt);
}
