import type { RawQuestion } from '../core/raw-page.ts';
import { type AnswerHead, judgeStatus, judgeUnreadable, servedAt } from './classify-error.ts';
import { presentable } from './error-detail.ts';
import { UnreadableAnswer } from './json-response.ts';
import { type Limiter, PausedTooLong, type Turn } from './limiter.ts';
import type { UpstreamDeps, UpstreamLimits } from './options.ts';
import { statedRate } from './rate-headers.ts';
import { Fault, type Subject, upstreamError } from './request-error.ts';
import { backoffMs, type RetryBudget } from './retry.ts';
import type { Wire } from './transport.ts';

/** What all requests under one key share. */
export interface Key extends UpstreamDeps {
  readonly apiKey: string;
  readonly limits: UpstreamLimits;
  readonly wire: Wire;
  readonly limiter: Limiter;
  readonly budget: RetryBudget;
  /** Aborted with the Fault that ends every request: a refused credential, or closing. */
  readonly halt: AbortController;
  /** Of each caller's signal that and this one's as one. */
  readonly either: WeakMap<AbortSignal, AbortSignal>;
  readonly tally: { requests: number; retries: number; bytes: number };
  /** Called after every try. */
  readonly onTry: () => void;
}

export interface Question<T> {
  readonly subject: Subject;
  /** With its query. */
  readonly path: string;
  readonly asked: RawQuestion;
  /** When it was asked, for whoever keeps the answer; epoch ms. */
  readonly askedAt: number;
  /** @throws UnreadableAnswer */
  readonly decode: (bytes: Uint8Array, head: AnswerHead) => T;
}

/**
 * Asks until there is a usable answer or no further try is worth it.
 * @throws UpstreamError, or the reason of `outer`, at once
 */
export async function ask<T>(key: Key, question: Question<T>, outer?: AbortSignal): Promise<T> {
  outer?.throwIfAborted();
  const { signal: halted } = key.halt;
  const signal = outer === undefined ? halted : either(key, outer);
  const faults: Fault[] = [];
  for (;;) {
    const attempt = faults.length;
    try {
      // Outside the slots: a request that waits for its retry keeps nobody else waiting.
      if (attempt > 0) await key.clock.sleep(jitterMs(key, attempt - 1), signal);
      const run = (turn: Turn) => tryOnce(key, question, attempt, turn, signal);
      const answer = await key.limiter.run(run, { priority: attempt, signal });
      key.budget.succeeded();
      return answer;
    } catch (error) {
      outer?.throwIfAborted();
      faults.push(weigh(key, error, faults, question.subject));
      key.log?.debug(
        { what: question.subject.what(), attempt: attempt + 1, reason: faults.at(-1)!.message },
        'retrying',
      );
    }
  }
}

/** Aborted when either the caller's signal or the key's is. One for all requests of a caller: each costs listeners. */
function either({ halt, either: known }: Key, outer: AbortSignal): AbortSignal {
  const made = known.get(outer) ?? AbortSignal.any([outer, halt.signal]);
  known.set(outer, made);
  return made;
}

async function tryOnce<T>(key: Key, question: Question<T>, attempt: number, turn: Turn, signal: AbortSignal) {
  const { path, decode, asked, askedAt } = question;
  key.tally.requests++;
  if (attempt > 0) key.tally.retries++;
  try {
    const answer = await key.wire.get(path, signal, (head) => {
      turn.answered(head.status !== 429);
      heedStatedRate(key, head);
      checkHead(key, head, attempt);
    });
    key.tally.bytes += answer.bytesReceived;
    // Before it is decoded: what the decoder refuses is what will be asked for.
    key.onAnswer?.({
      asked,
      askedAt,
      receivedAt: key.clock.nowMs(),
      servedAt: servedAt(answer),
      status: answer.status,
      body: answer.bytes,
    });
    try {
      return decode(answer.bytes, answer);
    } catch (error) {
      throw error instanceof UnreadableAnswer ? judgeUnreadable(error, answer, answer.bytes) : error;
    }
  } finally {
    key.onTry();
  }
}

/** Keeps to the rate that the service states, and pauses where what is left is spent by what is under way. */
function heedStatedRate(key: Key, head: AnswerHead): void {
  const { ratePerSecond, remaining, resetMs } = statedRate(head, key.clock.nowMs());
  if (ratePerSecond !== undefined) key.limiter.cap(ratePerSecond);
  if (remaining === undefined || resetMs === undefined || remaining > key.limiter.underWay()) return;
  const pauseMs = Math.min(resetMs, key.limits.retryAfterMsMax);
  if (pauseMs === 0) return;
  key.limiter.pause(pauseMs);
  key.log?.info({ remaining, pauseMs }, 'the requests that the service allows are used up for now');
}

/** Acts before the body is there: until then other requests would start under a key that is to pause. */
function checkHead(key: Key, head: AnswerHead, attempt: number): void {
  const fault = judgeStatus(head, key.clock.nowMs());
  if (fault === undefined) return;
  const { status } = fault;
  const pauseMs = fault.pauseMs ?? (status === 429 ? key.limits.retryDelayMsMin + jitterMs(key, attempt) : undefined);
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
function weigh(key: Key, error: unknown, before: readonly Fault[], subject: Subject): Fault {
  if (key.halt.signal.aborted) throw upstreamError(subject, [key.halt.signal.reason as Fault]);
  if (error instanceof PausedTooLong) {
    const reason = `the service asked for a pause of ${Math.round(error.pauseMs / 1000)} s, longer than is waited`;
    throw before.length > 0
      ? upstreamError(subject, before, reason)
      : upstreamError(subject, [new Fault('transient', reason)]);
  }
  if (!(error instanceof Fault)) throw error;
  // The service may have echoed the key in what the reason quotes.
  error.message = error.message.replaceAll(key.apiKey, '[key]');
  if (error.said !== undefined) error.said = presentable(error.said, key.apiKey);
  const faults = [...before, error];
  if (error.failure === 'credential') haltAll(key, error);
  if (error.failure === 'credential' || error.failure === 'refused') throw upstreamError(subject, faults);
  if (faults.length >= key.limits.retryAttemptsMax) throw upstreamError(subject, faults);
  if (!key.budget.take()) throw upstreamError(subject, faults, 'no retries left in the budget');
  return error;
}

function haltAll(key: Key, { message, status }: Fault): void {
  const facts = status === undefined ? {} : { status };
  key.log?.warn(facts, 'the service refused the credential');
  key.halt.abort(new Fault('credential', `given up: the service ${message} to this key`, facts));
}

function jitterMs({ limits, random }: Key, attempt: number): number {
  return backoffMs(attempt, limits.retryDelayMsMin, limits.retryDelayMsMax, random);
}
