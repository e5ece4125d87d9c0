import { UsageError } from '../base/errors.ts';
import type { SchemaValues, settingsSchema } from './schema.ts';

/** What schema.ts describes, in camelCase. */
export type SettingValues = SchemaValues<typeof settingsSchema>;

/** Every setting of a run, deeply frozen. Secret: `upstream.apiKey`, `repair.fromApiKey`, `notify.webhookUrl`. */
export interface Settings extends Omit<SettingValues, 'archive'> {
  readonly archive: SettingValues['archive'] & {
    /** Whether flag, environment or config named the output; a default archive that is missing is not created. */
    readonly outputNamed: boolean;
    /** Whether the flag --output named it. */
    readonly outputFlagged: boolean;
  };
  /** The config file that was named, absolute; null where none was. */
  readonly configFile: string | null;
}

/** Where the upstream is and the key that it asks for. */
export interface UpstreamAccess {
  /** Absolute, http or https, without credentials, query, fragment or a slash at its end. */
  readonly baseUrl: string;
  readonly apiKey: string;
}

/** For jobs that collect. Throws UsageError saying which variable to set where the upstream or its key is missing. */
export function requireUpstream(settings: Settings): UpstreamAccess {
  const { baseUrl, apiKey } = settings.upstream;
  if (baseUrl === null) {
    throw new UsageError(
      'No upstream: set ODDSLAKE_BASE_URL, e.g. https://example.org, or upstream.base_url in the config',
    );
  }
  if (apiKey === null) {
    throw new UsageError(`No key for ${baseUrl}: set ODDSLAKE_API_KEY or ODDSLAKE_API_KEY_FILE`);
  }
  return { baseUrl, apiKey };
}

/**
 * For a repair that asks another oddslake, at `url`, for what was lost here.
 * @throws UsageError for a URL that is none, and saying which variable to set where its key is missing
 */
export function requireOtherUpstream(settings: Settings, url: string): UpstreamAccess {
  const baseUrl = parseServiceUrl(url, '--from-url');
  const apiKey = settings.repair.fromApiKey;
  if (apiKey === null) {
    throw new UsageError(`No key for ${baseUrl}: set ODDSLAKE_FROM_API_KEY or ODDSLAKE_FROM_API_KEY_FILE`);
  }
  return { baseUrl, apiKey };
}

/** Dotted snake_case paths to nested, frozen camelCase: the one place that maps the names. */
export function nestSettings(values: ReadonlyMap<string, unknown>): SettingValues {
  const root: SettingsBranch = {};
  for (const [path, value] of values) {
    const names = path.split('.').map(toCamelCase);
    const leaf = names.pop()!;
    let branch = root;
    for (const name of names) {
      branch[name] ??= {};
      branch = branch[name] as SettingsBranch;
    }
    branch[leaf] = Array.isArray(value) ? [...value] : value;
  }
  return freezeDeep(root) as unknown as SettingValues;
}

/** Freezes a tree of plain objects and arrays, and gives it back. */
export function freezeDeep<T>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(freezeDeep);
  return value;
}

interface SettingsBranch {
  [name: string]: unknown;
}

const toCamelCase = (key: string): string => key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/**
 * The address of a service without a slash at its end; `what` names where the text is from.
 * @throws UsageError where it is no http or https URL, or holds credentials, a query or a fragment
 */
export function parseServiceUrl(given: string, what: string): string {
  const text = given.trim();
  const url = URL.parse(text);
  const usable = url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
  if (usable && url.search === '' && url.hash === '') return url.href.replace(/\/+$/, '');
  const shown = /[@?#]/.test(text) ? '(hidden)' : JSON.stringify(text);
  throw new UsageError(`${what} is ${shown}: expected an http or https URL without credentials, query or fragment`);
}

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
