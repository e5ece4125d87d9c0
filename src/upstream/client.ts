import { paths } from '../contract/paths.ts';
import { checkApiKey, marketsSubject, parseBaseUrl, target, ticksSubject } from './address.ts';
import { decodeMarketsPage, decodeTickPage } from './decode.ts';
import { Fault, type Subject, upstreamError } from './fault.ts';
import { UnreadableAnswer } from './json-answer.ts';
import { type AnswerHead, judgeStatus, judgeUnreadable } from './judge.ts';
import { createLimiter, PausedTooLong, type Turn } from './limiter.ts';
import { type UpstreamDeps, type UpstreamOptions, upstreamLimits } from './options.ts';
import { backoffMs, createRetryBudget } from './retry.ts';
import type { Upstream, UpstreamCounters } from './upstream.ts';
import { openWire } from './wire.ts';

/**
 * The market data service under one key. All its requests share one pace, one pause and one retry budget, so a process
 * opens one client per key.
 * @throws UsageError for a base URL or key that cannot be used
 * @throws RangeError for a rate outside (0, 1,000,000]
 */
export function openUpstream(options: UpstreamOptions, { clock, random, log, onCounters }: UpstreamDeps): Upstream {
  const settings = { ...upstreamLimits, ...options };
  const { apiKey, retryDelayMsMin, retryDelayMsMax } = settings;
  checkApiKey(apiKey);
  const { origin, prefix } = parseBaseUrl(settings.baseUrl);
  const headers = {
    authorization: `Bearer ${apiKey}`,
    accept: 'application/json',
    'accept-encoding': 'gzip',
    'user-agent': settings.userAgent,
  };
  const wire = openWire({ ...settings, origin, headers, connections: settings.concurrency }, clock);
  const limiter = createLimiter({ ...settings, pauseMsMax: settings.retryAfterMsMax }, clock);
  const budget = createRetryBudget(settings.retryBudget, settings.retryBudgetGain);
  // Aborted with the Fault that ends every request: a refused credential, or closing.
  const halt = new AbortController();
  let requests = 0;
  let retries = 0;
  let bytes = 0;

  const counters = (): UpstreamCounters => ({
    requests,
    retries,
    bytes,
    throttledMs: Math.round(limiter.throttledMs()),
    waitedMs: Math.round(limiter.waitedMs()),
  });

  const jitterMs = (attempt: number) => backoffMs(attempt, retryDelayMsMin, retryDelayMsMax, random);

  /** Acts on the head, before the body: meanwhile other requests would start under a key that is to pause. */
  function checkHead(head: AnswerHead, attempt: number): void {
    const fault = judgeStatus(head, clock.nowMs());
    if (fault === undefined) return;
    const pauseMs = fault.pauseMs ?? (fault.status === 429 ? retryDelayMsMin + jitterMs(attempt) : undefined);
    if (pauseMs !== undefined) {
      limiter.pause(pauseMs);
      log?.warn({ status: fault.status, pauseMs }, 'the service asked for a pause');
    }
    throw fault;
  }

  async function tryOnce<T>(
    path: string,
    decode: (bytes: Uint8Array) => T,
    attempt: number,
    turn: Turn,
    signal: AbortSignal,
  ): Promise<T> {
    requests++;
    if (attempt > 0) retries++;
    try {
      const answer = await wire.get(path, signal, (head) => {
        turn.answered();
        checkHead(head, attempt);
      });
      bytes += answer.bytesReceived;
      try {
        return decode(answer.bytes);
      } catch (error) {
        throw error instanceof UnreadableAnswer ? judgeUnreadable(error, answer, answer.bytes) : error;
      }
    } finally {
      onCounters?.(counters());
    }
  }

  /** Takes a failed try: returns when another one is worth it, and throws the request's error when not. */
  function weigh(error: unknown, faults: Fault[], subject: Subject): void {
    if (halt.signal.aborted) throw upstreamError(subject, [halt.signal.reason as Fault]);
    if (error instanceof PausedTooLong) {
      const reason = `the service asked for a pause of ${Math.ceil(error.pauseMs / 1000)} s, longer than is waited`;
      if (faults.length > 0) throw upstreamError(subject, faults, reason);
      throw upstreamError(subject, [new Fault('transient', reason)]);
    }
    if (!(error instanceof Fault)) throw error;
    // A service may echo the key in what we quote.
    error.message = error.message.replaceAll(apiKey, '[key]');
    faults.push(error);
    if (error.failure === 'credential') {
      const { status } = error;
      halt.abort(
        new Fault('credential', `given up: ${error.message} to this key`, status === undefined ? {} : { status }),
      );
      log?.warn({ status }, 'the service refused the credential');
    }
    if (error.failure === 'credential' || error.failure === 'refused') throw upstreamError(subject, faults);
    if (faults.length >= settings.retryAttemptsMax) throw upstreamError(subject, faults);
    if (!budget.take()) throw upstreamError(subject, faults, 'no retries left in the budget');
  }

  async function ask<T>(
    subject: Subject,
    path: string,
    decode: (bytes: Uint8Array) => T,
    outer?: AbortSignal,
  ): Promise<T> {
    outer?.throwIfAborted();
    const signal = outer === undefined ? halt.signal : AbortSignal.any([outer, halt.signal]);
    const faults: Fault[] = [];
    for (;;) {
      const attempt = faults.length;
      try {
        if (attempt > 0) await clock.sleep(jitterMs(attempt - 1), signal);
        const place = { priority: attempt, signal };
        const value = await limiter.run((turn) => tryOnce(path, decode, attempt, turn, signal), place);
        budget.succeeded();
        return value;
      } catch (error) {
        outer?.throwIfAborted();
        weigh(error, faults, subject);
        log?.debug({ what: subject.what, attempt: attempt + 1, reason: faults.at(-1)?.message }, 'trying again');
      }
    }
  }

  return {
    ticks(query, signal) {
      const { symbol, from, to, limit } = query;
      const path = target(prefix + paths.ticks, { symbol, from, to, limit });
      return ask(ticksSubject(query), path, (body) => decodeTickPage(body, symbol), signal);
    },
    markets(query, signal) {
      const { view, source, limit } = query;
      const path = target(prefix + paths.markets, { view, source, limit });
      return ask(marketsSubject(query), path, decodeMarketsPage, signal);
    },
    counters,
    async close() {
      halt.abort(new Fault('transient', 'the client was closed'));
      await wire.close();
    },
  };
}
