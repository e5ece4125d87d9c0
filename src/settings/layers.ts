import type { UsageError } from '../base/errors.ts';
import { findNearestName } from '../base/nearest-name.ts';
import { isSourceName, sourceNameRule } from '../base/source-name.ts';
import { selectorPattern, suggestSelector } from '../base/symbol-selector.ts';
import { attemptStep, type ReportProblem, SettingError, throwProblem } from './setting-error.ts';
import { type LeafSchema, type SectionSchema, settingsSchema } from './setting-table.ts';

/** Validated settings of one source, by dotted snake_case path. `from` names the source in messages. */
export interface SettingsLayer {
  readonly from: string;
  readonly values: ReadonlyMap<string, unknown>;
  /** Line of each key of a config file, counted from 1, also of unknown keys. */
  readonly lines?: ReadonlyMap<string, number>;
}

/** The schema of each setting by dotted path, in schema order. */
export const settingSchemas: ReadonlyMap<string, LeafSchema> = new Map(listLeaves(settingsSchema, ''));

export const defaultLayer: SettingsLayer = {
  from: 'the defaults',
  values: new Map([...settingSchemas].map(([path, leaf]) => [path, leaf.default])),
};

/**
 * The settings of one of several sources, by their key below `sources.NAME`: those of the sections upstream and source,
 * whose values are the defaults.
 */
export const sourceSettings: ReadonlyMap<string, string> = new Map(
  [...settingSchemas].flatMap(([path, { isOfArchive }]): [string, string][] => {
    const key = /^(?:upstream|source)\.(.+)$/.exec(path)?.[1];
    return key === undefined || isOfArchive === true ? [] : [[key, path]];
  }),
);

/** The section in which each key is the name of a source. */
export const sourcesKey = 'sources';

const sourcePathPattern = /^sources\.([^.]*)(?:\.(.+))?$/s;

/** The name of the source that a path belongs to; null for any other setting. */
export const parseSourceName = (path: string): string | null => sourcePathPattern.exec(path)?.[1] ?? null;

/** The schema of a setting, also of one of a source; undefined if there is no such setting. */
export function findSettingSchema(path: string): LeafSchema | undefined {
  const [, name, key] = sourcePathPattern.exec(path) ?? [];
  if (name === undefined) return settingSchemas.get(path);
  return isSourceName(name) ? settingSchemas.get(sourceSettings.get(key ?? '') ?? '') : undefined;
}

/** Validates a document of nested sections, as in a config file. Reports each problem; by default, throws UsageError. */
export function parseDocumentLayer(
  document: unknown,
  from: string,
  report: ReportProblem = throwProblem,
): SettingsLayer {
  const values = new Map<string, unknown>();
  const visit = (path: string, value: unknown): void => {
    const leaf = findSettingSchema(path);
    if (leaf !== undefined) {
      attemptStep(report, () => {
        checkValue(path, leaf, value, from);
        values.set(path, value);
      });
      return;
    }
    const expected = describeSection(path);
    if (expected === null) report(createUnknownKeyError(path, from));
    // YAML parses a section as null if all of its settings are commented out.
    else if (value === null || value === undefined) return;
    else if (typeof value !== 'object' || Array.isArray(value))
      report(createBadValueError(path || 'the file', value, from, expected));
    else for (const [key, inner] of Object.entries(value)) visitMember(path, key, inner);
  };
  const visitMember = (section: string, key: string, value: unknown): void => {
    const path = section === '' ? key : `${section}.${key}`;
    if (section === sourcesKey && !isSourceName(key)) report(createSourceNameError(key, from));
    else if (!/^[^.]+$/s.test(key)) report(createUnknownKeyError(path, from));
    else {
      // A source without any setting is known too: variables may set its address.
      if (section === sourcesKey) values.set(`${path}.base_url`, null);
      visit(path, value);
    }
  };
  visit('', document);
  return { from, values };
}

/** What a section consists of; null if there is no such section. */
function describeSection(path: string): string | null {
  if (path === sourcesKey)
    return 'a section with one section for each source, e.g. alpha: {base_url: https://example.org}';
  const prefix = path === '' ? '' : `${path}.`;
  const inside = listKnownPaths(path).filter((known) => known.startsWith(prefix));
  const names = new Set(inside.map((known) => known.slice(prefix.length).replace(/\..*/s, '')));
  return names.size === 0 ? null : `a section with ${[...names].join(', ')}`;
}

/** The paths of all settings: those of its source for a path of one, otherwise those of the only service. */
function listKnownPaths(path: string): string[] {
  const source = parseSourceName(path);
  if (source === null) return [...settingSchemas.keys()];
  return [...sourceSettings.keys()].map((name) => `${sourcesKey}.${source}.${name}`);
}

function createSourceNameError(name: string, from: string): UsageError {
  const value = JSON.stringify(clipText(name));
  const parts = { from, key: `${sourcesKey}.${clipText(name)}`, value, expected: sourceNameRule };
  return new SettingError(`${from}: ${sourcesKey} has ${value}: expected ${sourceNameRule}`, parts);
}

/**
 * Parses and validates one setting that is given as text, as in the environment and in flags.
 * @param from the source, e.g. `--set` or `ODDSLAKE_OUTPUT`
 * @throws UsageError for an unknown key or an invalid value
 */
export function parseTextLayer(path: string, text: string, from: string): SettingsLayer {
  const leaf = findSettingSchema(path);
  if (leaf === undefined) throw createUnknownKeyError(path, from);
  const value = parseSettingText(leaf, text);
  checkValue(path, leaf, value, from);
  return { from, values: new Map([[path, value]]) };
}

/** Creates the error for an invalid value. The message contains the source, the setting, the value and the expectation. */
export function createBadValueError(
  path: string,
  value: unknown,
  from: string,
  expected: string,
  comparedWith: readonly string[] = [],
): UsageError {
  const { type = 'array' } = findSettingSchema(path)?.anyOf?.[0] ?? findSettingSchema(path) ?? {};
  const isNoKey = /string|array/.test(type) || typeof value !== 'string' || !mayBeKey(value);
  const shown = isNoKey ? formatSettingValue(path, value) : '(hidden)';
  const suggestion = suggestValue(path, value);
  const advice = suggestion === null ? '' : `: did you mean ${suggestion}?`;
  const parts = { from, key: path, value: shown, expected, suggestion, comparedWith };
  return new SettingError(`${from}: ${path} is ${shown}: expected ${expected}${advice}`, parts);
}

/** The name of a choice that the value probably means. */
function suggestValue(path: string, value: unknown): string | null {
  const leaf = findSettingSchema(path.replace(/\[\d+\]$/, ''));
  if (leaf?.items?.pattern === selectorPattern) return suggestSelector(value);
  const names = leaf?.enum ?? leaf?.items?.enum ?? leaf?.anyOf?.[0]?.enum;
  if (names === undefined || typeof value !== 'string') return null;
  return findNearestName(value, names) ?? null;
}

function listLeaves(section: SectionSchema, prefix: string): [string, LeafSchema][] {
  return Object.entries(section.properties).flatMap(([key, schema]): [string, LeafSchema][] =>
    isSection(schema) ? listLeaves(schema, `${prefix}${key}.`) : [[prefix + key, schema]],
  );
}

function checkValue(path: string, leaf: LeafSchema, value: unknown, from: string): void {
  if (isValid(leaf, value)) return;
  if (leaf.type !== 'array' || !Array.isArray(value)) {
    throw createBadValueError(
      path,
      value,
      from,
      describeExpected(leaf) + (typeof value === 'number' && isTextSetting(leaf) ? '; quote it' : ''),
    );
  }
  const index = value.findIndex((item) => !isValid(leaf.items!, item));
  const quoted = typeof value[index] === 'number' ? '; quote it' : '';
  const { maxLength, enum: names, description } = leaf.items!;
  const expected =
    description ?? (names === undefined ? `a string of 1 to ${maxLength} characters` : `one of ${names.join(', ')}`);
  throw createBadValueError(`${path}[${index}]`, value[index], from, expected + quoted);
}

function createUnknownKeyError(path: string, from: string): UsageError {
  const key = clipText(path);
  const sourceName = parseSourceName(path);
  if (sourceName !== null && !isSourceName(sourceName)) return createSourceNameError(sourceName, from);
  const known = listKnownPaths(path);
  const inside = known.filter((name) => name.startsWith(`${path}.`));
  if (inside.length > 0) {
    const expected = `one of ${inside.join(', ')}`;
    return new SettingError(`${from}: ${path} is a section: expected ${expected}`, { from, key, expected });
  }
  const suggestion = findNearestName(path, known) ?? null;
  const advice = suggestion === null ? 'config/default.yaml lists every setting' : `did you mean ${suggestion}?`;
  const isSecret =
    from === '--set' && suggestion === null && mayBeKey(path) && describeSection(path.split('.')[0]!) === null;
  const name = isSecret ? '(hidden)' : key;
  return new SettingError(`${from}: unknown setting ${name}: ${advice}`, { from, key: name, suggestion });
}

/** Formats a value for messages; `(hidden)` for a secret. */
export function formatSettingValue(path: string, value: unknown): string {
  if (isSecretSetting(path)) return '(hidden)';
  // JSON has no NaN and no Infinity.
  return typeof value === 'number' ? String(value) : clipText(JSON.stringify(value) ?? String(value));
}

/** Whether a text may be a key that was pasted where something else was expected. Messages do not repeat it then. */
export const mayBeKey = (text: string): boolean => text.trim().length >= 16;

/** Whether a setting is a secret. Messages and files must not contain secrets. */
export const isSecretSetting = (path: string): boolean => findSettingSchema(path)?.isSecret === true;
const isTextSetting = (leaf: LeafSchema): boolean => (leaf.anyOf?.[0] ?? leaf).type === 'string';
const clipText = (text: string): string => (text.length > 120 ? `${text.slice(0, 120)}…` : text);

function isSection(schema: SectionSchema | LeafSchema): schema is SectionSchema {
  return 'properties' in schema;
}

/** Whether a value matches a schema. Supports only the JSON Schema keywords of LeafSchema. */
export function isValid(schema: LeafSchema, value: unknown): boolean {
  if (schema.anyOf !== undefined) return schema.anyOf.some((option) => isValid(option, value));
  switch (schema.type) {
    case 'null':
      return value === null;
    case 'array':
      return Array.isArray(value) && value.length <= schema.maxItems! && value.every((v) => isValid(schema.items!, v));
    case 'boolean':
      return typeof value === 'boolean';
    case 'string':
      return typeof value === 'string' && isText(schema, value);
    default:
      return typeof value === 'number' && Number.isFinite(value) && isNumber(schema, value);
  }
}

function isText(
  { minLength = 0, maxLength = Number.POSITIVE_INFINITY, pattern, enum: names }: LeafSchema,
  value: string,
): boolean {
  if (pattern !== undefined && !new RegExp(pattern, 'u').test(value)) return false;
  return value.length >= minLength && value.length <= maxLength && (names === undefined || names.includes(value));
}

function isNumber({ type, minimum, exclusiveMinimum, maximum }: LeafSchema, value: number): boolean {
  if (type === 'integer' && !Number.isSafeInteger(value)) return false;
  if (minimum !== undefined && value < minimum) return false;
  if (exclusiveMinimum !== undefined && value <= exclusiveMinimum) return false;
  return maximum === undefined || value <= maximum;
}

/** Describes what a schema accepts: `a whole number from 1 to 1024`. */
export function describeExpected(schema: LeafSchema): string {
  if (schema.anyOf !== undefined) return schema.anyOf.map(describeExpected).join(' or ');
  switch (schema.type) {
    case 'null':
      return 'null';
    case 'array':
      if (schema.items?.description !== undefined) return `a list; each item is ${schema.items.description}`;
      return schema.items?.enum === undefined
        ? 'a list of non-empty strings'
        : `a list of ${schema.items.enum.join(', ')}`;
    case 'boolean':
      return 'true or false';
    case 'string':
      if (schema.enum !== undefined)
        return schema.enum.length === 1 ? schema.enum[0]! : `one of ${schema.enum.join(', ')}`;
      return schema.description ?? 'a non-empty string';
    default:
      return `a ${schema.type === 'integer' ? 'whole number' : 'number'} ${describeBounds(schema)}`;
  }
}

function describeBounds({ minimum, exclusiveMinimum, maximum }: LeafSchema): string {
  return exclusiveMinimum === undefined
    ? `from ${minimum} to ${maximum}`
    : `above ${exclusiveMinimum}, at most ${maximum}`;
}

/**
 * Parses a text from the environment or a flag. If the text cannot be parsed, it is returned unchanged, so that the
 * validation reports it. A list is separated by commas or is JSON. `null` and the empty string are null.
 */
function parseSettingText(schema: LeafSchema, text: string): unknown {
  if (schema.anyOf !== undefined) {
    if (text === 'null' || text === '') return null;
    return parseSettingText(schema.anyOf[0]!, text);
  }
  if (schema.type === 'array') return parseList(text);
  if (schema.type === 'string') return text;
  if (schema.type === 'boolean') return text === 'true' ? true : text === 'false' ? false : text;
  // Number('') and Number(' ') are 0.
  return /^[+-]?(\d+\.?\d*|\.\d+)(e[+-]?\d+)?$/i.test(text) ? Number(text) : text;
}

function parseList(text: string): unknown {
  const trimmed = text.trim();
  if (trimmed === '') return [];
  if (!trimmed.startsWith('[')) return trimmed.split(',').map((item) => item.trim());
  try {
    return JSON.parse(trimmed);
  } catch {
    return text;
  }
}

export type Environment = Readonly<Record<string, string | undefined>>;

/** The setting of each environment variable. */
const settingByVariable: ReadonlyMap<string, string> = new Map(
  [...settingSchemas].flatMap(([path, { variable }]) => (variable === undefined ? [] : [[variable, path]])),
);

/** The variable of a source: that of the only service, with its name at the end, e.g. ODDSLAKE_API_KEY_ALPHA. */
export const toSourceVariable = (variable: string, source: string): string =>
  `${variable}_${source.replaceAll('-', '_')}`.toUpperCase();

/** The variables of the address and the key of a source, for messages; null: of the only service. */
export function nameVariables(source: string | null) {
  const name = (variable: string): string => (source === null ? variable : toSourceVariable(variable, source));
  const [baseUrl, apiKey] = [name('ODDSLAKE_BASE_URL'), name('ODDSLAKE_API_KEY')];
  return { baseUrl, apiKey, apiKeyFile: name('ODDSLAKE_API_KEY_FILE') };
}

/** The variables that a source has, with its settings by their key below `sources.NAME`. */
const sourceVariables: readonly (readonly [variable: string, key: string])[] = [...sourceSettings].flatMap(
  ([key, path]) => {
    const { variable } = settingSchemas.get(path)!;
    return variable === undefined ? [] : [[variable, key] as const];
  },
);

/**
 * Parses the settings in environment variables. An empty variable counts as not set. Unknown variables are ignored.
 * @param sources names of the sources, whose variables are read too
 * @param report receives each problem; by default, the first is thrown
 */
export function readEnvironmentLayers(
  env: Environment,
  sources: readonly string[] = [],
  report: ReportProblem = throwProblem,
): SettingsLayer[] {
  const ofSources = sources.flatMap((source) =>
    sourceVariables.map(
      ([variable, key]) => [toSourceVariable(variable, source), `${sourcesKey}.${source}.${key}`] as const,
    ),
  );
  return [...settingByVariable, ...ofSources].flatMap(([name, path]) => {
    const text = env[name]?.trim();
    if (text === undefined || text === '') return [];
    return attemptStep(report, () => parseTextLayer(path, text, name)) ?? [];
  });
}

/**
 * Finds variables whose names are probably misspelled, with the name that was probably meant. Other variables that begin
 * with ODDSLAKE_ may belong to other programs: Kubernetes sets such variables for a service named oddslake.
 */
export function findMisspelledVariables(env: Environment): { readonly name: string; readonly meant: string }[] {
  const prefix = 'ODDSLAKE_';
  const known = [...settingByVariable.keys(), 'ODDSLAKE_CONFIG'].map((name) => name.slice(prefix.length));
  const ofSources = sourceVariables.map(([variable]) => `${variable.slice(prefix.length)}_`);
  return Object.keys(env).flatMap((name) => {
    const rest = name.slice(prefix.length);
    if (!name.startsWith(prefix) || known.includes(rest) || ofSources.some((start) => rest.startsWith(start)))
      return [];
    const meant = findNearestName(rest, known);
    return meant === undefined ? [] : [{ name, meant: prefix + meant }];
  });
}
