import { existsSync } from 'node:fs';
import { basename, dirname, join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import type { Disk } from '../archive/disk/file-system.ts';
import { UsageError } from '../base/errors.ts';
import { loadSettings } from '../settings/load.ts';
import type { Settings } from '../settings/settings.ts';
import { defaultLayer, parseTextLayer, type SettingsLayer } from '../settings/source.ts';

/** What stands above a setting in a config that `init` writes. */
const settingComments: Readonly<Record<string, string>> = {
  upstream: 'The market data service.',
  'upstream.base_url': 'Where it is.',
  'upstream.api_key_file': 'File that holds the market data key.',
  'upstream.requests_per_second': 'Requests a second allowed under the key.',
  'source.name': "The service's name in the archive, which belongs to it alone.",
  'archive.output': "The archive's root.",
};

interface ConfigSection {
  [name: string]: unknown;
}

/**
 * A config file with these settings and nothing else.
 * @param chosen by dotted path; the key itself must not be among them
 */
export function formatConfig(chosen: ReadonlyMap<string, unknown>): string {
  const root: ConfigSection = {};
  // In the order of default.yaml, whatever was told first.
  const order = [...defaultLayer.values.keys()];
  for (const [path, value] of [...chosen].sort(([a], [b]) => order.indexOf(a) - order.indexOf(b))) {
    const names = path.split('.');
    const leaf = names.pop()!;
    let branch = root;
    for (const name of names) {
      branch[name] ??= {};
      branch = branch[name] as ConfigSection;
    }
    branch[leaf] = value;
  }
  const head = [
    '# Settings of oddslake, for --config or ODDSLAKE_CONFIG. Relative paths start at the folder of this file.',
    `# Every other setting has its default; all of them, with units: ${findDefaultsFile()}`,
    ...(chosen.has('upstream.api_key_file') ? [] : ['# The market data key comes from ODDSLAKE_API_KEY.']),
  ];
  const sections = Object.entries(root).map(([name, value]) => formatConfigLines(name, value, '').join('\n'));
  return `${[head.join('\n'), ...sections].join('\n\n')}\n`;
}

function formatConfigLines(path: string, value: unknown, indent: string): string[] {
  const name = path.slice(path.lastIndexOf('.') + 1);
  const comment = settingComments[path] === undefined ? [] : [`${indent}# ${settingComments[path]}`];
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return [...comment, `${indent}${name}: ${formatScalar(value)}`];
  const inner = Object.entries(value).flatMap(([key, below]) =>
    formatConfigLines(`${path}.${key}`, below, `${indent}  `),
  );
  return [...comment, `${indent}${name}:`, ...inner];
}

/** A value as YAML in one line: bare where that reads back as the same, as JSON otherwise, which YAML takes too. */
function formatScalar(value: unknown): string {
  if (typeof value !== 'string' || !/^[\w./~][\w./~:-]*$/.test(value)) return JSON.stringify(value);
  return parse(`${value}`) === value && !value.endsWith(':') ? value : JSON.stringify(value);
}

/** Where default.yaml is: beside the program, which is one folder further down in the built package. */
function findDefaultsFile(): string {
  const places = ['../../config/default.yaml', '../../../config/default.yaml'];
  const found = places.map((up) => fileURLToPath(new URL(up, import.meta.url))).find((path) => existsSync(path));
  return found ?? 'config/default.yaml';
}

/** A person at a terminal. */
export interface Prompter {
  ask(question: string): Promise<string>;
  print(text: string): void;
}

interface SettingPrompt {
  readonly path: string;
  readonly question: string;
  /** What an empty answer stands for, as shown; null where there must be an answer. */
  fallback(settings: Settings): string | null;
}

const settingPrompts: readonly SettingPrompt[] = [
  {
    path: 'upstream.base_url',
    question: 'URL of the market data service, e.g. https://example.org',
    fallback: () => null,
  },
  {
    path: 'upstream.api_key_file',
    question: 'File that holds the market data key',
    fallback: () => 'none, ODDSLAKE_API_KEY will be set',
  },
  {
    path: 'upstream.requests_per_second',
    question: 'Requests a second that the key allows',
    fallback: ({ upstream }) => String(upstream.requestsPerSecond),
  },
  { path: 'archive.output', question: 'Folder of the archive', fallback: () => getDefault('archive.output') },
  {
    path: 'source.name',
    question: 'Name of the service in the archive',
    fallback: ({ upstream }) => new URL(upstream.baseUrl!).origin,
  },
];

const getDefault = (path: string): string => String(defaultLayer.values.get(path));

export interface InitAnswers {
  /** What goes into the config, by dotted path. */
  readonly chosen: ReadonlyMap<string, unknown>;
  /** The same as settings, the key included where it was told. */
  readonly settings: Settings;
}

/**
 * What was told by environment and flags, checked, and what a person answers to the rest. A bad answer is asked for
 * again, by the same rules as any setting.
 * @param base folder that relative paths start at
 * @param told later layers beat earlier ones
 * @param person null where there is no terminal
 * @throws UsageError for a bad value that was told, and naming what is missing where nobody can be asked
 */
export async function collectAnswers(
  base: string,
  told: readonly SettingsLayer[],
  person: Prompter | null,
): Promise<InitAnswers> {
  const layers = [...told];
  const load = (more: readonly SettingsLayer[]) => loadSettings({ env: {}, cwd: base, layers: [...layers, ...more] });
  let settings = await load([]);
  for (const { path, question, fallback } of settingPrompts) {
    if (isGiven(layers, path)) continue;
    const shown = fallback(settings);
    if (person === null) {
      if (shown === null)
        throw new UsageError(
          'Nothing says where the market data service is: give --base-url, or set ODDSLAKE_BASE_URL. On a terminal it is asked for.',
        );
      continue;
    }
    const layer = await askForSetting(person, path, shown === null ? question : `${question} [${shown}]`, shown, load);
    if (layer !== null) layers.push(layer);
    settings = await load([]);
  }
  const chosen = new Map<string, unknown>();
  for (const { values } of layers) for (const [path, value] of values) chosen.set(path, value);
  // Where the archive is was decided, if only by leaving the default: it stays there whatever the working folder is.
  if (!chosen.has('archive.output')) chosen.set('archive.output', getDefault('archive.output'));
  chosen.delete('upstream.api_key');
  return { chosen, settings };
}

/** A key that was told makes the question for its file needless. */
const isGiven = (layers: readonly SettingsLayer[], path: string): boolean =>
  layers.some(({ values }) => values.has(path)) ||
  (path === 'upstream.api_key_file' && isGiven(layers, 'upstream.api_key'));

async function askForSetting(
  person: Prompter,
  path: string,
  question: string,
  fallback: string | null,
  load: (more: readonly SettingsLayer[]) => Promise<Settings>,
): Promise<SettingsLayer | null> {
  for (;;) {
    const answer = (await person.ask(`${question}: `)).trim();
    if (answer === '' && fallback !== null) return null;
    try {
      const layer = parseTextLayer(path, answer, 'your answer');
      await load([layer]);
      // An empty text stands for none.
      if (layer.values.get(path) !== null) return layer;
      person.print('It is needed.');
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      person.print(error.message);
    }
  }
}

export const createConfigExistsError = (file: string): UsageError =>
  new UsageError(`${file} is there already, and init never overwrites a file. Name another one, or edit that one.`);

/**
 * Puts a config in its place, whole, once the archive is there that it names: one that was broken off anywhere can be
 * repeated. Where the archive cannot be made, nothing is left of the config; the error is thrown on.
 * @throws UsageError where there is a file already, or none may be written; OddslakeError where the disk is full
 */
export function writeConfig<T>(disk: Disk, file: string, text: string, makeArchive: () => T): T {
  const draft = join(dirname(file), `.${basename(file)}.oddslake-new`);
  // First, so that a folder that takes no file gets no archive either.
  requireConfigWritable(file, () => writeDraft(disk, draft, text));
  try {
    const made = makeArchive();
    if (!tryLink(disk, draft, file)) requireConfigWritable(file, () => disk.rename(draft, file));
    return made;
  } finally {
    disk.remove(draft);
    disk.syncFolder(dirname(file));
  }
}

function writeDraft(disk: Disk, draft: string, text: string): void {
  try {
    disk.write(draft, Buffer.from(text));
  } catch (error) {
    if (isDiskError(error)) disk.remove(draft);
    throw error;
  }
}

function requireConfigWritable(file: string, work: () => void): void {
  try {
    work();
  } catch (error) {
    if (isDiskError(error)) throw error;
    throw new UsageError(`${file} cannot be written: ${(error as Error).message}`, { cause: error });
  }
}

/** False where the file system knows no hard links. */
function tryLink(disk: Disk, from: string, to: string): boolean {
  try {
    disk.link(from, to);
    return true;
  } catch (error) {
    const code = getErrorCode(error);
    if (code === 'EEXIST' || disk.size(to) !== null) throw createConfigExistsError(to);
    if (['EPERM', 'ENOTSUP', 'ENOSYS', 'EMLINK'].includes(code ?? '')) return false;
    throw error;
  }
}

/** A disk that is full or fails is told as that. */
const isDiskError = (error: unknown): boolean => ['ENOSPC', 'EDQUOT', 'EIO'].includes(getErrorCode(error) ?? '');

const getErrorCode = (error: unknown): string | undefined =>
  (((error as Error).cause ?? error) as NodeJS.ErrnoException).code;
