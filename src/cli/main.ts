import { readFileSync } from 'node:fs';
import { CommanderError } from 'commander';
import { formatErrorMessage } from '../app/error-message.ts';
import type { JobLoaders } from '../app/job.ts';
import { toExitCode } from '../app/summary.ts';
import { exitCodes, UsageError } from '../core/errors.ts';
import { createProgram } from './program.ts';

/** Runs the command line and resolves to its exit code. `jobs` come from outside: src imports nothing from jobs. */
export async function main(argv: readonly string[], jobs: JobLoaders): Promise<number> {
  // A reader that has seen enough (head) closes the pipe: that is no failure of ours.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    throw error;
  });
  // Whoever reads the log may go away, or its disk be full: it is lost then, and the work goes on.
  process.stderr.on('error', () => {});
  // What nobody waits for ends the process all the same, and says so as everything else does.
  const onUncaught = (error: unknown): void => process.exit(printError(argv, error));
  process.on('uncaughtException', onUncaught);
  let exitCode: number = exitCodes.done;
  const onEnd = (code: number): void => {
    exitCode = code;
  };
  const program = createProgram(readVersion(), jobs, onEnd, argv.slice(2));
  try {
    await program.parseAsync(argv);
    return exitCode;
  } catch (error) {
    // Commander has said already what was wrong.
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return exitCodes.done;
      await printUsageErrorJson(argv, jobs, new UsageError(error.message.replace(/^error: /, '').replace('\n', ' ')));
      return exitCodes.usage;
    }
    return printError(argv, error);
  } finally {
    process.off('uncaughtException', onUncaught);
  }
}

/** A job's last line of `--json` is a summary, whatever the exit code: bad usage included. */
async function printUsageErrorJson(argv: readonly string[], jobs: JobLoaders, error: UsageError): Promise<void> {
  const job = argv[2];
  if (job === undefined || !Object.hasOwn(jobs, job) || !argv.includes('--json')) return printErrorJson(argv, error);
  const { summarizeNotStarted } = await import('./run-job.ts');
  process.stdout.write(`${JSON.stringify(summarizeNotStarted(job, readVersion(), performance.timeOrigin, error))}\n`);
}

/** Says what ended a command, in one sentence; where it came about is for those who ask for it. Returns the exit code. */
function printError(argv: readonly string[], error: unknown): number {
  const level = argv[argv.indexOf('--log-level') + 1] ?? '';
  const wanted = argv.includes('--log-level') && ['debug', 'trace'].includes(level);
  const stack = wanted && error instanceof Error ? `\n${error.stack}` : '';
  process.stderr.write(`oddslake: ${formatErrorMessage(error)}${stack}\n`);
  printErrorJson(argv, error);
  return toExitCode(error, false);
}

/** With `--json` any command that ends in an error has one JSON object as its last line. */
function printErrorJson(argv: readonly string[], error: unknown): void {
  if (!argv.includes('--json')) return;
  process.stdout.write(
    `${JSON.stringify({ error: formatErrorMessage(error), exit_code: toExitCode(error, false) })}\n`,
  );
}

/** From package.json, which is one folder further up in the built package. */
function readVersion(): string {
  for (const up of ['../../package.json', '../../../package.json']) {
    try {
      return (JSON.parse(readFileSync(new URL(up, import.meta.url), 'utf8')) as { version: string }).version;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  throw new Error('package.json is missing beside the program');
}
