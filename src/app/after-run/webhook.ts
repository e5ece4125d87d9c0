import type { Clock } from '../../core/clock.ts';

/** Times in milliseconds. */
export interface RetryBounds {
  /** All attempts and the waits between them. */
  readonly totalMsMax: number;
  readonly attemptMsMax: number;
  readonly attemptsMax: number;
  /** Before the second attempt; three times as long before each later one. */
  readonly delayMs: number;
}

/**
 * Sends JSON to an address that is a secret, and reads nothing of the answer but its status. A redirect is not followed:
 * the body is for this address alone.
 * @throws Error that says why it was not taken, and does not name the address
 */
export async function postWebhook(url: string, body: string, bounds: RetryBounds, clock: Clock): Promise<void> {
  const endMs = clock.monotonicMs() + bounds.totalMsMax;
  for (let attempt = 1, delayMs = bounds.delayMs; ; attempt++, delayMs *= 3) {
    const leftMs = endMs - clock.monotonicMs();
    const failure = await attemptOnce(url, body, Math.max(1, Math.min(bounds.attemptMsMax, leftMs)));
    if (failure === null) return;
    const waitMs = Math.max(delayMs, failure.retryAfterMs);
    const over = attempt >= bounds.attemptsMax || clock.monotonicMs() + waitMs >= endMs;
    if (!failure.canRetry || over) {
      const times = attempt === 1 ? '' : `, ${attempt} times`;
      throw new Error(`The webhook was not told: it ${failure.reason}${times}.`);
    }
    await clock.sleep(waitMs);
  }
}

interface AttemptFailure {
  /** What the receiver did, as the end of a sentence. */
  readonly reason: string;
  /** Whether another attempt may be taken. */
  readonly canRetry: boolean;
  /** 0 where it asks for no pause. */
  readonly retryAfterMs: number;
}

async function attemptOnce(url: string, body: string, msMax: number): Promise<AttemptFailure | null> {
  try {
    const answer = await fetch(url, {
      method: 'POST',
      body,
      redirect: 'manual',
      signal: AbortSignal.timeout(Math.ceil(msMax)),
      headers: { 'content-type': 'application/json', 'user-agent': 'oddslake', connection: 'close' },
    });
    await answer.body?.cancel();
    return answer.ok ? null : toAttemptFailure(answer);
  } catch (error) {
    const { name, cause } = error as Error;
    const { code } = (cause ?? {}) as NodeJS.ErrnoException;
    const reason = name === 'TimeoutError' ? 'did not answer in time' : `could not be reached (${code ?? name})`;
    return { reason, canRetry: true, retryAfterMs: 0 };
  }
}

function toAttemptFailure({ status, headers }: Response): AttemptFailure {
  const seconds = Number(headers.get('retry-after') ?? 0);
  return {
    reason:
      status >= 300 && status < 400 ? `answered ${status}, a redirect, which is not followed` : `answered ${status}`,
    canRetry: status === 408 || status === 429 || status >= 500,
    retryAfterMs: Number.isFinite(seconds) ? Math.max(0, seconds * 1000) : 0,
  };
}
