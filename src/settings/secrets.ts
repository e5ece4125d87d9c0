import type { Settings } from './settings.ts';

/** Every text of the settings that no log line may hold, in each form that it may be written in. */
export function listSecrets({ upstream, repair, service, notify }: Settings): string[] {
  const url = service.databaseUrl ?? '';
  // Up to the last @: a password that was not escaped may hold one.
  const password = /^[a-z]+:\/\/[^:@/]*:(.*)@/is.exec(url)?.[1];
  const parameter = /[?&]password=([^&#]*)/i.exec(url)?.[1];
  const given = [
    upstream.apiKey,
    repair.fromApiKey,
    service.tokens.secret,
    password,
    parameter,
    password && decodePercent(password),
    ...listWebhookSecrets(notify.webhookUrl),
  ];
  return [...given, parameter && decodePercent(parameter)].filter(
    (text) => typeof text === 'string' && text !== '',
  ) as string[];
}

/** Whoever has the address of a webhook may write there: it is secret as a whole, and so is what follows the host. */
function listWebhookSecrets(url: string | null): string[] {
  if (url === null) return [];
  const { pathname, search } = new URL(url);
  // A short path, as of a receiver of one's own, guards nothing, and hiding it would eat holes into other lines.
  return [url, ...[pathname + search, pathname].filter((text) => text.length >= 16)];
}

function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Takes secrets out of a finished text; redaction by name cannot see one inside an error's message. */
export function createRedactor(secrets: readonly string[]): (text: string) => string {
  // A text this short is no secret, and hiding it would eat holes into every word.
  const long = secrets.filter((secret) => secret.length >= 4);
  const written = new Set(long.flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1)]));
  return (text) => [...written].reduce((shown, secret) => shown.replaceAll(secret, '(hidden)'), text);
}
