import { hostname } from 'node:os';
import { exitCodes } from '../../core/errors.ts';
import { createRedactor, listSecrets } from '../../settings/secrets.ts';
import type { Context } from '../context.ts';
import type { Summary } from '../summary.ts';
import { buildNotification, shouldNotify } from './build-notification.ts';
import { postWebhook, type RetryBounds } from './webhook.ts';

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
