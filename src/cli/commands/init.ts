import { existsSync, writeFileSync } from 'node:fs';
import { dirname, join, parse, relative, resolve } from 'node:path';
import { Writable } from 'node:stream';
import type { Command } from 'commander';
import { UsageError } from '../../base/errors.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import { type CompleteCommands, createCommandCompleter, getCommandName } from '../../context/command-name.ts';
import { InterruptedError } from '../../context/context.ts';
import { readProcessEnvironment } from '../../settings/environment.ts';
import type { SettingsLayer } from '../../settings/layers.ts';
import type { Settings } from '../../settings/settings.ts';
import {
  type CliContext,
  configFileDefault,
  createRepeatableOption,
  printResult,
  withContext,
} from '../command-context.ts';
import { formatDiagnosis } from '../format-doctor.ts';
import { withNotes } from '../help.ts';
import type { Prompter } from '../init-config.ts';
import { requireOwner } from '../require-owner.ts';
import { runJobCommand } from '../run-job.ts';
import { getTerminalStyle } from '../terminal-style.ts';

interface InitFlags {
  readonly baseUrl?: string;
  readonly apiKeyFile?: string;
  readonly rate?: string;
  readonly output?: string;
  readonly name?: string;
  readonly set: readonly string[];
  readonly json?: boolean;
  readonly check: boolean;
  readonly orderBooks?: boolean;
  readonly nightly?: boolean;
}

/** `init`: writes a config file and creates an empty archive. */
export function addInit(command: Command, shell: CliContext): void {
  command
    .argument('[file]', 'config file to write; an existing one is never overwritten', configFileDefault)
    .option('--base-url <url>', 'base URL of the market data service, e.g. https://example.org')
    .option('--api-key-file <file>', 'file with the market data key (default: ODDSLAKE_API_KEY, or a prompt)')
    .option('--rate <n>', 'requests per second that the key allows (default: 5)')
    .option('--output <dir>', "the archive's root, relative to the folder of the config file (default: output/archive)")
    .option('--name <name>', 'name of the service in the archive (default: the origin of its URL)')
    .addOption(createRepeatableOption('--set <key=value>', 'another setting for the config file; can be repeated'))
    .option('--order-books', 'also record the order books of all live symbols, with one request per symbol and poll')
    .option('--no-check', 'do not try the address and the key before the config is written')
    .option('--nightly', 'run the first nightly job at the end')
    .option('--json', 'print one JSON object as the last line of standard output')
    .helpOption('--help', 'show this help')
    .action((file: string, flags: InitFlags) => initArchive(shell, resolve(file), flags));
  withNotes(command, notes);
}

const notes = `
On a terminal init asks for what the flags and the environment do not say. A key that is typed or pasted at its prompt is not shown; it
is written into a file beside the config, oddslake.key for oddslake.yaml, which only its owner can read.

init sends one request to the service, for a list of one market. If it fails, init asks on a terminal whether to write the config
anyway; without a terminal it writes nothing and exits with the code that a run would have: 7 unreachable, 3 key rejected, 4 other
errors. At the end it prints the checks of oddslake doctor, which need no network, and on a terminal offers to run the first nightly
job. Without a terminal it never asks.`;

async function initArchive(shell: CliContext, file: string, flags: InitFlags): Promise<void> {
  const [
    { askYesNo, collectAnswers, createConfigExistsError, formatConfig, requireUsableUpstream, writeConfig },
    { runDiagnosis },
    { systemDisk },
  ] = await Promise.all([
    import('../init-config.ts'),
    import('./doctor.ts'),
    import('../../archive/disk/file-system.ts'),
  ]);
  // So that a key in place of the name is neither repeated nor becomes a name.
  if (!/\.ya?ml$/.test(file)) throw new UsageError('The name of the config file has to end with .yaml or .yml.');
  if (existsSync(file)) throw createConfigExistsError(file);
  if (!existsSync(dirname(file)))
    throw new UsageError(`The folder of the config file does not exist: ${dirname(file)}`);
  const keyFile = `${parse(file).name}.key`;
  const givenLayers = await collectLayers(flags, dirname(file), keyFile);
  const terminal = process.stdin.isTTY && process.stderr.isTTY ? await openTerminal() : null;
  let runsNightly = flags.nightly === true;
  try {
    const answers = await collectAnswers(dirname(file), givenLayers, terminal);
    const { archive, source, upstream } = answers.settings;
    requireOwner(answers.settings);
    const { typedKey } = answers;
    const printLine = await createLinePrinter();
    if (upstream.apiKey === null)
      printLine(`No key is set: ${keyAdvice} Without a key, no job can run; the config is written all the same.`);
    if (flags.check) {
      printLine(`Trying ${upstream.baseUrl} …`);
      await withContext(checkFlags, shell.version, false, (context) =>
        requireUsableUpstream(
          { ...context, settings: answers.settings, signal: terminal?.signal ?? context.signal },
          readProcessEnvironment(),
          terminal,
          printLine,
        ),
      );
    }
    const chosen = new Map(answers.chosen);
    if (typedKey !== null) chosen.set('upstream.api_key_file', keyFile);
    const asksForBooks = terminal !== null && ![...chosen.keys()].some((path) => path.startsWith('orderbooks.'));
    if (asksForBooks && (await askYesNo(terminal, orderBooksQuestion, false))) chosen.set('orderbooks.all_live', true);
    const text = formatConfig(chosen, dirname(file));
    const makeArchive = await prepareArchive(answers.settings, shell);
    const created = writeConfig(systemDisk, file, text, () => {
      const isNew = makeArchive();
      if (typedKey !== null) writeFileSync(join(dirname(file), keyFile), `${typedKey}\n`, keyFileOptions);
      return isNew;
    });
    const diagnosis = await runDiagnosis(shell, { ...checkFlags, config: file, offline: true });
    const name = source.name ?? new URL(upstream.baseUrl!).origin;
    const { problems, warnings } = diagnosis;
    const result = {
      config: file,
      archive: archive.output,
      archive_created: created,
      upstream: name,
      problems,
      warnings,
    };
    const shortFile = relative('.', file);
    const isRead = (readProcessEnvironment().ODDSLAKE_CONFIG ?? '') === '' && shortFile === configFileDefault;
    const complete = createCommandCompleter(getCommandName, isRead ? [] : ['--config', shortFile]);
    printResult(flags, result, (style) =>
      [
        `wrote ${file}${typedKey === null ? '' : `, and the key to ${keyFile} beside it, which only you can read`}`,
        created
          ? `created the archive ${archive.output} for ${name}`
          : `the archive ${archive.output} for ${name} already exists and was not changed`,
        '',
        formatDiagnosis(diagnosis, { ...style, complete }),
        ...listNextSteps(file, isRead, upstream.apiKey !== null, complete),
        '',
      ].join('\n'),
    );
    if (terminal !== null && !runsNightly && upstream.apiKey !== null && problems === 0)
      runsNightly = await askYesNo(terminal, 'Run the first nightly job now?', true);
  } finally {
    terminal?.close();
  }
  if (!runsNightly) return;
  const nightlyFlags = { config: file, set: [], progress: true, wait: 600, ...(flags.json === true && { json: true }) };
  await runJobCommand(shell, 'nightly', nightlyFlags, shell.jobs.nightly, () => ({ day: null }));
}

/** Checks need no config of the working folder, and log nothing. */
const checkFlags = { config: null, set: [], quiet: true, progress: false, wait: 0 };

const keyFileOptions = { mode: 0o600, flag: 'wx', flush: true } as const;

const keyAdvice = 'set ODDSLAKE_API_KEY, or name a file that holds it with --api-key-file.';

const orderBooksQuestion = 'Also record the order books of all live symbols (1 request each)?';

/** @param keyFile name of the file for a typed key. If there is one, from an earlier init, its key is used unless another is given. */
async function collectLayers(
  { baseUrl, apiKeyFile, rate, output, name, set, orderBooks }: InitFlags,
  folder: string,
  keyFile: string,
): Promise<SettingsLayer[]> {
  const [{ isSecretSetting, readEnvironmentLayers }, { parseFlagLayers }] = await Promise.all([
    import('../../settings/layers.ts'),
    import('../../settings/load.ts'),
  ]);
  const flags = [
    ['upstream.base_url', baseUrl, '--base-url'],
    ['upstream.api_key_file', apiKeyFile, '--api-key-file'],
    ['upstream.requests_per_second', rate, '--rate'],
    ['source.name', name, '--name'],
    ['orderbooks.all_live', orderBooks?.toString(), '--order-books'],
  ] as const;
  const layers = parseFlagLayers({ set, output, flags });
  if (layers.some(({ values }) => values.has('upstream.api_key'))) {
    throw new UsageError(
      '--set: upstream.api_key is not written into a config. Set ODDSLAKE_API_KEY, or name a file with --api-key-file.',
    );
  }
  // Other secrets of the environment must not be written into a config.
  const environment = readEnvironmentLayers(readProcessEnvironment()).filter(({ values }) =>
    [...values.keys()].every((path) => path === 'upstream.api_key' || !isSecretSetting(path)),
  );
  const given = [...dropOverriddenKey(environment, layers), ...layers];
  const hasKey = given.some(({ values }) => values.has('upstream.api_key') || values.has('upstream.api_key_file'));
  if (hasKey || !existsSync(join(folder, keyFile))) return given;
  return [...given, ...parseFlagLayers({ flags: [['upstream.api_key_file', keyFile, keyFile]] })];
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

/** Creates a function that prints to standard error, wrapped to the terminal. */
async function createLinePrinter(): Promise<(text: string) => void> {
  const { wrapText } = await import('../table.ts');
  const { width } = getTerminalStyle(process.stderr);
  return (text) => void process.stderr.write(`${wrapText(text, width).join('\n')}\n`);
}

/** On a terminal without cursor control, TERM=dumb, readline keeps the character that should have erased the one before. */
function applyErasures(text: string): string {
  const erased = text.replace(/\P{Cc}\p{Cc}/u, '');
  return erased === text ? text : applyErasures(erased);
}

const endingSignals = ['SIGHUP', 'SIGQUIT'] as const;

/** Prompts go to standard error, because standard output is for results. */
async function openTerminal(): Promise<Prompter & { readonly signal: AbortSignal; close(): void }> {
  const { createInterface } = await import('node:readline/promises');
  const { stderr } = process;
  let isHidden = false;
  const write: Writable['_write'] = (chunk, _, done) => void (isHidden ? done() : stderr.write(chunk, done));
  const output = Object.assign(new Writable({ write }), { columns: stderr.columns });
  // Without a history, from which the arrow keys would show the key.
  const terminal = createInterface({ input: process.stdin, output, terminal: true, historySize: 0 });
  const stop = new AbortController();
  terminal.on('SIGINT', () => stop.abort(new InterruptedError('SIGINT')));
  // After Ctrl-Z and fg.
  terminal.on('SIGCONT', () => terminal.resume());
  terminal.on('close', () => stop.abort(new UsageError('The input ended before all questions were answered.')));
  const ask = async (question: string): Promise<string> => {
    try {
      return applyErasures(await terminal.question(question, { signal: stop.signal }));
    } catch (error) {
      throw stop.signal.aborted ? stop.signal.reason : error;
    }
  };
  const close = (): void => {
    for (const name of endingSignals) process.off(name, onSignal);
    terminal.close();
  };
  // After other signals, Node itself turns the echo on again.
  const onSignal = (name: NodeJS.Signals): void => {
    close();
    process.kill(process.pid, name);
  };
  for (const name of endingSignals) process.on(name, onSignal);
  return {
    ask,
    async askHidden(question) {
      stderr.write(question);
      isHidden = true;
      try {
        return await ask('');
      } finally {
        isHidden = false;
        stderr.write('\n');
      }
    },
    signal: stop.signal,
    print: await createLinePrinter(),
    close,
  };
}

/**
 * The lines that end the output. Each command can be pasted as it stands.
 * @param isRead whether commands in this folder read the config although they do not name it
 */
function listNextSteps(file: string, isRead: boolean, hasKey: boolean, complete: CompleteCommands): string[] {
  const commands = ['oddslake nightly', 'oddslake status', 'oddslake schedule'].map((command) => complete(command));
  return [
    'Next:',
    '',
    ...[...(hasKey ? [] : ['export ODDSLAKE_API_KEY=…']), ...commands].map((line) => `  ${line}`),
    '',
    isRead ? 'To use this config in other folders:' : 'To leave out --config in this shell:',
    '',
    `  export ODDSLAKE_CONFIG=${quoteShellWord(file)}`,
  ];
}
