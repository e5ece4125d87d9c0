import type { Settings } from './settings.ts';

/** Every text of the settings that no log line may hold, in each form that it may be written in. */
export function secretsOf({ upstream, repair, service }: Settings): string[] {
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
    password && decoded(password),
  ];
  return [...given, parameter && decoded(parameter)].filter(
    (text) => typeof text === 'string' && text !== '',
  ) as string[];
}

function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}
