import { UsageError } from '../core/errors.ts';
import { loadSettings } from '../settings/load.ts';
import type { Settings } from '../settings/settings.ts';
import { defaultLayer, parseTextLayer, type SettingsLayer } from '../settings/source.ts';

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
