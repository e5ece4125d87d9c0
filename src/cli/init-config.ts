import { basename, dirname, join, relative } from 'node:path';
import { fileURLToPath, pathToFileURL } from 'node:url';
import { parse } from 'yaml';
import type { Disk } from '../archive/disk/file-system.ts';
import { OddslakeError, UsageError } from '../base/errors.ts';
import type { Context } from '../context/context.ts';
import type { Finding } from '../doctor/finding.ts';
import { defaultLayer, type Environment, parseTextLayer, type SettingsLayer } from '../settings/layers.ts';
import { loadSettings } from '../settings/load.ts';
import type { SettingError } from '../settings/setting-error.ts';
import type { Settings } from '../settings/settings.ts';

/** Comments above the settings in a config that `init` writes. */
const settingComments: Readonly<Record<string, string>> = {
  upstream: 'The market data service.',
  'upstream.base_url': 'Its base URL.',
  'upstream.api_key_file': 'File that holds the market data key.',
  'upstream.requests_per_second': 'Requests per second that the key allows.',
  'source.name': 'Name of the service in the archive. An archive holds the data of one service.',
  'archive.output': "The archive's root.",
};

interface ConfigSection {
  [name: string]: unknown;
}

/**
 * Formats a config file with the given settings. The first line names its JSON Schema for editors.
 * @param chosen settings by dotted path, without the API key
 * @param folder absolute path of the folder of the config
 */
export function formatConfig(chosen: ReadonlyMap<string, unknown>, folder = '/'): string {
  const root: ConfigSection = {};
  // In the order of default.yaml.
  const order = [...defaultLayer.values.keys()];
  for (const [path, value] of [...chosen].sort(([a], [b]) => order.indexOf(a) - order.indexOf(b))) {
    const names = path.split('.');
    const settingName = names.pop()!;
    let section = root;
    for (const name of names) {
      section[name] ??= {};
      section = section[name] as ConfigSection;
    }
    section[settingName] = value;
  }
  const head = [
    `# yaml-language-server: $schema=${formatSchemaReference(folder, findPackageFile('config/schema.json'))}`,
    '# Settings of oddslake: for --config or ODDSLAKE_CONFIG, and oddslake.yaml without them in its folder. Paths start there.',
    `# All other settings have their defaults. All settings with units: ${findPackageFile('config/default.yaml')}`,
    ...(chosen.has('upstream.api_key_file') ? [] : ['# The market data key is read from ODDSLAKE_API_KEY.']),
  ];
  const sections = Object.entries(root).map(([name, value]) => formatConfigLines(name, value, '').join('\n'));
  return `${[head.join('\n'), ...sections].join('\n\n')}\n`;
}

function formatConfigLines(path: string, value: unknown, indent: string): string[] {
  const name = path.slice(path.lastIndexOf('.') + 1);
  const comment = settingComments[path] === undefined ? [] : [`${indent}# ${settingComments[path]}`];
  if (typeof value !== 'object' || value === null || Array.isArray(value))
    return [...comment, `${indent}${name}: ${formatScalar(value)}`];
  const children = Object.entries(value).flatMap(([key, child]) =>
    formatConfigLines(`${path}.${key}`, child, `${indent}  `),
  );
  return [...comment, `${indent}${name}:`, ...children];
}

/** A value as YAML on one line: unquoted if it reads back as the same string, otherwise as JSON, which is valid YAML. */
function formatScalar(value: unknown): string {
  if (typeof value !== 'string' || !/^[\w./~][\w./~:-]*$/.test(value)) return JSON.stringify(value);
  return parse(`${value}`) === value && !value.endsWith(':') ? value : JSON.stringify(value);
}

const findPackageFile = (path: string): string => fileURLToPath(new URL(`../../${path}`, import.meta.url));

/**
 * The reference of a config to its JSON Schema, as the YAML language server reads it: up to the first space. Relative if
 * the package is installed below the folder of the config, so that the folder can be moved and shared.
 * @param folder absolute path of the folder of the config
 * @param schema absolute path of the schema
 */
export function formatSchemaReference(folder: string, schema: string): string {
  const short = relative(folder, schema);
  const isBelow = !short.startsWith('..') && /node_modules/.test(short);
  if (isBelow && !/[\s%#?]/.test(short)) return `./${short}`;
  return /[\s%#?]/.test(schema) ? pathToFileURL(schema).href : schema;
}

/** Asks a user on a terminal. */
export interface Prompter {
  ask(question: string): Promise<string>;
  /** Shows nothing of the answer. */
  askHidden(question: string): Promise<string>;
  print(text: string): void;
}

interface SettingPrompt {
  readonly path: string;
  readonly question: string;
  /** Default that is displayed and used for empty input; null if input is required. */
  fallback(settings: Settings): string | null;
}

const settingPrompts: readonly SettingPrompt[] = [
  {
    path: 'upstream.base_url',
    question: 'URL of the market data service, e.g. https://example.org',
    fallback: () => null,
  },
  {
    path: 'upstream.api_key',
    question: 'Market data key, which is not shown while you type or paste it',
    fallback: () => 'none, from ODDSLAKE_API_KEY',
  },
  {
    path: 'upstream.requests_per_second',
    question: 'Requests per second that the key allows',
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

interface InitAnswers {
  /** Settings for the config, by dotted path. */
  readonly chosen: ReadonlyMap<string, unknown>;
  /** The resulting settings, with the API key if it is known. */
  readonly settings: Settings;
  /** The key that was the answer to the hidden prompt, for a file of its own; null if there was none. */
  readonly typedKey: string | null;
}

/**
 * Checks the settings of the environment and the flags, and prompts for missing settings. Repeats a question after an
 * invalid answer.
 * @param base folder of relative paths
 * @param given later layers override earlier ones
 * @param prompter null if there is no terminal
 * @throws UsageError for an invalid given value, or for a missing value without a terminal
 */
export async function collectAnswers(
  base: string,
  given: readonly SettingsLayer[],
  prompter: Prompter | null,
): Promise<InitAnswers> {
  const layers = [...given];
  const load = (more: readonly SettingsLayer[]) => loadSettings({ env: {}, cwd: base, layers: [...layers, ...more] });
  let settings = await load([]);
  for (const { path, question, fallback: defaultAnswer } of settingPrompts) {
    if (isGiven(layers, path)) continue;
    const defaultText = defaultAnswer(settings);
    if (prompter === null) {
      if (defaultText === null)
        throw new UsageError(
          'The URL of the market data service is missing: pass --base-url, or set ODDSLAKE_BASE_URL. On a terminal, init asks for it.',
        );
      continue;
    }
    const answerLayer = await askForSetting(
      prompter,
      path,
      defaultText === null ? question : `${question} [${defaultText}]`,
      defaultText,
      load,
    );
    if (answerLayer !== null) layers.push(answerLayer);
    settings = await load([]);
  }
  const chosen = new Map<string, unknown>();
  for (const { values } of layers) for (const [path, value] of values) chosen.set(path, value);
  // Always written, so that the archive does not depend on the working folder.
  if (!chosen.has('archive.output')) chosen.set('archive.output', getDefault('archive.output'));
  chosen.delete('upstream.api_key');
  return { chosen, settings, typedKey: isGiven(given, 'upstream.api_key') ? null : settings.upstream.apiKey };
}

/** Whether a layer sets `path`. A given key file also makes the API key unnecessary. */
const isGiven = (layers: readonly SettingsLayer[], path: string): boolean =>
  layers.some(({ values }) => values.has(path)) ||
  (path === 'upstream.api_key' && isGiven(layers, 'upstream.api_key_file'));

async function askForSetting(
  prompter: Prompter,
  path: string,
  question: string,
  defaultAnswer: string | null,
  load: (more: readonly SettingsLayer[]) => Promise<Settings>,
): Promise<SettingsLayer | null> {
  for (;;) {
    const ask = path === 'upstream.api_key' ? prompter.askHidden : prompter.ask;
    const answer = (await ask(`${question}: `)).trim();
    if (answer === '' && defaultAnswer !== null) return null;
    try {
      const answerLayer = parseTextLayer(path, answer, 'your answer');
      const { upstream } = await load([answerLayer]);
      const isKey = ask === prompter.ask && upstream.apiKey !== null && answer.includes(upstream.apiKey);
      // An empty text is parsed as null.
      if (answerLayer.values.get(path) !== null && !isKey) return answerLayer;
      prompter.print(isKey ? 'That is the key, which is already known.' : 'A value is required.');
    } catch (error) {
      if (!(error instanceof UsageError)) throw error;
      // Without the answer, which may be a key that was pasted here.
      const { expected, suggestion } = (error as Partial<SettingError>).parts ?? {};
      const advice = suggestion ? `: did you mean ${suggestion}?` : '.';
      prompter.print(expected ? `Expected ${expected}${advice}` : 'This cannot be used.');
    }
  }
}

export const createConfigExistsError = (file: string): UsageError =>
  new UsageError(`${file} already exists, and init never overwrites a file. Choose another name, or edit the file.`);

/**
 * Writes a config atomically, after creating its archive, so that an interrupted init can be repeated. If the archive
 * cannot be created, no config is left behind and the error is rethrown.
 * @throws UsageError if the file exists or cannot be written; OddslakeError if the disk is full
 */
export function writeConfig<T>(disk: Disk, file: string, text: string, makeArchive: () => T): T {
  const draft = join(dirname(file), `.${basename(file)}.oddslake-new`);
  // First, so that no archive is created if the config cannot be written.
  requireConfigWritable(file, () => writeDraft(disk, draft, text));
  try {
    const archive = makeArchive();
    if (!tryLink(disk, draft, file)) requireConfigWritable(file, () => disk.rename(draft, file));
    return archive;
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

/** Returns false if the file system does not support hard links. */
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

/** Whether the disk is full or failing. Such errors are not usage errors. */
const isDiskError = (error: unknown): boolean => ['ENOSPC', 'EDQUOT', 'EIO'].includes(getErrorCode(error) ?? '');

const getErrorCode = (error: unknown): string | undefined =>
  (((error as Error).cause ?? error) as NodeJS.ErrnoException).code;

/**
 * Tries the address and the key before a config is written, with one request for one market. A missing key is no failure:
 * it may be set later. On a terminal, asks whether to write the config anyway.
 * @param prompter null if there is no terminal
 * @throws OddslakeError with the exit code that a run would have, if the service cannot be used
 */
export async function requireUsableUpstream(
  context: Context,
  env: Environment,
  prompter: Prompter | null,
  print: (text: string) => void,
): Promise<void> {
  const { judgeUpstream, probeUpstream } = await import('../doctor/check-upstream.ts');
  const facts = await probeUpstream(context, { isOnline: true, env, privateFolder: null, lastRunSummary: null });
  const findings = judgeUpstream(facts, context.settings.poll.futureSkewSeconds * 1000);
  const failure = findings.find((finding) => isFailure(finding, facts.hasKey));
  if (failure === undefined) {
    const accepted = findings.filter(({ check, severity }) => severity === 'ok' && /^(reachable|key)$/.test(check));
    for (const { check, message } of accepted) print(check === 'key' ? `Key ${message}.` : `Reached ${message}.`);
    for (const { check, message, action } of findings)
      if (check === 'rate' && action !== null) print(`Rate: ${message}. ${action}`);
    return;
  }
  const { check, message, action, exit_code: exitCode } = failure;
  const what = check === 'key' ? 'Trying the key failed' : 'The service cannot be reached';
  const sentence = `${what}: ${message}.${action === null ? '' : ` ${action}`}`;
  if (prompter === null)
    throw new OddslakeError(exitCode, `${sentence} Nothing was written; --no-check writes the config anyway.`);
  prompter.print(sentence);
  if (!(await askYesNo(prompter, 'Write the config anyway?', false)))
    throw new OddslakeError(exitCode, 'Nothing was written.');
}

/** Whether the service cannot be used as configured. A wrong clock or rate can be changed later. */
const isFailure = ({ check, severity }: Finding, hasKey: boolean): boolean =>
  severity === 'action_required' && (check === 'reachable' || (check === 'key' && hasKey));

/** Asks until the answer is yes, no, or empty for the default. */
export async function askYesNo(prompter: Prompter, question: string, byDefault: boolean): Promise<boolean> {
  for (;;) {
    const answer = (await prompter.ask(`${question} [${byDefault ? 'Y/n' : 'y/N'}]: `)).trim().toLowerCase();
    if (answer === '') return byDefault;
    if (/^(y|yes)$/.test(answer)) return true;
    if (/^(n|no)$/.test(answer)) return false;
    prompter.print('Answer y or n.');
  }
}
