import { existsSync } from 'node:fs';
import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import { type Command, InvalidArgumentError, Option } from 'commander';
import type { Archive } from '../archive/open-archive.ts';
import type { Log } from '../base/ports.ts';
import { systemClock, systemRandom } from '../base/system.ts';
import { computeThreadsMax } from '../base/worker-threads.ts';
import type { JobLoaders } from '../collector/run/job.ts';
import { type Context, InterruptedError } from '../context/context.ts';
import { hasColours } from './terminal-style.ts';

/** The flags that every command has. */
export interface CommonFlags {
  readonly config?: string;
  readonly output?: string;
  readonly set: readonly string[];
  readonly json?: boolean;
  readonly quiet?: boolean;
  readonly logLevel?: string;
  readonly progress: boolean;
  readonly wait: number;
  readonly strict?: boolean;
}

function appendValue(value: string, before: readonly string[]): string[] {
  if (value === '') throw new InvalidArgumentError('Expected a text that is not empty.');
  return [...before, value];
}

/** The config that `init` writes unless told otherwise. It is read only where it is named. */
export const configFileDefault = 'oddslake.yaml';

/** Takes a flag that may be given several times. */
export const createRepeatableOption = (flags: string, text: string): Option =>
  new Option(flags, text).argParser(appendValue).default([], 'none');

function parseSeconds(text: string): number {
  const value = Number(text);
  if (text.trim() === '' || !Number.isFinite(value) || value < 0)
    throw new InvalidArgumentError('Expected seconds, 0 or more.');
  return value;
}

/** Flags that every command takes and not every one has a use for. */
type UnusedFlag = '--config' | '--output' | '--set' | '--no-progress' | '--wait' | '--strict';

/** Those that mean nothing to a command that only looks. */
export const flagsUnusedByReaders: readonly UnusedFlag[] = ['--no-progress', '--wait', '--strict'];

/**
 * Adds the flags that every command has, in a group of their own at the end of its help. `idle`: those that mean nothing
 * to it; they are taken, so that a script can pass the same to all, and left out of its help.
 */
export function withCommonFlags(command: Command, idle: readonly UnusedFlag[] = []): Command {
  addCommonFlags(command);
  for (const option of command.options)
    if ((idle as readonly (string | undefined)[]).includes(option.long)) option.hideHelp();
  return command;
}

function addCommonFlags(command: Command): void {
  command
    .optionsGroup('Common options:')
    .option('--config <file>', 'config file (default: none, see config/default.yaml for every setting)')
    .option('--output <dir>', "the archive's root (default: output/archive)")
    .addOption(
      createRepeatableOption('--set <key=value>', 'one setting, e.g. --set poll.page_limit=1000; may be repeated'),
    )
    .option('--json', 'one JSON object as the last line of standard output')
    .option('--quiet', 'no progress, and only errors on standard error')
    .addOption(
      new Option('--log-level <level>', 'least level of log lines').choices([
        'trace',
        'debug',
        'info',
        'warn',
        'error',
        'fatal',
        'silent',
      ]),
    )
    .option('--no-progress', 'no progress bar')
    .addOption(
      new Option('--wait <seconds>', 'how long to wait for another run that is writing')
        .argParser(parseSeconds)
        .default(600),
    )
    .option('--strict', 'exit with 4 where there are warnings')
    .helpOption('--help', 'show this help');
}

/** Opens what a command works with, runs it, and ends it: signals, settings, log. */
export async function withContext<T>(
  flags: CommonFlags,
  version: string,
  mayCreate: boolean,
  work: (context: Context) => Promise<T>,
  amend: (sources: { set: readonly string[]; output?: string }) => { set: readonly string[]; output?: string } = (
    same,
  ) => same,
): Promise<T> {
  const [{ loadSettings }, { listSecrets }, { readProcessEnvironment }, { createLog }, { systemDisk }] =
    await Promise.all([
      import('../settings/load.ts'),
      import('../settings/settings.ts'),
      import('../settings/source.ts'),
      import('./log.ts'),
      import('../archive/disk/file-system.ts'),
    ]);
  const { set, output } = amend({ set: flags.set, ...(flags.output === undefined ? {} : { output: flags.output }) });
  const environment = readProcessEnvironment();
  const settings = await loadSettings({
    env: environment,
    cwd: process.cwd(),
    set,
    ...(flags.config === undefined ? {} : { config: flags.config }),
    ...(output === undefined ? {} : { output }),
    ...(flags.logLevel === undefined ? {} : { logLevel: flags.logLevel }),
  });
  const draws = process.stderr.isTTY && environment.TERM !== 'dumb';
  const log: Log = await createLog({
    level: flags.quiet === true ? 'error' : settings.log.level,
    stream: process.stderr,
    colour: hasColours(process.stderr),
    draws,
    secrets: listSecrets(settings),
  });
  const unnamed = settings.configFile === null && settings.upstream.baseUrl === null && !settings.archive.outputNamed;
  if (unnamed && existsSync(configFileDefault))
    log.warn({}, `${configFileDefault} is here and not read: name it with --config ${configFileDefault}`);
  const stop = new AbortController();
  const onSignal = (by: 'SIGINT' | 'SIGTERM') => (): void => stop.abort(new InterruptedError(by));
  const [onInt, onTerm] = [onSignal('SIGINT'), onSignal('SIGTERM')];
  // Only once: the second Ctrl-C ends the process at once, as people expect.
  process.once('SIGINT', onInt);
  process.once('SIGTERM', onTerm);
  try {
    return await work({
      settings,
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
      async startDisplay(label, total, unit, asking) {
        const { startProgress } = await import('./progress.ts');
        const shown = flags.progress && flags.quiet !== true;
        const what = { label, total, unit, asking };
        return startProgress({
          ...what,
          clock: systemClock,
          log,
          stream: process.stderr,
          canDraw: draws,
          isShown: shown,
        });
      },
    });
  } finally {
    process.off('SIGINT', onInt);
    process.off('SIGTERM', onTerm);
  }
}

/** The same with the archive that the settings name, for commands that start none. */
export const withArchive = <T>(
  flags: CommonFlags,
  version: string,
  work: (archive: Archive, context: Context) => T | Promise<T>,
): Promise<T> =>
  withContext(flags, version, false, async (context) => {
    const { openConfiguredArchive } = await import('../context/open-configured.ts');
    const archive = openConfiguredArchive(context, false);
    try {
      return await work(archive, context);
    } finally {
      archive.close();
    }
  });

/** How the program is called from the working folder: out of a checkout it is not on the PATH. */
export function getCommandName(): string {
  if (!import.meta.url.endsWith('.ts')) return 'oddslake';
  const launcher = fileURLToPath(new URL('../../bin/oddslake', import.meta.url));
  const near = relative('.', launcher);
  return near.startsWith('..') ? launcher : near;
}

/** What every command is added to. */
export interface CliContext {
  readonly program: Command;
  readonly version: string;
  /** The words of the command line behind the program's name. */
  readonly args: readonly string[];
  readonly jobs: JobLoaders;
  /** Sets the exit code of a command that ended without an error. */
  setExitCode(code: number): void;
}
