import { existsSync } from 'node:fs';
import { dirname, relative, resolve } from 'node:path';
import { UsageError } from '../../base/errors.ts';
import { InterruptedError } from '../../context/context.ts';
import type { Settings } from '../../settings/settings.ts';
import type { SettingsLayer } from '../../settings/source.ts';
import { type CliContext, configFileDefault, createRepeatableOption, printResult } from '../command-context.ts';
import { getCommandName, quoteForShell } from '../command-name.ts';
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

/** `init`: writes a config file and creates an empty archive. */
export function addInit(shell: CliContext): void {
  shell.program
    .command('init')
    .description('write a config file from flags and environment, with prompts on a terminal, and create the archive')
    .argument('[file]', 'config file to write; an existing one is never overwritten', configFileDefault)
    .option('--base-url <url>', 'base URL of the market data service, e.g. https://example.org')
    .option('--api-key-file <file>', 'file with the market data key (default: ODDSLAKE_API_KEY)')
    .option('--rate <n>', 'requests per second that the key allows (default: 5)')
    .option('--output <dir>', "the archive's root, relative to the folder of the config file (default: output/archive)")
    .option('--name <name>', 'name of the service in the archive (default: the origin of its URL)')
    .addOption(createRepeatableOption('--set <key=value>', 'another setting for the config file; can be repeated'))
    .option('--json', 'print one JSON object as the last line of standard output')
    .helpOption('--help', 'show this help')
    .action((file: string, flags: InitFlags) => initArchive(shell, resolve(file), flags));
}

async function initArchive(shell: CliContext, file: string, flags: InitFlags): Promise<void> {
  const [{ collectAnswers, createConfigExistsError, formatConfig, writeConfig }, { systemDisk }] = await Promise.all([
    import('../init-config.ts'),
    import('../../archive/disk/file-system.ts'),
  ]);
  if (existsSync(file)) throw createConfigExistsError(file);
  if (!existsSync(dirname(file)))
    throw new UsageError(`The folder of the config file does not exist: ${dirname(file)}`);
  const givenLayers = await collectLayers(flags);
  const terminal = process.stdin.isTTY && process.stderr.isTTY ? await openTerminal() : null;
  let answers: InitAnswers;
  try {
    answers = await collectAnswers(dirname(file), givenLayers, terminal);
  } finally {
    terminal?.close();
  }
  const created = writeConfig(
    systemDisk,
    file,
    formatConfig(answers.chosen, dirname(file)),
    await prepareArchive(answers.settings, shell),
  );
  const { archive, source, upstream } = answers.settings;
  const name = source.name ?? new URL(upstream.baseUrl!).origin;
  const result = { config: file, archive: archive.output, archive_created: created, upstream: name };
  const nextCommands = await listNextCommands(file, upstream.apiKey !== null);
  printResult(flags, result, () =>
    [
      `wrote ${file}`,
      created
        ? `created the archive ${archive.output} for ${name}`
        : `the archive ${archive.output} for ${name} already exists and was not changed`,
      '',
      'Next:',
      '',
      ...nextCommands.map((line) => `  ${line}`),
      '',
    ].join('\n'),
  );
}

async function collectLayers({ baseUrl, apiKeyFile, rate, output, name, set }: InitFlags): Promise<SettingsLayer[]> {
  const [{ isSecretSetting, parseTextLayer, readEnvironmentLayers, readProcessEnvironment }, { parseSetOption }] =
    await Promise.all([import('../../settings/source.ts'), import('../../settings/load.ts')]);
  const flags: [string | undefined, string, string][] = [
    [baseUrl, 'upstream.base_url', '--base-url'],
    [apiKeyFile, 'upstream.api_key_file', '--api-key-file'],
    [rate, 'upstream.requests_per_second', '--rate'],
    [output, 'archive.output', '--output'],
    [name, 'source.name', '--name'],
  ];
  const setLayers = set.map(parseSetOption);
  if (setLayers.some(({ values }) => values.has('upstream.api_key'))) {
    throw new UsageError(
      '--set: upstream.api_key is not written into a config. Set ODDSLAKE_API_KEY, or name a file with --api-key-file.',
    );
  }
  const flagLayers = flags.flatMap(([text, path, flag]) =>
    text === undefined ? [] : [parseTextLayer(path, text, flag)],
  );
  // Other secrets of the environment must not be written into a config.
  const environment = readEnvironmentLayers(readProcessEnvironment()).filter(({ values }) =>
    [...values.keys()].every((path) => path === 'upstream.api_key' || !isSecretSetting(path)),
  );
  return [...dropOverriddenKey(environment, [...setLayers, ...flagLayers]), ...setLayers, ...flagLayers];
}

/** Drops the key settings of the environment if a flag names a key file. */
function dropOverriddenKey(environment: readonly SettingsLayer[], flags: readonly SettingsLayer[]): SettingsLayer[] {
  if (!flags.some(({ values }) => values.has('upstream.api_key_file'))) return [...environment];
  return environment.filter(({ values }) => !values.has('upstream.api_key') && !values.has('upstream.api_key_file'));
}

/**
 * Returns a function that creates the archive and returns whether it is new. That function throws UsageError if the folder
 * holds other files, or the archive of another upstream.
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

/** Prompts go to standard error, because standard output is for results. */
async function openTerminal(): Promise<Prompter & { close(): void }> {
  const { createInterface } = await import('node:readline/promises');
  const terminal = createInterface({ input: process.stdin, output: process.stderr });
  const stop = new AbortController();
  terminal.on('SIGINT', () => stop.abort(new InterruptedError('SIGINT')));
  terminal.on('close', () => stop.abort(new UsageError('The input ended before all questions were answered.')));
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

async function listNextCommands(file: string, hasKey: boolean): Promise<string[]> {
  const command = await getCommandName();
  const config = `--config ${quoteForShell(relative('.', file))}`;
  return [
    ...(hasKey ? [] : ['export ODDSLAKE_API_KEY=…']),
    `${command} nightly ${config}`,
    `${command} status ${config}`,
    `${command} schedule ${config}`,
  ];
}
