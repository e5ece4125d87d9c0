import type { UsageError } from '../base/errors.ts';
import { defaultLayer, findMisspelledVariables, findSettingSchema, isSecretSetting } from './layers.ts';
import { findConfigFile, loadMergedSettings, readSettings, type SettingSources } from './load.ts';
import { dropConsequences, findLine, SettingError } from './setting-error.ts';

/** Where the value of a setting comes from. */
export interface SettingOrigin {
  readonly kind: 'default' | 'config' | 'environment' | 'flag';
  /** Absolute path of the config file, name of the variable, or the flag; null for a default. */
  readonly name: string | null;
  /** Line of the config file, counted from 1; null if it is not known. */
  readonly line: number | null;
}

/** A setting with its value as given: relative paths stay relative. The value of a secret is `(hidden)`, or null. */
export interface ListedSetting {
  readonly key: string;
  readonly value: unknown;
  readonly default: unknown;
  readonly from: SettingOrigin;
}

/** A problem of the settings. Texts have no secrets. Parts that are not known are null. */
export interface SettingProblem {
  readonly message: string;
  readonly key: string | null;
  readonly value: string | null;
  readonly expected: string | null;
  readonly suggestion: string | null;
  readonly from: SettingOrigin | null;
}

/**
 * Lists every setting, in the order of config/default.yaml, with those of sources at the end.
 * @throws UsageError if the config file cannot be read, or a key or a value is invalid
 */
export async function listSettings(
  sources: SettingSources,
): Promise<{ config: string | null; settings: ListedSetting[] }> {
  const config = findConfigFile(sources);
  const { values, lines } = await loadMergedSettings(sources, config);
  const settings = [...values].map(([key, { value, from }]) => ({
    key,
    value: maskValue(key, value),
    default: findSettingSchema(key)!.default ?? null,
    from: toOrigin(from, key, config, lines),
  }));
  return { config, settings };
}

/** Checks all sources of settings, and lists every problem at once. Reads only the config file and the key files. */
export async function checkSettings(
  sources: SettingSources,
): Promise<{ config: string | null; problems: SettingProblem[] }> {
  const { errors, config, lines } = await readSettings(sources);
  const problems = dropConsequences(errors);
  return {
    config,
    problems: [
      ...problems.map((error) => toProblem(error, config, lines)).toSorted((a, b) => toLine(a) - toLine(b)),
      ...findMisspelledVariables(sources.env).map(({ name, meant }) => ({
        message: `unknown environment variable ${name}: did you mean ${meant}?`,
        key: name,
        value: null,
        expected: null,
        suggestion: meant,
        from: { kind: 'environment', name, line: null } as const,
      })),
    ],
  };
}

/** Problems without a line follow those with one. */
const toLine = ({ from }: SettingProblem): number => from?.line ?? Number.MAX_SAFE_INTEGER;

function toProblem(error: UsageError, config: string | null, lines: ReadonlyMap<string, number>): SettingProblem {
  const { message } = error;
  if (!(error instanceof SettingError))
    return { message, key: null, value: null, expected: null, suggestion: null, from: null };
  const { from, key, value, expected, suggestion } = error.parts;
  return { message, key, value, expected, suggestion, from: toOrigin(from, key, config, lines) };
}

/** @param from the source of a value as messages name it */
function toOrigin(from: string, key: string, config: string | null, lines: ReadonlyMap<string, number>): SettingOrigin {
  if (from === defaultLayer.from) return { kind: 'default', name: null, line: null };
  if (from === config) return { kind: 'config', name: config, line: findLine(lines, key) };
  if (from.startsWith('--')) return { kind: 'flag', name: from, line: null };
  if (/^ODDSLAKE_[A-Z0-9_]+$/.test(from)) return { kind: 'environment', name: from, line: null };
  // A key file.
  return { kind: 'config', name: from, line: null };
}

/** Also hides an address that has credentials, which `resolveSettings` refuses. */
const maskValue = (key: string, value: unknown): unknown =>
  value !== null && (isSecretSetting(key) || (/url$/.test(key) && /[@?#]/.test(String(value)))) ? '(hidden)' : value;
