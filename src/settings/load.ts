import { homedir, tmpdir } from 'node:os';
import { dirname, isAbsolute, join, resolve } from 'node:path';
import { UsageError } from '../base/errors.ts';
import { findSource } from '../base/source-name.ts';
import { readConfigFile, readKeyFile } from './config-file.ts';
import { toShortPath } from './environment.ts';
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
} from './layers.ts';
import { attemptStep, type ReportProblem, SettingError, throwProblem, throwProblems } from './setting-error.ts';
import {
  freezeDeep,
  nestSettings,
  parseServiceUrl,
  type Settings,
  type SourceSettings,
  type UpstreamOrigins,
} from './settings.ts';

/** A value, its setting and its source, as messages name them. */
interface SourcedValue {
  readonly value: unknown;
  readonly path: string;
  readonly from: string;
}
/** By path; those of one of several sources by that of the only service's setting. */
type MergedSettings = Map<string, SourcedValue>;

/** The sources of settings. Their texts are not parsed yet. */
export interface SettingSources {
  readonly env: Environment;
  /** Absolute path of the working folder. */
  readonly cwd: string;
  /** `--config`; overrides ODDSLAKE_CONFIG. Null: no config file. */
  readonly config?: string | null | undefined;
  /** The values of `--set key.path=value`, in order. If a key occurs more than once, the last value is used. */
  readonly set?: readonly string[] | undefined;
  /** `--output`; overrides a `--set archive.output=…`. */
  readonly output?: string | undefined;
  /** Other short forms of `--set`, which override it. A flag that was not given has no text. */
  readonly flags?: readonly (readonly [path: string, text: string | undefined, flag: string])[] | undefined;
  /** Settings from the flags of a command. They override all other sources. */
  readonly layers?: readonly SettingsLayer[] | undefined;
}

/**
 * Loads the settings of a run. Flags override the environment, which overrides the config file, which overrides the
 * defaults. Reads only the config file and the key files.
 * @throws UsageError with the source, the key, the value (`(hidden)` for a secret) and the expectation, of every problem
 */
export async function loadSettings(sources: SettingSources): Promise<Settings> {
  const { settings, errors, config, lines } = await readSettings(sources);
  throwProblems(errors, config, lines);
  return settings;
}

/** Reads the settings with every problem, and continues without the values that have one. */
export async function readSettings(sources: SettingSources) {
  const errors: UsageError[] = [];
  const report = (error: UsageError): void => void errors.push(error);
  const config = findConfigFile(sources);
  const merged = await loadMergedSettings(sources, config, report);
  const settings = await resolveSettings(sources, config, merged, report);
  return { settings, errors, config, lines: merged.lines };
}

/**
 * Resolves merged settings: relative paths, keys in files, the settings of each source. Reports each problem and continues
 * without the value.
 */
async function resolveSettings(
  sources: SettingSources,
  configFile: string | null,
  { values: merged, lines }: MergedLayers,
  report: ReportProblem,
): Promise<Settings> {
  const base = configFile === null ? sources.cwd : dirname(configFile);
  attemptStep(report, () =>
    checkAtMost(merged, 'upstream.retry_delay_seconds_min', 'upstream.retry_delay_seconds_max'),
  );
  await checkCrons(merged, report);
  const sourceNames = listSourceNames([...merged.keys()]);
  if (sourceNames.length > 0) checkSeveralSources(merged, sourceNames, report);
  const own = new Map([...merged].filter(([path]) => parseSourceName(path) === null));
  const values = resolveValues(own, base, report);
  const nested = nestSettings(values);
  const { from } = merged.get('archive.output')!;
  const { output } = nested.archive;
  const named = {
    outputNamed: from !== defaultLayer.from,
    outputFlagged: from === '--output',
    bucketUrl: output.startsWith('s3://') ? output : null,
  };
  const nameOrigins = (settings: MergedSettings) => nameUpstreamOrigins(settings, base, configFile, lines);
  return freezeDeep({
    ...nested,
    archive: { ...nested.archive, ...named },
    bucket: { ...nested.bucket, cacheDir: nested.bucket.cacheDir ?? findCacheFolder(sources.env) },
    configFile,
    sources: sourceNames.map((name) => resolveSource(merged, name, base, nameOrigins, report)),
    sourceName: null,
    upstreamFrom: nameOrigins(own),
  });
}

/** The default folder of cached objects: that of the XDG Base Directory Specification, which ignores relative paths. */
function findCacheFolder({ XDG_CACHE_HOME: xdg = '', HOME: home = '' }: Environment): string {
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
const onlyServiceSettings = ['upstream.base_url', 'upstream.api_key', 'upstream.api_key_file', 'source.name'] as const;

/** Checks what must hold if there are sources. */
function checkSeveralSources(merged: MergedSettings, names: readonly string[], report: ReportProblem): void {
  for (const path of onlyServiceSettings) {
    const { value, from } = merged.get(path)!;
    if (value === null) continue;
    const { variable } = settingSchemas.get(path)!;
    const advice =
      variable === undefined
        ? 'the names of the sources are their keys in sources'
        : `set ${path.replace('upstream', `sources.${names[0]}`)} or ${toSourceVariable(variable, names[0]!)} instead, for each source`;
    const what = `belongs to an archive of one service, and the settings have the sources ${names.join(', ')}`;
    const parts = { from, key: path, value: formatSettingValue(path, value), expected: advice };
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
  nameOrigins: (settings: MergedSettings) => UpstreamOrigins,
  report: ReportProblem,
): SourceSettings {
  const own: MergedSettings = new Map([...merged].filter(([path]) => /^(upstream|source)\./.test(path)));
  for (const [key, path] of sourceSettings) {
    // What the user can set: the only service's address and key are refused.
    const ownPath = `${sourcesKey}.${name}.${key}`;
    own.set(path, merged.get(ownPath) ?? { ...own.get(path)!, path: ownPath });
  }
  attemptStep(report, () => checkAtMost(own, 'upstream.retry_delay_seconds_min', 'upstream.retry_delay_seconds_max'));
  const { upstream, source } = nestSettings(resolveValues(own, base, report));
  return { name, upstream, source, upstreamFrom: nameOrigins(own) };
}

/** A setting that differs from the default. */
export interface ChosenSetting {
  readonly path: string;
  /** As JSON; `(hidden)` for a secret. */
  readonly value: string;
  /** Source: path of the config file, environment variable or flag. */
  readonly from: string;
}

/** Returns the settings that differ from the default. Throws as `loadSettings` does. */
export async function listChosenSettings(sources: SettingSources): Promise<ChosenSetting[]> {
  const { values } = await loadMergedSettings(sources, findConfigFile(sources));
  return [...values].flatMap(([path, { value, from }]) => {
    const isDefault = JSON.stringify(value) === JSON.stringify(findSettingSchema(path)!.default);
    return isDefault ? [] : [{ path, value: formatSettingValue(path, value), from }];
  });
}

/** The settings of all sources of settings, merged. */
interface MergedLayers {
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
  if (config === null) return null;
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

/** Parses `--set` and its short forms. */
export const parseFlagLayers = (
  { set = [], output, flags = [] }: Pick<SettingSources, 'set' | 'output' | 'flags'>,
  report: ReportProblem = throwProblem,
): SettingsLayer[] => [
  ...set.flatMap((text) => attemptStep(report, () => parseSetOption(text)) ?? []),
  ...[['archive.output', output, '--output'] as const, ...flags].flatMap(([path, text, flag]) =>
    text === undefined ? [] : (attemptStep(report, () => parseTextLayer(path, text, flag)) ?? []),
  ),
];

/** The setting of the file that may have the value of this setting instead. */
const toFileSetting = (path: string): string => `${path}_file`;

/** Settings that may also stand in a file of their own. */
const secretSettings = [...settingSchemas.keys()].filter((path) => settingSchemas.has(toFileSetting(path)));

function mergeLayers(
  levels: readonly (readonly SettingsLayer[])[],
  sources: readonly string[],
  report: ReportProblem,
): MergedSettings {
  const ofSources = sources.map((name) => `${sourcesKey}.${name}.api_key`);
  const merged: MergedSettings = new Map();
  for (const level of levels) {
    const levelValues: MergedSettings = new Map();
    for (const { from, values } of level)
      for (const [path, value] of values) levelValues.set(path, { value, path, from });
    for (const key of [...secretSettings, ...ofSources])
      attemptStep(report, () => replaceLowerKey(levelValues, merged, key, toFileSetting(key)));
    for (const [path, sourced] of levelValues) merged.set(path, sourced);
  }
  return merged;
}

/** A key and its key file are alternatives. Either of them replaces both settings of lower levels. */
function replaceLowerKey(levelValues: MergedSettings, below: MergedSettings, key: string, keyFile: string): void {
  const present = [key, keyFile].filter((path) => (levelValues.get(path)?.value ?? null) !== null);
  if (present.length > 1) {
    const { from } = levelValues.get(key)!;
    const expected = `either ${key} or ${keyFile}, not both`;
    throw new SettingError(`${from}: give ${expected}`, { from, key, value: '(hidden)', expected });
  }
  if (present.length === 0) return;
  const { from } = levelValues.get(present[0]!)!;
  for (const path of [key, keyFile]) if (path !== present[0]) below.set(path, { value: null, path, from });
}

function checkAtMost(merged: MergedSettings, lower: string, upper: string): void {
  const [low, high] = [merged.get(lower)!, merged.get(upper)!];
  if ((low.value as number) <= (high.value as number)) return;
  // Report the value that was set, not a default.
  const { path, value, from } = low.from === defaultLayer.from ? high : low;
  const expected = `${low.path} (${low.value}) to be at most ${high.path} (${high.value})`;
  throw createBadValueError(path, value, from, expected, [low.path, high.path]);
}

/** Validates the cron expressions that differ from the defaults. Loads the library only if there is one. */
async function checkCrons(merged: MergedSettings, report: ReportProblem): Promise<void> {
  for (const [path, { value, from }] of merged) {
    if (settingSchemas.get(path)?.kind !== 'cron' || typeof value !== 'string' || from === defaultLayer.from) continue;
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

/**
 * Checks and resolves texts that are addresses, keys or paths. Reports each problem; the value is then null.
 * @param own the settings of the only service, or those of a source at the paths of the only service
 * @param base folder of relative paths
 */
function resolveValues(own: MergedSettings, base: string, report: ReportProblem): Map<string, unknown> {
  const resolveValue = (setting: string, { value, path, from }: SourcedValue): unknown => {
    const { kind } = settingSchemas.get(setting)!;
    if (kind === 'link' && value === null) return findServiceUrl(own.get('service.host')!, own.get('service.port')!);
    const file = own.get(toFileSetting(setting));
    if (typeof file?.value === 'string') {
      const keyFile = resolve(base, file.value);
      const key = parseKey(readKeyFile(base, file.value, file.path), keyFile, path);
      return kind === 'secret-url' ? parseUrl(path, key, file.from) : key;
    }
    if (typeof value !== 'string') return value;
    switch (kind) {
      case 'address':
        return parseServiceUrl(value, from, path);
      case 'key':
        return parseKey(value, from, path);
      case 'secret-url':
      case 'link':
        return parseUrl(path, value.trim(), from);
      case 'path':
        return resolve(base, value);
      case 'archive':
        return value.startsWith('s3://') ? value : resolve(base, value);
      case 'database':
        return value.replace(
          /^(sqlite:)(?!\/\/[^/])(.*\S.*)$/is,
          (_, scheme: string, path: string) => scheme.toLowerCase() + resolve(base, path),
        );
      default:
        return value;
    }
  };
  return new Map(
    [...own].map(([path, sourced]) => [path, attemptStep(report, () => resolveValue(path, sourced)) ?? null]),
  );
}

/** Validates the URL of a webhook, of a ping or of a link. */
function parseUrl(path: string, text: string, from: string): string {
  const url = URL.parse(text);
  const isUsable = url !== null && /^https?:$/.test(url.protocol) && url.username === '' && url.password === '';
  if (isUsable && url.hash === '') return url.href;
  throw createBadValueError(path, text, from, 'an http or https URL without credentials or fragment');
}

/** The address of `oddslake serve` if its port is set, so that it is known. The address of all interfaces is none. */
function findServiceUrl(host: SourcedValue, port: SourcedValue): string | null {
  const name = String(host.value);
  if (port.from === defaultLayer.from || port.value === 0 || ['0.0.0.0', '::'].includes(name)) return null;
  return URL.parse(`http://${name.includes(':') ? `[${name}]` : name}:${port.value}/`)?.href ?? null;
}

/** Validates a key. It is sent in a header, where only printable ASCII is safe. */
function parseKey(text: string, from: string, key: string): string {
  const trimmed = text.trim();
  if (/^[\x20-\x7e]{1,4096}$/.test(trimmed)) return trimmed;
  throw createBadValueError(key, text, from, 'one line of 1 to 4096 printable ASCII characters');
}

/**
 * Names where the address and the key come from: a variable, a flag, a line of the config file, or a key file.
 * @param own as for `resolveValues`
 * @param base folder of relative paths
 * @param lines line of each key of the config file, counted from 1
 */
function nameUpstreamOrigins(
  own: MergedSettings,
  base: string,
  configFile: string | null,
  lines: ReadonlyMap<string, number>,
): UpstreamOrigins {
  const name = (setting: string): string | null => {
    const { value, path, from } = own.get(setting)!;
    if (value === null || from === defaultLayer.from) return null;
    if (from === '--set') return `--set ${path}`;
    if (from !== configFile) return from;
    const line = lines.get(path);
    return `${path} in ${toShortPath(from)}${line === undefined ? '' : `:${line}`}`;
  };
  const keyFile = name('upstream.api_key_file');
  const keyPath = own.get('upstream.api_key_file')!.value;
  return {
    baseUrl: name('upstream.base_url'),
    apiKey: keyFile === null ? name('upstream.api_key') : `${toShortPath(resolve(base, String(keyPath)))} (${keyFile})`,
  };
}
