import { homedir, tmpdir } from 'node:os';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { UsageError } from '../base/errors.ts';
import { findSource } from '../base/source-name.ts';
import {
  checkEmail,
  type MergedSettings,
  parseSecretUrl,
  parseTextfilePath,
  resolveCatalogueUrl,
  type SourcedValue,
} from './check-values.ts';
import { readConfigFile, readKeyFile } from './files.ts';
import { cronDescription } from './schema.ts';
import { attemptStep, type ReportProblem, SettingError, throwProblem, throwProblems } from './setting-error.ts';
import {
  freezeDeep,
  nestSettings,
  parseServiceUrl,
  type Settings,
  type SourceSettings,
  suggestServiceUrl,
} from './settings.ts';
import {
  createBadValueError,
  defaultLayer,
  type Environment,
  findSettingSchema,
  formatSettingValue,
  parseSourceName,
  parseTextLayer,
  readEnvironmentLayers,
  type SettingsLayer,
  settingSchemas,
  sourceSettings,
  sourcesKey,
  toSourceVariable,
} from './source.ts';
import { nameUpstreamOrigins, type UpstreamOrigins } from './upstream-origins.ts';

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
 * @throws UsageError with the source, the key, the value (`(hidden)` for a secret) and the expectation, of every problem
 */
export async function loadSettings(sources: SettingSources): Promise<Settings> {
  const errors: UsageError[] = [];
  const report = (error: UsageError): void => void errors.push(error);
  const configFile = findConfigFile(sources);
  const merged = await loadMergedSettings(sources, configFile, report);
  const settings = await resolveSettings(sources, configFile, merged, report);
  throwProblems(errors, configFile, merged.lines);
  return settings;
}

/**
 * Resolves merged settings: relative paths, keys in files, the settings of each source. Reports each problem and continues
 * without the value.
 */
export async function resolveSettings(
  sources: SettingSources,
  configFile: string | null,
  { values: merged, lines }: MergedLayers,
  report: ReportProblem,
): Promise<Settings> {
  const base = configFile === null ? sources.cwd : dirname(configFile);
  const attempt = <T>(step: () => T): T | null => attemptStep(report, step) ?? null;
  for (const [lower, upper] of orderedSettings) attempt(() => checkAtMost(merged, lower, upper));
  await checkCrons(merged, report);
  const sourceNames = listSourceNames([...merged.keys()]);
  if (sourceNames.length > 0) checkSeveralSources(merged, sourceNames, report);
  const settingPaths = [...merged].filter(([path]) => parseSourceName(path) === null);
  const values = new Map(settingPaths.map(([path, { value }]) => [path, value]));
  values.set(
    'upstream.base_url',
    attempt(() => resolveBaseUrl(merged.get('upstream.base_url')!)),
  );
  for (const { key, keyFile } of secretSettings) {
    values.set(
      key,
      attempt(() => readApiKey(merged, base, key, keyFile)),
    );
    const file = values.get(keyFile);
    if (typeof file === 'string') values.set(keyFile, resolve(base, file));
  }
  const keySet = values.get('service.tokens.jwks_file');
  if (typeof keySet === 'string') values.set('service.tokens.jwks_file', resolve(base, keySet));
  const database = /^sqlite:(?!\/\/[^/])(.*\S.*)$/is.exec(
    (values.get('service.database_url') as string | null) ?? '',
  )?.[1];
  if (database !== undefined) values.set('service.database_url', `sqlite:${resolve(base, database)}`);
  for (const key of ['notify.webhook_url', 'notify.ping_url', 'notify.ping_start_url', 'notify.ping_fail_url']) {
    const url = values.get(key) as string | null;
    values.set(
      key,
      attempt(() => parseSecretUrl(key, url, merged)),
    );
  }
  attempt(() => checkEmail(values, merged));
  values.set(
    'report.catalogue_url',
    attempt(() => resolveCatalogueUrl(merged)),
  );
  values.set(
    'metrics.textfile',
    attempt(() => parseTextfilePath(merged.get('metrics.textfile')!, base)),
  );
  const output = values.get('archive.output') as string;
  const bucketUrl = output.startsWith('s3://') ? output : null;
  values.set('archive.output', bucketUrl ?? resolve(base, output));
  const cacheDir = resolveCacheFolder(values.get('bucket.cache_dir') as string | null, base, sources.env);

  const nested = nestSettings(values);
  const { from } = merged.get('archive.output')!;
  const named = { outputNamed: from !== defaultLayer.from, outputFlagged: from === '--output', bucketUrl };
  const nameOrigins = (paths?: ReadonlyMap<string, string>) =>
    nameUpstreamOrigins(merged, base, configFile, lines, paths);
  const resolved = {
    sources: sourceNames.map((name) => resolveSource(merged, name, base, nameOrigins, report)),
    sourceName: null,
    upstreamFrom: nameOrigins(),
  };
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
  return join(isAbsolute(xdg) ? xdg : join(home === '' ? findHomeFolder() : home, '.cache'), 'oddslake', 'objects');
}

/** A container may run as a user without an entry in /etc/passwd, who has no home folder. */
function findHomeFolder(): string {
  try {
    return homedir();
  } catch {
    return tmpdir();
  }
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

/** Checks what must hold if there are sources. */
function checkSeveralSources(merged: MergedSettings, names: readonly string[], report: ReportProblem): void {
  for (const [path, key] of onlyServiceSettings) {
    const { value, from } = merged.get(path)!;
    if (value === null) continue;
    const advice =
      key === null
        ? 'the names of the sources are their keys in sources'
        : `set sources.${names[0]}.${key} or ${toSourceVariable(key, names[0]!)} instead, for each source`;
    const what = `belongs to an archive of one service, and the settings have the sources ${names.join(', ')}`;
    const parts = { from, key: path, value: formatSettingValue(path, value), expected: advice, suggestion: null };
    report(new SettingError(`${from}: ${path} ${what}: ${advice}`, parts));
  }
  for (const path of ['symbols', 'orderbooks.symbols']) {
    const { value, from } = merged.get(path)!;
    const symbols = value as readonly string[];
    const found = symbols.map((symbol) => findSource(symbol, names));
    const unqualified = symbols[found.indexOf(null)];
    if (unqualified !== undefined)
      report(createBadValueError(path, unqualified, from, `a symbol with its source, e.g. ${names[0]}:${unqualified}`));
    // Without symbols, the market lists of a source name those to poll. It must be clear whether this is wanted.
    const missing = names.find((name) => !found.includes(name));
    if (unqualified === undefined && path === 'symbols' && symbols.length > 0 && missing !== undefined)
      report(createBadValueError(path, value, from, `symbols of every source, or none at all: ${missing} has none`));
  }
}

/** Resolves the settings of one of several sources. Those that it does not have are those of all sources. */
function resolveSource(
  merged: MergedSettings,
  name: string,
  base: string,
  nameOrigins: (paths: ReadonlyMap<string, string>) => UpstreamOrigins,
  report: ReportProblem,
): SourceSettings {
  const attempt = <T>(step: () => T): T | null => attemptStep(report, step) ?? null;
  const own: MergedSettings = new Map([...merged].filter(([path]) => /^(upstream|source)\./.test(path)));
  // What the user can set: the only service's address and key are refused.
  const paths = new Map<string, string>();
  for (const [key, path] of sourceSettings) {
    const sourced = merged.get(`${sourcesKey}.${name}.${key}`);
    if (sourced !== undefined) own.set(path, { ...sourced, from: `${sourced.from}, source ${name}` });
    paths.set(path, `${sourcesKey}.${name}.${key}`);
  }
  attempt(() => checkAtMost(own, 'upstream.retry_delay_seconds_min', 'upstream.retry_delay_seconds_max'));
  const values = new Map([...own].map(([path, { value }]) => [path, value]));
  const toPath = (path: string): string => paths.get(path) ?? path;
  const address = own.get('upstream.base_url')!;
  values.set(
    'upstream.base_url',
    attempt(() => resolveBaseUrl(address, toPath('upstream.base_url'))),
  );
  const readKey = () => readApiKey(own, base, 'upstream.api_key', 'upstream.api_key_file', toPath);
  values.set('upstream.api_key', attempt(readKey));
  const file = values.get('upstream.api_key_file');
  if (typeof file === 'string') values.set('upstream.api_key_file', resolve(base, file));
  const { upstream, source } = nestSettings(values);
  return { name, upstream, source, upstreamFrom: nameOrigins(paths) };
}

/**
 * Returns the settings that differ from the default: path, value as JSON (`(hidden)` for a secret) and source. Throws as
 * `loadSettings` does.
 */
export async function listChosenSettings(
  sources: SettingSources,
): Promise<{ path: string; value: string; from: string }[]> {
  const { values } = await loadMergedSettings(sources, findConfigFile(sources));
  return [...values].flatMap(([path, { value, from }]) => {
    const isDefault = JSON.stringify(value) === JSON.stringify(findSettingSchema(path)!.default);
    return isDefault ? [] : [{ path, value: formatSettingValue(path, value), from }];
  });
}

/** The settings of all sources of settings, merged. */
export interface MergedLayers {
  readonly values: MergedSettings;
  /** Line of each key of the config file, counted from 1. */
  readonly lines: ReadonlyMap<string, number>;
}

/** Reads and merges all sources of settings. Reports each problem and continues without the value. */
export async function loadMergedSettings(
  sources: SettingSources,
  configFile: string | null,
  report: ReportProblem = throwProblem,
): Promise<MergedLayers> {
  const config = configFile === null ? [] : await readConfigFile(configFile, report);
  const flags = parseFlagLayers(sources, report);
  const layers = [...(sources.layers ?? [])];
  // The config and the flags name the sources. A variable alone does not: other programs may use a similar one.
  const names = listSourceNames([...config, ...flags, ...layers].flatMap(({ values }) => [...values.keys()]));
  const environment = readEnvironmentLayers(sources.env, names, report);
  const values = mergeLayers([[defaultLayer], config, environment, flags, layers], names, report);
  return { values, lines: config[0]?.lines ?? new Map() };
}

/** Absolute path of the config file; null if none is named. */
export function findConfigFile({ config, env, cwd }: SettingSources): string | null {
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

function parseFlagLayers({ set = [], output, logLevel }: SettingSources, report: ReportProblem): SettingsLayer[] {
  const flags = [
    ['archive.output', output, '--output'],
    ['log.level', logLevel, '--log-level'],
  ] as const;
  return [
    ...set.flatMap((text) => attemptStep(report, () => parseSetOption(text)) ?? []),
    ...flags.flatMap(([path, text, flag]) =>
      text === undefined ? [] : (attemptStep(report, () => parseTextLayer(path, text, flag)) ?? []),
    ),
  ];
}

/** Settings that contain a key, each with the setting of its key file. */
const secretSettings: readonly { readonly key: string; readonly keyFile: string }[] = [
  { key: 'upstream.api_key', keyFile: 'upstream.api_key_file' },
  { key: 'repair.from_api_key', keyFile: 'repair.from_api_key_file' },
  { key: 'notify.webhook_url', keyFile: 'notify.webhook_url_file' },
  { key: 'notify.ping_url', keyFile: 'notify.ping_url_file' },
  { key: 'notify.email.smtp_url', keyFile: 'notify.email.smtp_url_file' },
];

function mergeLayers(
  levels: readonly (readonly SettingsLayer[])[],
  sources: readonly string[],
  report: ReportProblem,
): MergedSettings {
  const ofSources = sources.map((name) => ({
    key: `${sourcesKey}.${name}.api_key`,
    keyFile: `${sourcesKey}.${name}.api_key_file`,
  }));
  const merged: MergedSettings = new Map();
  for (const level of levels) {
    const levelValues: MergedSettings = new Map();
    for (const { from, values } of level) for (const [path, value] of values) levelValues.set(path, { value, from });
    for (const { key, keyFile } of [...secretSettings, ...ofSources])
      attemptStep(report, () => replaceLowerKey(levelValues, merged, key, keyFile));
    for (const [path, sourced] of levelValues) merged.set(path, sourced);
  }
  return merged;
}

/** A key and its key file are alternatives. Either of them replaces both settings of lower levels. */
function replaceLowerKey(levelValues: MergedSettings, below: MergedSettings, key: string, keyFile: string): void {
  const present = [key, keyFile].filter((path) => (levelValues.get(path)?.value ?? null) !== null);
  if (present.length > 1) {
    const { from } = levelValues.get(key)!;
    const parts = { from, key, value: '(hidden)', expected: `either ${key} or ${keyFile}, not both`, suggestion: null };
    throw new SettingError(`${from}: give ${parts.expected}`, parts);
  }
  if (present.length === 0) return;
  const { from } = levelValues.get(present[0]!)!;
  for (const path of [key, keyFile]) if (path !== present[0]) below.set(path, { value: null, from });
}

/** Pairs of settings of which the first is at most the second. */
const orderedSettings = [
  ['archive.settle_minutes', 'poll.overlap_minutes'],
  ['upstream.retry_delay_seconds_min', 'upstream.retry_delay_seconds_max'],
] as const;

function checkAtMost(merged: MergedSettings, lower: string, upper: string): void {
  const [low, high] = [merged.get(lower)!, merged.get(upper)!];
  if ((low.value as number) <= (high.value as number)) return;
  // Report the value that was set, not a default.
  const [path, { value, from }] = low.from === defaultLayer.from ? [upper, high] : [lower, low];
  const expected = `${lower} (${low.value}) to be at most ${upper} (${high.value})`;
  throw createBadValueError(path, value, from, expected, [lower, upper]);
}

const isCronSetting = (path: string): boolean => settingSchemas.get(path)?.anyOf?.[0]?.description === cronDescription;

/** Validates the cron expressions that differ from the defaults. Loads the library only if there is one. */
async function checkCrons(merged: MergedSettings, report: ReportProblem): Promise<void> {
  for (const [path, { value, from }] of merged) {
    if (!isCronSetting(path) || typeof value !== 'string' || from === defaultLayer.from) continue;
    const { parseCron } = await import('./cron.ts');
    try {
      parseCron(value);
    } catch (error) {
      const why = (error as Error).message;
      const expected = `a cron expression of five fields, in UTC, e.g. "17 3 * * *": ${why}`;
      report(createBadValueError(path, value, from, expected));
    }
  }
}

/** Expected format of an address, for messages. */
const addressExpected = 'an http or https URL without credentials, query or fragment';

function resolveBaseUrl({ value, from }: SourcedValue, path = 'upstream.base_url'): string | null {
  if (value === null) return null;
  try {
    return parseServiceUrl(value as string, `${from}: ${path}`);
  } catch (error) {
    const shown = /[@?#]/.test(value as string) ? '(hidden)' : formatSettingValue(path, value);
    const suggestion = suggestServiceUrl(value as string);
    const parts = { from, key: path, value: shown, expected: addressExpected, suggestion };
    throw new SettingError((error as Error).message, parts);
  }
}

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
