import { dirname, relative, resolve } from 'node:path';
import { UsageError } from '../../base/errors.ts';
import { InterruptedError } from '../../context/context.ts';
import type { Settings } from '../../settings/settings.ts';
import type { SettingsLayer } from '../../settings/source.ts';
import { type CliContext, configFileDefault, createRepeatableOption, getCommandName } from '../command-context.ts';
import type { InitAnswers, Prompter } from '../init-config.ts';

interface InitFlags {
  readonly baseUrl?: string;
  readonly apiKeyFile?: string;
  readonly rate?: string;
  readonly output?: string;
  readonly name?: string;
  readonly set: readonly string[];
  readonly json?: boolean;
}

/** `init`: a config with what it is told or asks, and an empty archive. */
export function addInit(shell: CliContext): void {
  shell.program
    .command('init')
    .description('write a config file from flags and environment (prompts on a terminal), and create the archive')
    .argument('[file]', 'config file to write; an existing one is never overwritten', configFileDefault)
    .option('--base-url <url>', 'base URL of the market data service, e.g. https://example.org')
    .option('--api-key-file <file>', 'file with the market data key (default: ODDSLAKE_API_KEY)')
    .option('--rate <n>', 'requests a second that the key allows (default: 5)')
    .option('--output <dir>', "the archive's root, from the config's folder on (default: output/archive)")
    .option('--name <name>', 'name of the service in the archive (default: the origin of its URL)')
    .addOption(createRepeatableOption('--set <key=value>', 'any other setting for the config; may be repeated'))
    .option('--json', 'one JSON object as the last line of standard output')
    .helpOption('--help', 'show this help')
    .action((file: string, flags: InitFlags) => initArchive(shell, resolve(file), flags));
}

async function initArchive(shell: CliContext, file: string, flags: InitFlags): Promise<void> {
  const [
    { existsSync },
    { collectAnswers },
    { formatConfig },
    { createConfigExistsError, writeConfig },
    { systemDisk },
  ] = await Promise.all([
    import('node:fs'),
    import('../init-config.ts'),
    import('../init-config.ts'),
    import('../init-config.ts'),
    import('../../archive/disk/file-system.ts'),
  ]);
  if (existsSync(file)) throw createConfigExistsError(file);
  if (!existsSync(dirname(file))) throw new UsageError(`There is no folder ${dirname(file)} to write a config into.`);
  const told = await collectLayers(flags);
  const terminal = process.stdin.isTTY && process.stderr.isTTY ? await openTerminal() : null;
  let answers: InitAnswers;
  try {
    answers = await collectAnswers(dirname(file), told, terminal);
  } finally {
    terminal?.close();
  }
  const created = writeConfig(
    systemDisk,
    file,
    formatConfig(answers.chosen),
    await prepareArchive(answers.settings, shell),
  );
  const { archive, source, upstream } = answers.settings;
  const name = source.name ?? new URL(upstream.baseUrl!).origin;
  if (flags.json === true) {
    const told = { config: file, archive: archive.output, archive_created: created, upstream: name };
    process.stdout.write(`${JSON.stringify(told)}\n`);
    return;
  }
  process.stdout.write(
    [
      `wrote ${file}`,
      created
        ? `created the archive ${archive.output} for ${name}`
        : `the archive ${archive.output} for ${name} is there already, and is kept`,
      '',
      'Next:',
      '',
      ...listNextCommands(file, upstream.apiKey !== null).map((line) => `  ${line}`),
      '',
    ].join('\n'),
  );
}

async function collectLayers({ baseUrl, apiKeyFile, rate, output, name, set }: InitFlags): Promise<SettingsLayer[]> {
  const [{ readProcessEnvironment, readEnvironmentLayers }, { isSecretSetting, parseTextLayer }, { parseSetOption }] =
    await Promise.all([
      import('../../settings/source.ts'),
      import('../../settings/source.ts'),
      import('../../settings/load.ts'),
    ]);
  const flags: [string | undefined, string, string][] = [
    [baseUrl, 'upstream.base_url', '--base-url'],
    [apiKeyFile, 'upstream.api_key_file', '--api-key-file'],
    [rate, 'upstream.requests_per_second', '--rate'],
    [output, 'archive.output', '--output'],
    [name, 'source.name', '--name'],
  ];
  const sets = set.map(parseSetOption);
  if (sets.some(({ values }) => values.has('upstream.api_key'))) {
    throw new UsageError(
      '--set: upstream.api_key is not written into a config. Set ODDSLAKE_API_KEY, or name a file with --api-key-file.',
    );
  }
  const named = flags.flatMap(([text, path, flag]) => (text === undefined ? [] : [parseTextLayer(path, text, flag)]));
  // Other secrets of the environment stay where they are: a config is no place for them.
  const environment = readEnvironmentLayers(readProcessEnvironment()).filter(({ values }) =>
    [...values.keys()].every((path) => path === 'upstream.api_key' || !isSecretSetting(path)),
  );
  return [...dropOverriddenKey(environment, [...sets, ...named]), ...sets, ...named];
}

/** What the environment says of the key counts only where no flag names a file for it. */
function dropOverriddenKey(environment: readonly SettingsLayer[], flags: readonly SettingsLayer[]): SettingsLayer[] {
  if (!flags.some(({ values }) => values.has('upstream.api_key_file'))) return [...environment];
  return environment.filter(({ values }) => !values.has('upstream.api_key') && !values.has('upstream.api_key_file'));
}

/**
 * Makes the archive, and tells whether it was not there before. Throws UsageError where the folder is another
 * upstream's, or no archive's.
 */
async function prepareArchive(settings: Settings, { version }: CliContext): Promise<() => boolean> {
  const [{ openConfiguredArchive }, { archiveExists }, { systemDisk }] = await Promise.all([
    import('../../context/open-configured.ts'),
    import('../../archive/open-archive.ts'),
    import('../../archive/disk/file-system.ts'),
  ]);
  return () => {
    const isNew = !archiveExists(settings.archive.output, systemDisk);
    openConfiguredArchive({ settings, version, canCreateArchive: true, disk: systemDisk }, true).close();
    return isNew;
  };
}

/** Questions go to standard error: results alone are for standard output. */
async function openTerminal(): Promise<Prompter & { close(): void }> {
  const { createInterface } = await import('node:readline/promises');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const stop = new AbortController();
  terminal.on('SIGINT', () => stop.abort(new InterruptedError('SIGINT')));
  terminal.on('close', () => stop.abort(new UsageError('The input ended before everything was answered.')));
  return {
    async ask(question) {
      try {
        return await terminal.question(question, { signal: stop.signal });
      } catch (error) {
        throw stop.signal.aborted ? stop.signal.reason : error;
      }
    },
    print: (text) => void process.stderr.write(`${text}\n`),
    close: () => terminal.close(),
  };
}

function listNextCommands(file: string, hasKey: boolean): string[] {
  const command = quoteForShell(getCommandName());
  const config = `--config ${quoteForShell(relative('.', file))}`;
  return [
    ...(hasKey ? [] : ['export ODDSLAKE_API_KEY=…']),
    `${command} nightly ${config}`,
    `${command} status ${config}`,
    `${command} schedule ${config}`,
  ];
}

/** A path as a shell takes it. */
const quoteForShell = (path: string): string => (/^[\w./-]+$/.test(path) ? path : `'${path.replaceAll("'", "'\\''")}'`);
