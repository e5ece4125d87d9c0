import type { Command } from 'commander';
import type { Jobs } from '../app/job.ts';

/** What every command is added to. */
export interface Shell {
  readonly program: Command;
  readonly version: string;
  readonly jobs: Jobs;
  /** Sets the exit code of a command that ended without an error. */
  exit(code: number): void;
}
