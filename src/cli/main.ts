import { readFileSync } from 'node:fs';
import { Command, CommanderError } from 'commander';
import { exitCodes, UsageError } from '../base/errors.ts';
import type { JobLoaders } from '../collector/job.ts';
import { formatErrorMessage } from '../collector/run/error-message.ts';
import { toExitCode } from '../collector/run/summary.ts';
import { completeCommands, setRunArgs } from '../context/command-name.ts';
import type { CliContext } from './command-context.ts';
import { commandGroups } from './command-list.ts';
import { callAsUser, configureUsageErrors, suggestChoice, withExamples, withNotes } from './help.ts';
import { getTerminalStyle } from './terminal-style.ts';

/** Runs the command line and resolves to its exit code. `jobs` come from outside: src imports nothing from jobs. */
export async function main(argv: readonly string[], jobs: JobLoaders): Promise<number> {
  setRunArgs(argv.slice(2));
  // A reader such as `head` may close the pipe early. This is not an error.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    throw error;
  });
  // The log reader may exit, or its disk may be full. The log is then lost, but the command continues.
  process.stderr.on('error', () => {});
  // Errors outside an awaited promise end the process with the usual message.
  const onUncaught = (error: unknown): void => process.exit(printError(argv, error));
  process.on('uncaughtException', onUncaught);
  let exitCode: number = exitCodes.done;
  const onEnd = (code: number): void => {
    exitCode = code;
  };
  const args = argv.slice(2);
  let program: Command | undefined;
  let isStarted = false;
  const parse = async (loaded: LoadedCommands): Promise<void> => {
    program = await createProgram(readVersion(), jobs, onEnd, args, loaded);
    callAsUser(program);
    program.hook('preAction', () => {
      isStarted = true;
    });
    await program.parseAsync(argv);
  };
  try {
    const selected = selectCommands(args);
    await parse(selected).catch((error: unknown) => {
      const isUsageError = error instanceof CommanderError && error.exitCode !== 0 && !isStarted;
      if (isUsageError && selected !== 'all') return parse('all');
      throw error;
    });
    return exitCode;
  } catch (error) {
    // Commander has already printed the error.
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return exitCodes.done;
      await printUsageErrorJson(argv, jobs, new UsageError(formatCommanderError(program!, argv, error)));
      return exitCodes.usage;
    }
    const style = getTerminalStyle(process.stderr);
    // Imported only on a terminal, so that other failures are as fast as before.
    const wrap = style.width === null ? undefined : (await import('./table.ts')).wrapAdvice;
    return printError(argv, error, (text) => wrap?.(text, style, '', '  ').join('\n') ?? completeCommands(text));
  } finally {
    process.off('uncaughtException', onUncaught);
  }
}

function formatCommanderError(program: Command, argv: readonly string[], { message }: CommanderError): string {
  const command = program.commands.find((each) => each.name() === argv[2]) ?? program;
  return suggestChoice(command, message.replace(/^error: /, '')).replace('\n', ' ');
}

/** With `--json`, the last line of a job is always a summary, even after a usage error. */
async function printUsageErrorJson(argv: readonly string[], jobs: JobLoaders, error: UsageError): Promise<void> {
  const job = argv[2];
  if (job === undefined || !Object.hasOwn(jobs, job) || !argv.includes('--json')) return printErrorJson(argv, error);
  const { summarizeNotStarted } = await import('./run-job.ts');
  process.stdout.write(`${JSON.stringify(summarizeNotStarted(job, readVersion(), performance.timeOrigin, error))}\n`);
}

/** Prints the error in one sentence, with the stack at log level debug or trace. Returns the exit code. */
function printError(
  argv: readonly string[],
  error: unknown,
  print = (text: string): string => completeCommands(text),
): number {
  const level = argv[argv.indexOf('--log-level') + 1] ?? '';
  const hasStack = argv.includes('--log-level') && ['debug', 'trace'].includes(level);
  const stack = hasStack && error instanceof Error ? `\n${error.stack}` : '';
  const message = formatErrorMessage(error)
    .split('\n')
    .map((line, i) => print(i === 0 ? `oddslake: ${line}` : line));
  process.stderr.write(`${message.join('\n')}${stack}\n`);
  printErrorJson(argv, error);
  return toExitCode(error, false);
}

/** With `--json`, the last line of a failed command is one JSON object. */
function printErrorJson(argv: readonly string[], error: unknown): void {
  if (!argv.includes('--json')) return;
  process.stdout.write(
    `${JSON.stringify({ error: formatErrorMessage(error), exit_code: toExitCode(error, false) })}\n`,
  );
}

const readVersion = (): string =>
  (JSON.parse(readFileSync(new URL('../../package.json', import.meta.url), 'utf8')) as { version: string }).version;

/** The commands that a program is created with: all, or those of these names. Of the others it has only what the list shows. */
type LoadedCommands = 'all' | readonly string[];

/** The commands that a run needs. Only the list of commands needs none, and a completion also that of the line. */
function selectCommands([first, second, ...rest]: readonly string[]): LoadedCommands {
  const isListed = (name: string): boolean =>
    commandGroups.some(({ commands }) => commands.some((command) => command.name === name));
  if (first === '--help' || first === '--version') return second === undefined ? [] : 'all';
  if (first === 'help' && rest.length === 0) return second === undefined ? [] : isListed(second) ? [second] : 'all';
  if (first === 'completion') return [first, rest[rest.indexOf('--') + 1] ?? first];
  return first !== undefined && isListed(first) ? [first] : 'all';
}

/**
 * Creates the command line. Commands import their modules when they run, so that help starts fast.
 * @param args arguments after the program name
 */
export async function createProgram(
  version: string,
  jobs: JobLoaders,
  setExitCode: (code: number) => void,
  args: readonly string[] = [],
  loaded: LoadedCommands = 'all',
): Promise<Command> {
  const program = new Command('oddslake')
    .description('Records a prediction-market data service: every tick exactly once, as day-partitioned Parquet.')
    .version(version, '--version', 'show the version')
    .helpOption('--help', 'show help; after a command, the help of that command')
    .helpCommand('help [command]', 'show help for a command')
    .exitOverride();
  // Without the other commands, no error can suggest one of their flags. `main` then repeats it with all of them.
  if (loaded !== 'all') program.configureOutput({ writeErr: () => {} });
  withExamples(program, examples);
  withNotes(program, notes);
  const added = commandGroups.flatMap(({ heading, commands }) => {
    program.commandsGroup(heading);
    return commands.map(({ name, description, load }) => {
      const command = program.command(name).description(description);
      return loaded === 'all' || loaded.includes(name) ? { command, load } : null;
    });
  });
  const cli: CliContext = { program, version, args, jobs, setExitCode };
  const modules = await Promise.all(added.map((one) => one?.load()));
  for (const [i, add] of modules.entries()) add?.(added[i]!.command, cli);
  // Commands added before have their own configuration.
  program.configureHelp({ subcommandTerm: (command) => command.name() });
  for (const command of program.commands.flatMap((each) => [each, ...each.commands])) command.exitOverride();
  if (loaded === 'all') configureUsageErrors(program);
  return program;
}

const examples = `
  oddslake demo                                  try it: a simulated service and one nightly run
  ODDSLAKE_BASE_URL=https://example.org ODDSLAKE_API_KEY_FILE=key.txt \\
    oddslake nightly --output lake               the nightly job
  oddslake backfill --output lake --from 2026-11-01 --to 2026-11-08 --dry-run
  oddslake sql --output lake "SELECT date, count(*) FROM ticks GROUP BY 1 ORDER BY 1"`;

const notes = `
Times are UTC. Exit codes: 0 done, 1 unexpected error, 2 usage or settings, 3 key rejected, 4 incomplete, 5 another run is
writing, 6 archive damaged, 7 upstream unreachable, 130 and 143 stopped by a signal. See oddslake help COMMAND for details.`;
