import { UsageError } from '../base/errors.ts';
import { isSymbolOf } from '../base/source-name.ts';
import { mayBeKey, nameVariables, settingSchemas } from './layers.ts';
import { SettingError } from './setting-error.ts';
import type { SchemaValues, settingsSchema } from './setting-table.ts';

/** The values of all settings, with camelCase names. */
type SettingValues = SchemaValues<typeof settingsSchema>;

/** All settings of a run, deeply frozen. Secrets: see `listSecrets`. */
export interface Settings extends Omit<SettingValues, 'archive' | 'bucket'> {
  readonly archive: SettingValues['archive'] & {
    /** Whether a flag, the environment or the config file set the output. No archive is created at the default path. */
    readonly outputNamed: boolean;
    /** Whether the flag --output set it. */
    readonly outputFlagged: boolean;
    /** The output, if it is an address in object storage and not a folder. Only some commands read such an archive. */
    readonly bucketUrl: string | null;
  };
  readonly bucket: SettingValues['bucket'] & {
    /** Absolute path: that of the setting, or the default. */
    readonly cacheDir: string;
  };
  /** Absolute path of the config file; null if there is none. */
  readonly configFile: string | null;
  /** The sources of an archive that has several, in the order of the config; empty: one service, `upstream`. */
  readonly sources: readonly SourceSettings[];
  /**
   * The source that `upstream` and `source` are those of: see `selectSource`. Null: the only service or, if there are
   * several sources, none of them.
   */
  readonly sourceName: string | null;
  /** Where the address and the key of `upstream` were set. */
  readonly upstreamFrom: UpstreamOrigins;
}

/** Where the address and the key of an upstream were set, for messages; null if they are not set. */
export interface UpstreamOrigins {
  readonly baseUrl: string | null;
  readonly apiKey: string | null;
}

/** The settings of one of several sources. */
export interface SourceSettings extends Pick<SettingValues, 'upstream' | 'source'> {
  readonly name: string;
  readonly upstreamFrom: UpstreamOrigins;
}

/**
 * The settings with which a run collects one of several sources. `symbols` stay those of all sources, because whether a
 * day of the archive is complete depends on all of them.
 */
export function selectSource(settings: Settings, name: string): Settings {
  const { upstream, source, upstreamFrom } = settings.sources.find((one) => one.name === name)!;
  const symbols = settings.orderbooks.symbols.filter((symbol) => isSymbolOf(name, symbol));
  const orderbooks = { ...settings.orderbooks, symbols };
  return { ...settings, upstream, source, orderbooks, sourceName: name, upstreamFrom };
}

/** The settings of each source that a run of these settings collects. */
export const listSourceSettings = (settings: Settings): Settings[] =>
  settings.sources.length === 0 || settings.sourceName !== null
    ? [settings]
    : settings.sources.map(({ name }) => selectSource(settings, name));

/** Address and API key of an upstream. */
export interface UpstreamAccess {
  /** Absolute http or https URL without credentials, query, fragment or trailing slash. */
  readonly baseUrl: string;
  readonly apiKey: string;
}

/** Whether the upstream has an address and an API key. */
export const hasUpstream = ({ upstream: { baseUrl, apiKey } }: Pick<Settings, 'upstream'>): boolean =>
  baseUrl !== null && apiKey !== null;

/** Returns the upstream, for jobs that collect. Throws UsageError if its address or API key is not set. */
export function requireUpstream(settings: Settings): UpstreamAccess {
  const { baseUrl, apiKey } = settings.upstream;
  const { sourceName: name } = settings;
  const variables = nameVariables(name);
  const keyAdvice = `set ${variables.apiKey} or ${variables.apiKeyFile}`;
  if (baseUrl === null) {
    const [what, section] =
      name === null ? ['No upstream', 'upstream'] : [`No address of the source ${name}`, `sources.${name}`];
    const config = settings.configFile === null ? 'the config' : settings.configFile;
    const advice = `${what}: set ${variables.baseUrl}, e.g. https://example.org, or ${section}.base_url in ${config}`;
    throw new UsageError(apiKey === null ? `${advice}. No key either: ${keyAdvice}` : advice);
  }
  if (apiKey === null) throw new UsageError(`No key for ${baseUrl}: ${keyAdvice}`);
  return { baseUrl, apiKey };
}

/**
 * Returns the other oddslake, at `url`, from which a repair restores lost ticks, or whose stream is followed.
 * @param flag the flag that named it
 * @throws UsageError if the URL is invalid or the API key is not set
 */
export function requireOtherUpstream(settings: Settings, url: string, flag = '--from-url'): UpstreamAccess {
  const baseUrl = parseServiceUrl(url, flag);
  const apiKey = settings.repair.fromApiKey;
  if (apiKey === null) {
    throw new UsageError(`No key for ${baseUrl}: set ODDSLAKE_FROM_API_KEY or ODDSLAKE_FROM_API_KEY_FILE`);
  }
  return { baseUrl, apiKey };
}

/** Converts dotted snake_case paths to nested, frozen objects with camelCase names. */
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

/** Freezes a tree of plain objects and arrays, and returns it. */
export function freezeDeep<T>(value: T): T {
  if (typeof value === 'object' && value !== null) Object.values(Object.freeze(value)).forEach(freezeDeep);
  return value;
}

interface SettingsBranch {
  [name: string]: unknown;
}

const toCamelCase = (key: string): string => key.replace(/_([a-z])/g, (_, letter: string) => letter.toUpperCase());

/**
 * Parses the address of a service and removes trailing slashes.
 * @param from the source of the text, for the error
 * @param key the setting that the text is of; null: the source says it all
 * @throws SettingError if it is not an http or https URL, or has credentials, a query or a fragment
 */
export function parseServiceUrl(input: string, from: string, key: string | null = null): string {
  const text = input.trim();
  const url = URL.parse(text);
  const usable = url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
  if (usable && url.search === '' && url.hash === '') return url.href.replace(/\/+$/, '');
  const suggestion = suggestServiceUrl(text);
  const isSecret = /[@?#]/.test(text) || (suggestion === null && !text.includes('://') && mayBeKey(text));
  const value = isSecret ? '(hidden)' : JSON.stringify(text);
  const expected = 'an http or https URL without credentials, query or fragment';
  const advice = suggestion === null ? '' : `: did you mean ${suggestion}?`;
  const message = `${key === null ? from : `${from}: ${key}`} is ${value}: expected ${expected}${advice}`;
  throw new SettingError(message, { from, key: key ?? from, value, expected, suggestion });
}

/** The address that is probably meant by one without a scheme; null if there is none. */
function suggestServiceUrl(text: string): string | null {
  if (!/^[a-z\d.-]+(?::\d+)?(?:\/[^@?#\s]*)?$/.test(text) || !/[.:]|^localhost/.test(text)) return null;
  const isLocal = /^(?:localhost|127\.|0\.0\.0\.0)/.test(text);
  return URL.canParse(`http://${text}`) ? `${isLocal ? 'http' : 'https'}://${text}` : null;
}

/** All secrets of the settings, in every form in which they may appear in a log line. */
export function listSecrets(settings: Settings): string[] {
  const secrets = [...settingSchemas].flatMap(([path, { isSecret, kind }]) => {
    const value = isSecret === true ? readSetting(settings, path) : null;
    if (typeof value !== 'string') return [];
    if (kind === 'database') return listDatabaseSecrets(value);
    return kind === 'secret-url' ? listUrlSecrets(value) : [value];
  });
  return [...secrets, ...settings.sources.flatMap(({ upstream }) => upstream.apiKey ?? [])].filter(
    (text) => text !== '',
  );
}

/** The value of a setting by its dotted path. */
const readSetting = (settings: Settings, path: string): unknown =>
  path
    .split('.')
    .map(toCamelCase)
    .reduce<unknown>((branch, name) => (branch as SettingsBranch)[name], settings);

/** The password in the URL of a database, as it is written and as it is sent. */
function listDatabaseSecrets(url: string): string[] {
  // Greedy, because an unescaped password may contain @.
  const password = /^[a-z]+:\/\/[^:@/]*:(.*)@/is.exec(url)?.[1];
  const parameter = /[?&]password=([^&#]*)/i.exec(url)?.[1];
  return [password, parameter].flatMap((text) => (text === undefined ? [] : [text, decodePercent(text)]));
}

/** The URL and the path of a webhook or of a ping are secrets: anyone who knows them can post to it. */
function listUrlSecrets(url: string): string[] {
  const { pathname, search } = new URL(url);
  // A short path is not a secret. Redacting it would change unrelated log lines.
  return [url, ...[pathname + search, pathname].filter((text) => text.length >= 16)];
}

function decodePercent(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

/** Returns a function that removes secrets from a text. Redaction by field name would miss secrets in error messages. */
export function createRedactor(secrets: readonly string[]): (text: string) => string {
  // Redacting very short secrets would change unrelated words.
  const redactable = secrets.filter((secret) => secret.length >= 4);
  const spellings = new Set(redactable.flatMap((secret) => [secret, JSON.stringify(secret).slice(1, -1)]));
  return (text) => [...spellings].reduce((shown, secret) => shown.replaceAll(secret, '(hidden)'), text);
}
