import { UsageError } from '../core/errors.ts';
import { type LeafSchema, type SectionSchema, settingsSchema } from './schema.ts';
import { findNearestKey } from './suggest-key.ts';
import { describeExpected, isValid, parseSettingText } from './validate-value.ts';

/** Settings from one place, by dotted snake_case path, checked; `from` names the place in messages. */
export interface SettingsLayer {
  readonly from: string;
  readonly values: ReadonlyMap<string, unknown>;
}

/** Every setting's schema by its dotted path, in the order of the schema. */
export const settingSchemas: ReadonlyMap<string, LeafSchema> = new Map(listLeaves(settingsSchema, ''));

export const defaultLayer: SettingsLayer = {
  from: 'the defaults',
  values: new Map([...settingSchemas].map(([path, leaf]) => [path, leaf.default])),
};

/** Checks a document of nested sections, as a config file holds them. Throws UsageError. */
export function parseDocumentLayer(document: unknown, from: string): SettingsLayer {
  const values = new Map<string, unknown>();
  collectValues(settingsSchema, document, '', from, values);
  return { from, values };
}

/**
 * Checks one setting given as text, as the environment and flags hold them.
 * @param from what it was given as, e.g. `--set` or `ODDSLAKE_OUTPUT`
 * @throws UsageError for an unknown key or a bad value
 */
export function parseTextLayer(path: string, text: string, from: string): SettingsLayer {
  const leaf = settingSchemas.get(path);
  if (leaf === undefined) throw createUnknownKeyError(path, from);
  const value = parseSettingText(leaf, text);
  checkValue(path, leaf, value, from);
  return { from, values: new Map([[path, value]]) };
}

/** The message for a value that is refused: where, which, what, and what was expected. */
export function createBadValueError(path: string, value: unknown, from: string, expectation: string): UsageError {
  return new UsageError(`${from}: ${path} is ${formatSettingValue(path, value)}: expected ${expectation}`);
}

function listLeaves(section: SectionSchema, prefix: string): [string, LeafSchema][] {
  return Object.entries(section.properties).flatMap(([key, schema]): [string, LeafSchema][] =>
    isSection(schema) ? listLeaves(schema, `${prefix}${key}.`) : [[prefix + key, schema]],
  );
}

function collectValues(
  section: SectionSchema,
  value: unknown,
  prefix: string,
  from: string,
  into: Map<string, unknown>,
) {
  // A section whose settings are all commented out reads as null.
  if (value === null || value === undefined) return;
  if (typeof value !== 'object' || Array.isArray(value)) {
    const name = prefix === '' ? 'the file' : prefix.slice(0, -1);
    throw createBadValueError(name, value, from, `a section with ${Object.keys(section.properties).join(', ')}`);
  }
  for (const [key, inner] of Object.entries(value)) {
    const path = prefix + key;
    const schema = Object.hasOwn(section.properties, key) ? section.properties[key] : undefined;
    if (schema === undefined) throw createUnknownKeyError(path, from);
    if (isSection(schema)) collectValues(schema, inner, `${path}.`, from, into);
    else {
      checkValue(path, schema, inner, from);
      into.set(path, inner);
    }
  }
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
  const { maxLength, enum: names } = leaf.items!;
  const wanted = names === undefined ? `a text of 1 to ${maxLength} characters` : `one of ${names.join(', ')}`;
  throw createBadValueError(`${path}[${index}]`, value[index], from, wanted + quoted);
}

/** Settings that were renamed, by the name that they had. */
const renamedSettings: ReadonlyMap<string, string> = new Map([
  ['source.retire_after_runs', 'source.suspend_after_days'],
  ['source.life_margin_hours', 'source.lifetime_margin_hours'],
]);

function createUnknownKeyError(path: string, from: string): UsageError {
  const now = renamedSettings.get(path);
  if (now !== undefined)
    return new UsageError(
      `${from}: ${path} is no more: it is ${now} now, ${describeExpected(settingSchemas.get(now)!)}`,
    );
  const inside = [...settingSchemas.keys()].filter((key) => key.startsWith(`${path}.`));
  if (inside.length > 0) return new UsageError(`${from}: ${path} is a section: expected one of ${inside.join(', ')}`);
  const guess = findNearestKey(path, [...settingSchemas.keys()]);
  const advice = guess === undefined ? 'config/default.yaml lists every setting' : `did you mean ${guess}?`;
  return new UsageError(`${from}: unknown setting ${clipText(path)}: ${advice}`);
}

/** A value for messages; `(hidden)` for a secret. */
export function formatSettingValue(path: string, value: unknown): string {
  if (isSecretSetting(path)) return '(hidden)';
  // JSON has no NaN and no Infinity.
  return typeof value === 'number' ? String(value) : clipText(JSON.stringify(value) ?? String(value));
}

/** Whether a setting is kept out of messages and files. */
export const isSecretSetting = (path: string): boolean =>
  settingSchemas.get(path)?.anyOf?.some((option) => option.secret === true) ?? false;
const isTextSetting = (leaf: LeafSchema): boolean => (leaf.anyOf?.[0] ?? leaf).type === 'string';
const clipText = (text: string): string => (text.length > 120 ? `${text.slice(0, 120)}…` : text);

function isSection(schema: SectionSchema | LeafSchema): schema is SectionSchema {
  return 'properties' in schema;
}
