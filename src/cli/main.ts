import { readFileSync } from 'node:fs';
import { CommanderError } from 'commander';
import type { Jobs } from '../app/job.ts';
import { exitCodeOfError, sentence } from '../app/summary.ts';
import { exitCodes, UsageError } from '../core/errors.ts';
import { createProgram } from './program.ts';

/** Runs the command line and resolves to its exit code. `jobs` come from outside: src imports nothing from jobs. */
export async function main(argv: readonly string[], jobs: Jobs): Promise<number> {
  // A reader that has seen enough (head) closes the pipe: that is no failure of ours.
  process.stdout.on('error', (error: NodeJS.ErrnoException) => {
    if (error.code === 'EPIPE') process.exit(0);
    throw error;
  });
  // Whoever reads the log may go away, or its disk be full: it is lost then, and the work goes on.
  process.stderr.on('error', () => {});
  let exitCode: number = exitCodes.done;
  const program = createProgram(version(), jobs, (code) => {
    exitCode = code;
  });
  try {
    await program.parseAsync(argv);
    return exitCode;
  } catch (error) {
    // Commander has said already what was wrong.
    if (error instanceof CommanderError) {
      if (error.exitCode === 0) return exitCodes.done;
      await tellInJson(argv, jobs, error);
      return exitCodes.usage;
    }
    process.stderr.write(`oddslake: ${sentence(error)}\n`);
    return exitCodeOfError(error, false);
  }
}

/** A job's last line of `--json` is a summary, whatever the exit code: bad usage included. */
async function tellInJson(argv: readonly string[], jobs: Jobs, { message }: CommanderError): Promise<void> {
  const job = argv[2];
  if (job === undefined || !Object.hasOwn(jobs, job) || !argv.includes('--json')) return;
  const { notStarted } = await import('./run-job.ts');
  const error = new UsageError(message.replace(/^error: /, ''));
  process.stdout.write(`${JSON.stringify(notStarted(job, version(), performance.timeOrigin, error))}\n`);
}

/** From package.json, which is one folder further up in the built package. */
function version(): string {
  for (const up of ['../../package.json', '../../../package.json']) {
    try {
      return (JSON.parse(readFileSync(new URL(up, import.meta.url), 'utf8')) as { version: string }).version;
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  throw new Error('package.json is missing beside the program');
}
