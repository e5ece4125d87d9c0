import type { Summary } from '../../archive/journal/run-summary.ts';
import { exitCodes } from '../../base/errors.ts';
import type { Context } from '../../context/context.ts';
import type { Settings } from '../../settings/settings.ts';
import { boundRetries, formatRunText, postWebhook } from './notify.ts';

// Pings a dead man's switch: a service that raises an alarm if no ping has arrived in time, so that a machine that is off is
// noticed too. The convention is that of healthchecks.io: POST to URL/start, then to URL or URL/fail.

/** Services store at most some 10 kB of the text of a ping. */
const textLengthMax = 2000;
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
  const text = formatRunText(context, summary).slice(0, textLengthMax);
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
