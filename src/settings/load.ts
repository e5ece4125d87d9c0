import { closeSync, openSync, readSync } from 'node:fs';
import { homedir } from 'node:os';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { UsageError } from '../base/errors.ts';
import { findSource } from '../base/source-name.ts';
import { cronDescription } from './schema.ts';
import { freezeDeep, nestSettings, parseServiceUrl, type Settings, type SourceSettings } from './settings.ts';
import {
  createBadValueError,
  defaultLayer,
  type Environment,
  findSettingSchema,
  formatSettingValue,
  parseDocumentLayer,
  parseSourceName,
  parseTextLayer,
  readEnvironmentLayers,
  type SettingsLayer,
  settingSchemas,
  sourceSettings,
  sourcesKey,
  toSourceVariable,
} from './source.ts';

/** The sources of settings. Their texts are not parsed yet. */
export interface SettingSources {
  readonly env: Environment;
  /** Absolute path of the working folder. */
  readonly cwd: string;
  /** `--config`; overrides ODDSLAKE_CONFIG. */
  readonly config?: string | undefined;
  /** `--output`; overrides a `--set archive.output=…`. */
  readonly output?: string | undefined;
  /** `--log-level`; overrides a `--set log.level=…`. */
  readonly logLevel?: string | undefined;
  /** The values of `--set key.path=value`, in order. If a key occurs more than once, the last value is used. */
  readonly set?: readonly string[] | undefined;
  /** Settings from the flags of a command. They override all other sources. */
  readonly layers?: readonly SettingsLayer[] | undefined;
}

/**
 * Loads the settings of a run. Flags override the environment, which overrides the config file, which overrides the
 * defaults. Reads only the config file and the key files.
 * @throws UsageError with the source, the key, the value (`(hidden)` for a secret) and the expectation
 */
export async function loadSettings(sources: SettingSources): Promise<Settings> {
  const configFile = findConfigFile(sources);
  const base = configFile === null ? sources.cwd : dirname(configFile);
  const merged = await loadMergedSettings(sources, configFile);
  checkDependentSettings(merged);
  await checkCrons(merged);
  const sourceNames = listSourceNames([...merged.keys()]);
  if (sourceNames.length > 0) checkSeveralSources(merged, sourceNames);
  const settingPaths = [...merged].filter(([path]) => parseSourceName(path) === null);
  const values = new Map(settingPaths.map(([path, { value }]) => [path, value]));
  values.set('upstream.base_url', resolveBaseUrl(merged.get('upstream.base_url')!));
  for (const { key, keyFile } of secretSettings) {
    values.set(key, readApiKey(merged, base, key, keyFile));
    const file = values.get(keyFile);
    if (typeof file === 'string') values.set(keyFile, resolve(base, file));
  }
  const keySet = values.get('service.tokens.jwks_file');
  if (typeof keySet === 'string') values.set('service.tokens.jwks_file', resolve(base, keySet));
  const database = /^sqlite:(?!\/\/[^/])(.*\S.*)$/is.exec(
    (values.get('service.database_url') as string | null) ?? '',
  )?.[1];
  if (database !== undefined) values.set('service.database_url', `sqlite:${resolve(base, database)}`);
  values.set('notify.webhook_url', parseWebhookUrl(values.get('notify.webhook_url') as string | null, merged));
  values.set('report.catalogue_url', parseCatalogueUrl(merged.get('report.catalogue_url')!));
  values.set('metrics.textfile', parseTextfilePath(merged.get('metrics.textfile')!, base));
  const output = values.get('archive.output') as string;
  const bucketUrl = output.startsWith('s3://') ? output : null;
  values.set('archive.output', bucketUrl ?? resolve(base, output));
  const cacheDir = resolveCacheFolder(values.get('bucket.cache_dir') as string | null, base, sources.env);

  const nested = nestSettings(values);
  const { from } = merged.get('archive.output')!;
  const named = { outputNamed: from !== defaultLayer.from, outputFlagged: from === '--output', bucketUrl };
  const resolved = { sources: sourceNames.map((name) => resolveSource(merged, name, base)), sourceName: null };
  return freezeDeep({
    ...nested,
    archive: { ...nested.archive, ...named },
    bucket: { ...nested.bucket, cacheDir },
    configFile,
    ...resolved,
  });
}

/** The folder of cached objects; by default in that of the XDG Base Directory Specification, which ignores relative paths. */
function resolveCacheFolder(
  folder: string | null,
  base: string,
  { XDG_CACHE_HOME: xdg = '', HOME: home = '' }: Environment,
): string {
  if (folder !== null) return resolve(base, folder);
  return join(isAbsolute(xdg) ? xdg : join(home === '' ? homedir() : home, '.cache'), 'oddslake', 'objects');
}

/** The names of the sources among setting paths, in order. */
const listSourceNames = (paths: readonly string[]): string[] => [
  ...new Set(paths.flatMap((path) => parseSourceName(path) ?? [])),
];

/** Settings of an archive's only service. Each of several sources has its own: a key must not reach another service. */
const onlyServiceSettings = [
  ['upstream.base_url', 'base_url'],
  ['upstream.api_key', 'api_key'],
  ['upstream.api_key_file', 'api_key_file'],
  ['source.name', null],
] as const;

/** Checks what must hold if there are sources. Throws UsageError. */
function checkSeveralSources(merged: MergedSettings, names: readonly string[]): void {
  for (const [path, key] of onlyServiceSettings) {
    const { value, from } = merged.get(path)!;
    if (value === null) continue;
    const advice =
      key === null
        ? 'the names of the sources are their keys in sources'
        : `set sources.${names[0]}.${key} or ${toSourceVariable(key, names[0]!)} instead, for each source`;
    throw new UsageError(
      `${from}: ${path} belongs to an archive of one service, and the settings have the sources ${names.join(', ')}: ${advice}`,
    );
  }
  for (const path of ['symbols', 'orderbooks.symbols']) {
    const { value, from } = merged.get(path)!;
    const symbols = value as readonly string[];
    const found = symbols.map((symbol) => findSource(symbol, names));
    const unqualified = symbols[found.indexOf(null)];
    if (unqualified !== undefined)
      throw createBadValueError(path, unqualified, from, `a symbol with its source, e.g. ${names[0]}:${unqualified}`);
    // Without symbols, the market lists of a source name those to poll. It must be clear whether this is wanted.
    const missing = names.find((name) => !found.includes(name));
    if (path === 'symbols' && symbols.length > 0 && missing !== undefined)
      throw createBadValueError(path, value, from, `symbols of every source, or none at all: ${missing} has none`);
  }
}

/** Resolves the settings of one of several sources. Those that it does not have are those of all sources. */
function resolveSource(merged: MergedSettings, name: string, base: string): SourceSettings {
  const own: MergedSettings = new Map([...merged].filter(([path]) => /^(upstream|source)\./.test(path)));
  // What the user can set: the only service's address and key are refused.
  const paths = new Map<string, string>();
  for (const [key, path] of sourceSettings) {
    const sourced = merged.get(`${sourcesKey}.${name}.${key}`);
    if (sourced !== undefined) own.set(path, { ...sourced, from: `${sourced.from}, source ${name}` });
    paths.set(path, `${sourcesKey}.${name}.${key}`);
  }
  checkAtMost(own, 'upstream.retry_delay_seconds_min', 'upstream.retry_delay_seconds_max');
  const values = new Map([...own].map(([path, { value }]) => [path, value]));
  const toPath = (path: string): string => paths.get(path) ?? path;
  values.set('upstream.base_url', resolveBaseUrl(own.get('upstream.base_url')!, toPath('upstream.base_url')));
  values.set('upstream.api_key', readApiKey(own, base, 'upstream.api_key', 'upstream.api_key_file', toPath));
  const file = values.get('upstream.api_key_file');
  if (typeof file === 'string') values.set('upstream.api_key_file', resolve(base, file));
  const { upstream, source } = nestSettings(values);
  return { name, upstream, source };
}

/**
 * Returns the settings that differ from the default: path, value as JSON (`(hidden)` for a secret) and source. Throws as
 * `loadSettings` does.
 */
export async function listChosenSettings(
  sources: SettingSources,
): Promise<{ path: string; value: string; from: string }[]> {
  const merged = await loadMergedSettings(sources, findConfigFile(sources));
  return [...merged].flatMap(([path, { value, from }]) => {
    const isDefault = JSON.stringify(value) === JSON.stringify(findSettingSchema(path)!.default);
    return isDefault ? [] : [{ path, value: formatSettingValue(path, value), from }];
  });
}

async function loadMergedSettings(sources: SettingSources, configFile: string | null): Promise<MergedSettings> {
  const config = configFile === null ? [] : [await readConfigFile(configFile)];
  const flags = parseFlagLayers(sources);
  const layers = [...(sources.layers ?? [])];
  // The config and the flags name the sources. A variable alone does not: other programs may use a similar one.
  const names = listSourceNames([...config, ...flags, ...layers].flatMap(({ values }) => [...values.keys()]));
  return mergeLayers([[defaultLayer], config, readEnvironmentLayers(sources.env, names), flags, layers], names);
}

/** A value and its source. */
interface SourcedValue {
  readonly value: unknown;
  readonly from: string;
}
type MergedSettings = Map<string, SourcedValue>;

function findConfigFile({ config, env, cwd }: SettingSources): string | null {
  if (config === '') throw new UsageError('--config "": expected the path of a config file');
  const named = config ?? env.ODDSLAKE_CONFIG?.trim() ?? '';
  return named === '' ? null : resolve(cwd, named);
}

/** Parses one `--set key.path=value`. Throws UsageError for an unknown key or an invalid value. */
export function parseSetOption(text: string): SettingsLayer {
  const at = text.indexOf('=');
  // Without a key the text may be a secret, so the message does not show it.
  if (at <= 0) throw new UsageError('--set: expected key.path=value, e.g. --set poll.overlap_minutes=90');
  return parseTextLayer(text.slice(0, at).trim(), text.slice(at + 1), '--set');
}

function parseFlagLayers({ set = [], output, logLevel }: SettingSources): SettingsLayer[] {
  const layers = set.map(parseSetOption);
  if (output !== undefined) layers.push(parseTextLayer('archive.output', output, '--output'));
  if (logLevel !== undefined) layers.push(parseTextLayer('log.level', logLevel, '--log-level'));
  return layers;
}

/** Settings that contain a key, each with the setting of its key file. */
const secretSettings: readonly { readonly key: string; readonly keyFile: string }[] = [
  { key: 'upstream.api_key', keyFile: 'upstream.api_key_file' },
  { key: 'repair.from_api_key', keyFile: 'repair.from_api_key_file' },
  { key: 'notify.webhook_url', keyFile: 'notify.webhook_url_file' },
];

function mergeLayers(levels: readonly (readonly SettingsLayer[])[], sources: readonly string[]): MergedSettings {
  const ofSources = sources.map((name) => ({
    key: `${sourcesKey}.${name}.api_key`,
    keyFile: `${sourcesKey}.${name}.api_key_file`,
  }));
  const merged: MergedSettings = new Map();
  for (const level of levels) {
    const levelValues: MergedSettings = new Map();
    for (const { from, values } of level) for (const [path, value] of values) levelValues.set(path, { value, from });
    for (const { key, keyFile } of [...secretSettings, ...ofSources])
      replaceLowerKey(levelValues, merged, key, keyFile);
    for (const [path, sourced] of levelValues) merged.set(path, sourced);
  }
  return merged;
}

/** A key and its key file are alternatives. Either of them replaces both settings of lower levels. */
function replaceLowerKey(levelValues: MergedSettings, below: MergedSettings, key: string, keyFile: string): void {
  const present = [key, keyFile].filter((path) => (levelValues.get(path)?.value ?? null) !== null);
  if (present.length > 1)
    throw new UsageError(`${levelValues.get(key)!.from}: give either ${key} or ${keyFile}, not both`);
  if (present.length === 0) return;
  const { from } = levelValues.get(present[0]!)!;
  for (const path of [key, keyFile]) if (path !== present[0]) below.set(path, { value: null, from });
}

function checkDependentSettings(merged: MergedSettings): void {
  checkAtMost(merged, 'archive.settle_minutes', 'poll.overlap_minutes');
  checkAtMost(merged, 'upstream.retry_delay_seconds_min', 'upstream.retry_delay_seconds_max');
}

function checkAtMost(merged: MergedSettings, lower: string, upper: string): void {
  const [low, high] = [merged.get(lower)!, merged.get(upper)!];
  if ((low.value as number) <= (high.value as number)) return;
  // Report the value that was set, not a default.
  const [path, { value, from }] = low.from === defaultLayer.from ? [upper, high] : [lower, low];
  throw createBadValueError(path, value, from, `${lower} (${low.value}) to be at most ${upper} (${high.value})`);
}

const isCronSetting = (path: string): boolean => settingSchemas.get(path)?.anyOf?.[0]?.description === cronDescription;

/** Validates the cron expressions that differ from the defaults. Loads the library only if there is one. */
async function checkCrons(merged: MergedSettings): Promise<void> {
  for (const [path, { value, from }] of merged) {
    if (!isCronSetting(path) || typeof value !== 'string' || from === defaultLayer.from) continue;
    const { parseCron } = await import('./cron.ts');
    try {
      parseCron(value);
    } catch (error) {
      const why = (error as Error).message;
      throw createBadValueError(
        path,
        value,
        from,
        `a cron expression of five fields, in UTC, e.g. "17 3 * * *": ${why}`,
      );
    }
  }
}

const resolveBaseUrl = ({ value, from }: SourcedValue, path = 'upstream.base_url'): string | null =>
  value === null ? null : parseServiceUrl(value as string, `${from}: ${path}`);

/** @param toPath the path of a setting in messages */
function readApiKey(
  merged: MergedSettings,
  base: string,
  key: string,
  keyFile: string,
  toPath: (path: string) => string = (path) => path,
): string | null {
  const file = merged.get(keyFile)!;
  if (file.value !== null) {
    const path = resolve(base, file.value as string);
    return parseKey(readKeyFile(path, toPath(keyFile)), path, toPath(key));
  }
  const { value, from } = merged.get(key)!;
  return value === null ? null : parseKey(value as string, from, toPath(key));
}

/** Validates a key. It is sent in a header, where only printable ASCII is safe. */
function parseKey(text: string, from: string, key: string): string {
  const trimmed = text.trim();
  if (/^[\x20-\x7e]{1,4096}$/.test(trimmed)) return trimmed;
  throw createBadValueError(key, text, from, 'one line of 1 to 4096 printable ASCII characters');
}

/** Validates the webhook URL. Its path and query are secret. */
function parseWebhookUrl(text: string | null, merged: MergedSettings): string | null {
  if (text === null) return null;
  const url = URL.parse(text);
  const usable = url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
  if (usable && url.hash === '') return url.href;
  const { from } = merged.get(
    merged.get('notify.webhook_url_file')!.value === null ? 'notify.webhook_url' : 'notify.webhook_url_file',
  )!;
  throw createBadValueError('notify.webhook_url', text, from, 'an http or https URL without credentials or fragment');
}

/** Validates the address of the catalogue, which becomes a link. */
function parseCatalogueUrl({ value, from }: SourcedValue): string | null {
  if (value === null) return null;
  const url = URL.parse(value as string);
  if (url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '') return url.href;
  throw createBadValueError('report.catalogue_url', value, from, 'an http or https URL without credentials');
}

/** Validates the path of the textfile. The node exporter silently ignores files that do not end with .prom. */
function parseTextfilePath({ value, from }: SourcedValue, base: string): string | null {
  if (typeof value !== 'string') return null;
  if (value.endsWith('.prom')) return resolve(base, value);
  throw createBadValueError(
    'metrics.textfile',
    value,
    from,
    'a path that ends with .prom, which is what the node exporter reads',
  );
}

const configBytesMax = 4 * 1024 * 1024;
const keyBytesMax = 16 * 1024;

/** Reads a config file. Throws UsageError if it is missing, unreadable or not YAML, or has invalid settings. */
export async function readConfigFile(path: string): Promise<SettingsLayer> {
  const text = readText(path, 'config file', configBytesMax);
  const { parse } = await import('yaml');
  let document: unknown;
  try {
    document = parse(text, { prettyErrors: true, stringKeys: true, logLevel: 'error' });
  } catch (error) {
    // The message of the parser quotes the line, which may contain a key.
    const { code, linePos } = error as { code?: string; linePos?: { line: number; col: number }[] };
    const at = linePos?.[0] === undefined ? '' : ` at line ${linePos[0].line}, column ${linePos[0].col}`;
    throw new UsageError(`${path}: not valid YAML${at} (${code ?? 'unreadable'})`);
  }
  return parseDocumentLayer(document, path);
}

/** Reads a key file. `setting` names it in messages. Throws UsageError if it is missing or unreadable. */
export const readKeyFile = (path: string, setting: string): string => readText(path, setting, keyBytesMax);

const readFailureReasons: Readonly<Record<string, string>> = {
  ENOENT: 'there is no such file',
  EISDIR: 'it is a folder, not a file',
  EACCES: 'it cannot be read: permission denied',
};

function readText(path: string, what: string, bytesMax: number): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(readBounded(path, bytesMax));
  } catch (error) {
    const { code, message } = error as NodeJS.ErrnoException;
    const why = readFailureReasons[code ?? ''] ?? `cannot be read (${code ?? message})`;
    throw new UsageError(`${what} ${path}: ${why}`, { cause: error });
  }
}

function readBounded(path: string, bytesMax: number): Buffer {
  const file = openSync(path, 'r');
  try {
    const buffer = Buffer.alloc(bytesMax + 1);
    let length = 0;
    // A pipe, such as a shell's <(…), returns partial reads.
    for (let read = -1; read !== 0 && length <= bytesMax; length += read) {
      read = readSync(file, buffer, length, buffer.length - length, null);
    }
    if (length > bytesMax) throw new Error(`longer than ${bytesMax} bytes`);
    return buffer.subarray(0, length);
  } finally {
    closeSync(file);
  }
}
