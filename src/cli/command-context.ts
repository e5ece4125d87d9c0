import { existsSync } from 'node:fs';
import { resolve } from 'node:path';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Archive } from '../archive/archive.ts';
import { UsageError } from '../base/errors.ts';
import type { Log } from '../base/ports.ts';
import { systemClock, systemRandom } from '../base/system.ts';
import { computeThreadsMax } from '../base/worker-threads.ts';
import type { JobLoaders } from '../collector/job.ts';
import { completeCommands, setRunRoot } from '../context/command-name.ts';
import { type Context, InterruptedError } from '../context/context.ts';
import { readProcessEnvironment } from '../settings/environment.ts';
import type { SettingSources } from '../settings/load.ts';
import { requireOwner } from './require-owner.ts';
import { getTerminalStyle, hasColours, type TerminalStyle } from './terminal-style.ts';

/** The flags that every command has. */
export interface CommonFlags {
  /** Null: none, whatever the environment and the working folder have. */
  readonly config?: string | null;
  readonly output?: string;
  readonly archive?: string;
  readonly set: readonly string[];
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly logLevel?: string;
  readonly progress: boolean;
  readonly wait: number;
  readonly strict?: boolean;
  readonly verbose?: boolean;
}

/** The flags of `serve`. */
export interface ListenFlags {
  readonly host?: string;
  readonly port?: string;
}

/** The flag of commands that select sources. `backtest` has another --source, the venue of a market. */
export interface SourceFlags {
  readonly source?: readonly string[];
}

function appendValue(value: string, before: readonly string[]): string[] {
  if (value === '') throw new InvalidArgumentError('Expected a non-empty string.');
  return [...before, value];
}

/** Config file of the working folder, which `init` writes. It is read if neither --config nor ODDSLAKE_CONFIG names another one. */
export const configFileDefault = 'oddslake.yaml';

/** An option that can be repeated. */
export const createRepeatableOption = (flags: string, text: string): Option =>
  new Option(flags, text).argParser(appendValue).default([], 'none');

function parseSeconds(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < 0)
    throw new InvalidArgumentError('Expected seconds, 0 or more.');
  return value;
}

/** Common flags that have no effect on some commands. */
type UnusedFlag = '--config' | '--output' | '--set' | '--no-progress' | '--wait' | '--strict' | '--verbose';

/** Common flags that have no effect on read-only commands. */
export const flagsUnusedByReaders: readonly UnusedFlag[] = ['--no-progress', '--wait', '--strict'];

/**
 * Adds the common flags, as the last group of the help.
 * @param idle flags without effect on this command. They are accepted, so that scripts can pass the same flags to every
 *   command, but hidden in the help.
 * @param readsBuckets whether the command also reads an archive in object storage, see `withReadableArchive`
 */
export function withCommonFlags(command: Command, idle: readonly UnusedFlag[] = [], readsBuckets = false): Command {
  addCommonFlags(command);
  const hidden: readonly (string | undefined)[] = idle.includes('--output') ? [...idle, '--archive'] : idle;
  for (const option of command.options) {
    if (hidden.includes(option.long)) option.hideHelp();
    if (readsBuckets && option.long === '--archive')
      option.description = 'the archive to read, in place of --output: s3://BUCKET/PREFIX, or a folder';
  }
  return command;
}

function addCommonFlags(command: Command): void {
  command
    .optionsGroup('Common options:')
    .option('--config <file>', 'config file (default: ODDSLAKE_CONFIG, or oddslake.yaml in the working folder)')
    .option('--output <dir>', "the archive's root (default: output/archive)")
    .option('--archive <dir>', 'another name of --output')
    .addOption(
      createRepeatableOption('--set <key=value>', 'set one setting, e.g. --set poll.page_limit=1000; can be repeated'),
    )
    .option('--json', 'print one JSON object as the last line of standard output')
    .option('--quiet', 'show no progress, and write only errors to standard error')
    .addOption(
      new Option('--log-level <level>', 'minimum log level').choices([
        'trace',
        'debug',
        'info',
        'warn',
        'error',
        'fatal',
        'silent',
      ]),
    )
    .option('--no-progress', 'show no progress bar')
    .addOption(
      new Option('--wait <seconds>', 'maximum time to wait for the write lock of another run')
        .argParser(parseSeconds)
        .default(600),
    )
    .option('--strict', 'exit with 4 if there are warnings')
    .option('--verbose', 'print all figures and findings, not only those that need attention')
    .helpOption('--help', 'show this help');
}

/** The archive that --archive or --output names. Throws UsageError if they name different ones. */
export function mergeArchiveFlags({ archive, output }: Pick<CommonFlags, 'archive' | 'output'>): string | undefined {
  const isSame =
    archive === output || (archive !== undefined && output !== undefined && resolve(archive) === resolve(output));
  if (archive !== undefined && output !== undefined && !isSame)
    throw new UsageError('Give either --archive or --output, not both: they name different archives.');
  return archive ?? output;
}

/** The sources of the settings of a command. */
export function toSettingSources(flags: CommonFlags & ListenFlags): SettingSources {
  const env = readProcessEnvironment();
  const isUnnamed = flags.config === undefined && (env.ODDSLAKE_CONFIG?.trim() ?? '') === '';
  return {
    env,
    cwd: process.cwd(),
    config: isUnnamed && existsSync(configFileDefault) ? configFileDefault : flags.config,
    set: flags.set,
    output: mergeArchiveFlags(flags),
    flags: [
      ['log.level', flags.logLevel, '--log-level'],
      ['service.host', flags.host, '--host'],
      ['service.port', flags.port, '--port'],
    ],
  };
}

/** Runs a command with settings, log and signal handlers. */
export async function withContext<T>(
  flags: CommonFlags & SourceFlags & ListenFlags,
  version: string,
  mayCreate: boolean,
  work: (context: Context) => Promise<T>,
): Promise<T> {
  const [{ loadSettings }, { listSecrets }, { findMisspelledVariables }, { createLog }, { systemDisk }] =
    await Promise.all([
      import('../settings/load.ts'),
      import('../settings/settings.ts'),
      import('../settings/layers.ts'),
      import('./log.ts'),
      import('../archive/disk/file-system.ts'),
    ]);
  const sources = toSettingSources(flags);
  const settings = await loadSettings(sources);
  setRunRoot(settings.archive.output);
  const canDraw = process.stderr.isTTY && sources.env.TERM !== 'dumb';
  const log: Log = createLog({
    level: flags.quiet === true ? 'error' : settings.log.level,
    stream: process.stderr,
    format: settings.log.format,
    colour: hasColours(process.stderr),
    draws: canDraw,
    secrets: listSecrets(settings),
    complete: completeCommands,
  });
  // Nobody named it, so the same command in another folder may do something else.
  if (sources.config === configFileDefault && flags.config === undefined && flags.json !== true)
    log.info({}, `the settings are those of ${configFileDefault} in this folder`);
  for (const { name, meant } of findMisspelledVariables(sources.env))
    log.warn({}, `${name} is not a variable of oddslake and has no effect: did you mean ${meant}?`);
  const stop = new AbortController();
  const onSignal = (signalName: 'SIGINT' | 'SIGTERM') => (): void => stop.abort(new InterruptedError(signalName));
  const [onInt, onTerm] = [onSignal('SIGINT'), onSignal('SIGTERM')];
  // Only once: a second Ctrl-C ends the process immediately.
  process.once('SIGINT', onInt);
  process.once('SIGTERM', onTerm);
  try {
    return await work({
      settings,
      sources: flags.source,
      clock: systemClock,
      random: systemRandom,
      log,
      signal: stop.signal,
      version,
      canCreateArchive: mayCreate,
      threads: computeThreadsMax(),
      disk: systemDisk,
      waitMs: flags.wait * 1000,
      strict: flags.strict === true,
      async startDisplay(label, total, unit, getRequestRate) {
        const { startProgress } = await import('./progress.ts');
        const isShown = flags.progress && flags.quiet !== true;
        const task = { label, total, unit, getRequestRate };
        return startProgress({ ...task, clock: systemClock, log, stream: process.stderr, canDraw, isShown });
      },
    });
  } finally {
    process.off('SIGINT', onInt);
    process.off('SIGTERM', onTerm);
  }
}

type ArchiveWork<T> = (archive: Archive, context: Context) => T | Promise<T>;
type ArchiveFlags = CommonFlags & SourceFlags;

/** Like withContext, with the archive open. For commands that require an existing archive. */
export const withArchive = <T>(flags: ArchiveFlags, version: string, work: ArchiveWork<T>): Promise<T> =>
  withContext(flags, version, false, (context) => withLocalArchive(context, (archive) => work(archive, context)));

/** Like withArchive, for commands that write to the archive. */
export const withOwnArchive = <T>(flags: ArchiveFlags, version: string, work: ArchiveWork<T>): Promise<T> =>
  withContext(flags, version, false, (context) => {
    requireOwner(context.settings);
    return withLocalArchive(context, (archive) => work(archive, context));
  });

/**
 * Adds the common flags and the action of a subcommand that changes the archive. Commander assigns a flag to the parent command
 * if both commands have it: optsWithGlobals reads both.
 * @param getWork checks the flags before the archive is opened, and returns the work
 */
export function withArchiveAction<F extends CommonFlags, A>(
  subcommand: Command,
  version: string,
  getWork: (argument: A, flags: F) => ArchiveWork<void>,
): void {
  withCommonFlags(subcommand, ['--no-progress', '--strict']).action((argument: A, _own: object, command: Command) => {
    const flags = command.optsWithGlobals<F>();
    return withOwnArchive(flags, version, getWork(argument, flags));
  });
}

/** Runs work with the archive of the settings open, which has to exist. */
export async function withLocalArchive<T>(context: Context, work: (archive: Archive) => T | Promise<T>): Promise<T> {
  const { openConfiguredArchive } = await import('../context/open-configured.ts');
  using archive = openConfiguredArchive(context, false);
  return await work(archive);
}

/** Like withArchive, for commands that change nothing: the archive may be in object storage. */
export const withReadableArchive = <T>(flags: ArchiveFlags, version: string, work: ArchiveWork<T>): Promise<T> =>
  withContext(flags, version, false, (context) => openReadableArchive(context, (archive) => work(archive, context)));

/**
 * Opens the archive of the settings, in a folder or in object storage, for work that changes nothing.
 * @throws UsageError if --source names a source that the archive does not have
 */
export async function openReadableArchive<T>(context: Context, work: (archive: Archive) => T | Promise<T>): Promise<T> {
  const { bucketUrl } = context.settings.archive;
  const { requireKnownSources } = await import('../context/open-configured.ts');
  const workOn = (archive: Archive): T | Promise<T> => {
    requireKnownSources(archive, context);
    return work(archive);
  };
  if (bucketUrl === null) return await withLocalArchive(context, workOn);
  const { withBucketArchive } = await import('../collector/steps/bucket-access.ts');
  return await withBucketArchive(context, bucketUrl, workOn);
}

/** Prints a result to standard output: with `--json` as one JSON line, otherwise as text, which ends with a newline. */
export const printResult = (
  flags: Pick<CommonFlags, 'json'>,
  result: object,
  format: (style: TerminalStyle) => string,
): void =>
  void process.stdout.write(
    flags.json === true ? `${JSON.stringify(result)}\n` : format(getTerminalStyle(process.stdout)),
  );

/** Passed to every function that adds a command. */
export interface CliContext {
  readonly program: Command;
  readonly version: string;
  /** Arguments after the program name. */
  readonly args: readonly string[];
  readonly jobs: JobLoaders;
  /** Sets the exit code of a command that ends without an error. */
  setExitCode(code: number): void;
}
