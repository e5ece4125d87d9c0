import { relative } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Command } from 'commander';
import type { JobLoaders } from '../app/job.ts';

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
