import { hostname } from 'node:os';
import { exitCodes } from '../../base/errors.ts';
import { formatThousands } from '../../base/format-quantity.ts';
import type { Clock } from '../../base/ports.ts';
import { formatIsoUtc } from '../../base/time.ts';
import type { Context } from '../../context/context.ts';
import { createRedactor, listSecrets, type Settings } from '../../settings/settings.ts';
import type { Summary } from '../run/summary.ts';

const defaultBounds: RetryBounds = { totalMsMax: 10_000, attemptMsMax: 5000, attemptsMax: 3, delayMs: 500 };

/** Who sends SIGTERM ends the process soon after (Docker: 10 s), and is not to wait for a receiver that hangs. */
const terminatingBounds: RetryBounds = { totalMsMax: 3000, attemptMsMax: 2000, attemptsMax: 2, delayMs: 250 };

/** Tells the webhook of a run's end. Throws where it could not be told, without the address. */
export async function notifyRunEnd({ settings, clock }: Context, summary: Summary): Promise<void> {
  const { webhookUrl, when } = settings.notify;
  if (webhookUrl === null || !shouldNotify(summary, when)) return;
  const place = { host: hostname(), archive: settings.archive.output };
  // What the service or a proxy answered may hold what it was asked with. Before the cut, which might leave a piece of it.
  const hide = createRedactor(listSecrets(settings));
  const shown = JSON.parse(hide(JSON.stringify(summary))) as Summary;
  const body = hide(JSON.stringify(buildNotification(shown, place)));
  await postWebhook(
    webhookUrl,
    body,
    summary.exit_code === exitCodes.terminated ? terminatingBounds : defaultBounds,
    clock,
  );
}

/** Where a run was, as its summary does not say it. */
export interface RunLocation {
  readonly host: string;
  /** The archive's root. */
  readonly archive: string;
}

/** Whether a run's end is told. Somebody who stops one at the terminal knows that it is stopped. */
export function shouldNotify({ exit_code, warnings_count }: Summary, when: Settings['notify']['when']): boolean {
  if (exit_code === 130) return false;
  return when === 'always' || exit_code !== 0 || (when === 'warning' && warnings_count > 0);
}

/** Discord takes 2,000 characters, and a line that is read on a telephone fewer. */
const textLengthMax = 1000;
const reasonLengthMax = 300;

/**
 * What is sent: `text` is what Slack, Mattermost and their like show, `content` what Discord shows, the rest is for
 * programs. Times are ISO 8601 in UTC.
 */
export function buildNotification(summary: Summary, { host, archive }: RunLocation) {
  const { job, outcome, exit_code, error, run_id, version, generation, watermark, ticks, symbols } = summary;
  const text = neutralizeMarkup(formatNotificationText(summary, host));
  return {
    text,
    content: text,
    allowed_mentions: { parse: [] as string[] },
    job,
    outcome,
    exit_code,
    error,
    next_action: summary.next_action ?? null,
    run_id,
    host,
    archive,
    version,
    started_at: formatIsoUtc(summary.started_at),
    finished_at: formatIsoUtc(summary.finished_at),
    failures: summary.failures.map(({ symbol, from, to, reason }) => ({
      symbol,
      from: from === null ? null : formatIsoUtc(from),
      to: to === null ? null : formatIsoUtc(to),
      reason: truncateText(reason, reasonLengthMax),
    })),
    failures_count: summary.failures_count,
    damaged: summary.damaged.map(({ path, kind, found_at }) => ({ path, kind, found_at: formatIsoUtc(found_at) })),
    damaged_count: summary.damaged_count,
    warnings: summary.warnings.map((one) => truncateText(one, reasonLengthMax)),
    warnings_count: summary.warnings_count,
    suspended: symbols.suspended,
    verdict: summary.verdict?.state ?? null,
    ticks,
    generation,
    watermark: watermark === null ? null : formatIsoUtc(watermark),
  };
}

const outcomeTexts: Record<Summary['outcome'], string> = {
  done: 'done',
  failed: 'failed',
  usage: 'was not started',
  credential: 'stopped: the key was refused',
  incomplete: 'done, but incomplete',
  busy: 'did not publish: another run is writing',
  damaged: 'ended: the archive is damaged',
  unreachable: 'failed: the upstream could not be reached',
  interrupted: 'was stopped; what was accepted is kept',
};

/** One line: what ended how and where, why, what is missing, what to do. */
function formatNotificationText({ job, outcome, exit_code, error, ticks, ...more }: Summary, host: string): string {
  const [first] = more.failures;
  const others = more.failures_count > 1 ? `, and ${formatThousands(more.failures_count - 1)} more` : '';
  const missing =
    first === undefined
      ? []
      : [`Missing: ${first.symbol ?? job} (${truncateText(first.reason, reasonLengthMax)})${others}.`];
  const [warning] = more.warnings;
  return [
    `oddslake ${job} on ${host}: ${outcomeTexts[outcome]} (exit ${exit_code}).`,
    ...(error === null ? [] : [error]),
    ...missing,
    ...(more.symbols.suspended === 0 ? [] : [formatSuspended(more.symbols.suspended)]),
    ...(exit_code === 0 && more.run_id !== null
      ? [`${formatThousands(ticks.accepted)} new ticks, generation ${more.generation}.`]
      : []),
    ...(exit_code === 0 && warning !== undefined ? [`Warning: ${truncateText(warning, reasonLengthMax)}`] : []),
    ...(more.next_action ? [`Next: ${more.next_action}`] : []),
  ].join(' ');
}

const formatSuspended = (count: number): string =>
  `${formatThousands(count)} active ${count === 1 ? 'symbol is' : 'symbols are'} suspended: oddslake symbols retry.`;

/** A text of the service's may stand in it: nobody is called by it, nothing is linked, and it stays one line. */
const neutralizeMarkup = (text: string): string =>
  truncateText(text.replace(/\p{Cc}+/gu, ' '), textLengthMax)
    .replaceAll('<', '‹')
    .replaceAll('>', '›')
    .replace(/@(?=\S)/g, '@\u200b');

/** Half of a character at the cut would be no text any more, which strict receivers refuse whole. */
const truncateText = (text: string, length: number): string =>
  text.length > length ? `${text.slice(0, length - 1).replace(/[\ud800-\udbff]$/, '')}…` : text;

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
