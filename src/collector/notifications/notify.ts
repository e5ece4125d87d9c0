import { hostname } from 'node:os';
import type { Summary } from '../../archive/journal/run-summary.ts';
import { exitCodes } from '../../base/errors.ts';
import type { Clock } from '../../base/ports.ts';
import { formatIsoUtc } from '../../base/time.ts';
import { completeForElsewhere } from '../../context/command-name.ts';
import type { Context } from '../../context/context.ts';
import { formatVerdict } from '../../contract/finding.ts';
import { createRedactor, listSecrets, type Settings } from '../../settings/settings.ts';

const defaultBounds: RetryBounds = { totalMsMax: 10_000, attemptMsMax: 5000, attemptsMax: 3, delayMs: 500 };

/** Limits after SIGTERM, which is soon followed by SIGKILL (Docker: 10 s). */
const terminatingBounds: RetryBounds = { totalMsMax: 3000, attemptMsMax: 2000, attemptsMax: 2, delayMs: 250 };

/** Notifies the webhook of the end of a run. Throws if that fails; the message does not contain the URL. */
export async function notifyRunEnd({ settings, clock }: Context, summary: Summary): Promise<void> {
  const { webhookUrl, when } = settings.notify;
  if (webhookUrl === null || !shouldNotify(summary, when)) return;
  const location = { host: hostname(), archive: settings.archive.output, complete: completeForElsewhere(settings) };
  // A response of the service or of a proxy may contain secrets from the request. Redact before truncating, which may
  // cut a secret in two.
  const redact = createRedactor(listSecrets(settings));
  const redacted = JSON.parse(redact(JSON.stringify(summary))) as Summary;
  const body = redact(JSON.stringify(buildNotification(redacted, location)));
  await postWebhook(webhookUrl, body, boundRetries(summary), clock);
}

/** The limits of a notification about the end of a run. */
const boundRetries = ({ exit_code }: Pick<Summary, 'exit_code'>): RetryBounds =>
  exit_code === exitCodes.terminated ? terminatingBounds : defaultBounds;

/** Where a run took place; not part of the summary. */
interface RunLocation {
  readonly host: string;
  /** Root folder of the archive. */
  readonly archive: string;
  /** Completes a command for a reader who is elsewhere. */
  readonly complete: (command: string) => string;
}

/** Whether the end of a run is reported. A run that was stopped with Ctrl-C is not. */
export function shouldNotify({ exit_code, verdict }: Summary, when: Settings['notify']['when']): boolean {
  if (exit_code === 130) return false;
  return when === 'always' || exit_code !== 0 || (when === 'warning' && verdict.state !== 'ok');
}

/** Discord accepts at most 2,000 characters; a shorter text is readable on a phone. */
const textLengthMax = 1000;
const reasonLengthMax = 300;

/**
 * Builds the payload. Slack and Mattermost show `text`, Discord shows `content`; the other fields are for programs. Times are
 * ISO 8601 in UTC.
 */
export function buildNotification(summary: Summary, { host, archive, complete }: RunLocation) {
  const { job, outcome, exit_code, error, run_id, version, generation, watermark, ticks, symbols } = summary;
  const text = neutralizeMarkup(formatNotificationText(summary, host, complete));
  return {
    text,
    content: text,
    allowed_mentions: { parse: [] as string[] },
    job,
    outcome,
    exit_code,
    error,
    verdict: { ...summary.verdict, command: completeCommand(summary.verdict, complete) },
    findings: summary.findings.slice(0, findingsMax).map((one) => ({
      ...one,
      message: truncateText(one.message, reasonLengthMax),
      command: completeCommand(one, complete),
      ...(one.since !== undefined && { since: formatIsoUtc(one.since) }),
    })),
    findings_count: summary.findings.length,
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
    archive_state: summary.completeness?.state ?? null,
    ticks,
    generation,
    watermark: watermark === null ? null : formatIsoUtc(watermark),
  };
}

const findingsMax = 20;

const completeCommand = ({ command }: { readonly command: string | null }, complete: RunLocation['complete']) =>
  command === null ? null : complete(command);

/** The notification as one line of text, without secrets of the settings. */
function formatRunText({ settings }: Pick<Context, 'settings'>, summary: Summary): string {
  const redact = createRedactor(listSecrets(settings));
  return redact(formatNotificationText(summary, hostname(), completeForElsewhere(settings))).replace(/\p{Cc}+/gu, ' ');
}

/** One line: job and host, and the verdict with its command. */
const formatNotificationText = (
  { job, exit_code, verdict }: Summary,
  host: string,
  complete: RunLocation['complete'],
): string =>
  `oddslake ${job} on ${host} (exit ${exit_code}): ${formatVerdict({ ...verdict, text: truncateText(verdict.text, reasonLengthMax) }, complete)}`;

/** Makes a text with parts from the service safe: no mentions, no links, one line. */
const neutralizeMarkup = (text: string): string =>
  truncateText(text.replace(/\p{Cc}+/gu, ' '), textLengthMax)
    .replaceAll('<', '‹')
    .replaceAll('>', '›')
    .replace(/@(?=\S)/g, '@\u200b');

/** Truncates a text without splitting a surrogate pair: strict receivers would reject the whole payload. */
const truncateText = (text: string, length: number): string =>
  text.length > length ? `${text.slice(0, length - 1).replace(/[\ud800-\udbff]$/, '')}…` : text;

/** Limits on retries. Times are in milliseconds. */
interface RetryBounds {
  /** Total time, including waits. */
  readonly totalMsMax: number;
  readonly attemptMsMax: number;
  readonly attemptsMax: number;
  /** Wait before the second attempt; tripled for each further attempt. */
  readonly delayMs: number;
}

/**
 * Posts JSON to a secret URL, and reads only the status of the response. Does not follow redirects, because the body is for
 * this URL only.
 * @throws Error with the reason and without the URL
 */
export async function postWebhook(
  url: string,
  body: string,
  bounds: RetryBounds,
  clock: Clock,
  { receiver, contentType }: PostOptions = { receiver: 'the webhook', contentType: 'application/json' },
): Promise<void> {
  const deadlineMs = clock.monotonicMs() + bounds.totalMsMax;
  for (let attempt = 1, delayMs = bounds.delayMs; ; attempt++, delayMs *= 3) {
    const leftMs = deadlineMs - clock.monotonicMs();
    const failure = await attemptOnce(url, body, contentType, Math.max(1, Math.min(bounds.attemptMsMax, leftMs)));
    if (failure === null) return;
    const waitMs = Math.max(delayMs, failure.retryAfterMs);
    const isOver = attempt >= bounds.attemptsMax || clock.monotonicMs() + waitMs >= deadlineMs;
    if (!failure.canRetry || isOver) {
      const times = attempt === 1 ? '' : `, ${attempt} times`;
      throw new Error(`Could not notify ${receiver}: it ${failure.reason}${times}.`);
    }
    await clock.sleep(waitMs);
  }
}

interface PostOptions {
  /** What the URL belongs to, for the error. */
  readonly receiver: string;
  readonly contentType: string;
}

interface AttemptFailure {
  /** What the receiver did; the end of a sentence. */
  readonly reason: string;
  /** Whether a retry may succeed. */
  readonly canRetry: boolean;
  /** Retry-After; 0 if there is none. */
  readonly retryAfterMs: number;
}

async function attemptOnce(
  url: string,
  body: string,
  contentType: string,
  msMax: number,
): Promise<AttemptFailure | null> {
  try {
    const response = await fetch(url, {
      method: 'POST',
      body,
      redirect: 'manual',
      signal: AbortSignal.timeout(Math.ceil(msMax)),
      headers: { 'content-type': contentType, 'user-agent': 'oddslake', connection: 'close' },
    });
    await response.body?.cancel();
    return response.ok ? null : toAttemptFailure(response);
  } catch (error) {
    const { name, cause } = error as Error;
    const { code } = (cause ?? {}) as NodeJS.ErrnoException;
    const reason = name === 'TimeoutError' ? 'did not respond in time' : `could not be reached (${code ?? name})`;
    return { reason, canRetry: true, retryAfterMs: 0 };
  }
}

function toAttemptFailure({ status, headers }: Response): AttemptFailure {
  const seconds = Number(headers.get('retry-after') ?? 0);
  return {
    reason:
      status >= 300 && status < 400
        ? `responded with ${status}; redirects are not followed`
        : `responded with ${status}`,
    canRetry: status === 408 || status === 429 || status >= 500,
    retryAfterMs: Number.isFinite(seconds) ? Math.max(0, seconds * 1000) : 0,
  };
}

// Pings a dead man's switch: a service that raises an alarm if no ping has arrived in time, so that a machine that is off is
// noticed too. The convention is that of healthchecks.io: POST to URL/start, then to URL or URL/fail.

/** Services store at most some 10 kB of the text of a ping. */
const pingTextLengthMax = 2000;
const pingOptions = { receiver: 'the ping address', contentType: 'text/plain; charset=utf-8' };

/** Pings the start of a run. @throws Error with the reason and without the URL */
export async function pingRunStart({ settings, clock }: Context): Promise<void> {
  const url = choosePingUrl(settings.notify, 'start');
  if (url !== null) await postWebhook(url, '', boundRetries({ exit_code: exitCodes.done }), clock, pingOptions);
}

/**
 * Pings the end of a run: success for exit code 0, otherwise failure. A run that was stopped with Ctrl-C is neither.
 * @throws Error with the reason and without the URL
 */
export async function pingRunEnd(context: Context, summary: Summary): Promise<void> {
  if (summary.exit_code === exitCodes.interrupted) return;
  const url = choosePingUrl(context.settings.notify, summary.exit_code === exitCodes.done ? 'success' : 'fail');
  if (url === null) return;
  const text = formatRunText(context, summary).slice(0, pingTextLengthMax);
  await postWebhook(url, text, boundRetries(summary), context.clock, pingOptions);
}

/** The address of a ping: its own setting, or else one below `ping_url`. Null if there is none. */
export function choosePingUrl(
  { pingUrl, pingStartUrl, pingFailUrl }: Pick<Settings['notify'], 'pingUrl' | 'pingStartUrl' | 'pingFailUrl'>,
  event: 'start' | 'success' | 'fail',
): string | null {
  if (event === 'success') return pingUrl;
  const own = event === 'start' ? pingStartUrl : pingFailUrl;
  if (own !== null || pingUrl === null) return own;
  const url = new URL(pingUrl);
  url.pathname = `${url.pathname.replace(/\/+$/, '')}/${event}`;
  return url.href;
}
