import type { Summary } from '../app/summary.ts';
import type { CommonFlags } from './command-context.ts';
import type { CliContext } from './command-types.ts';
import { formatSummary } from './print-summary.ts';
import { getTerminalStyle } from './terminal-style.ts';

/** Prints a summary and sets the exit code by it. */
export function reportSummary(
  shell: CliContext,
  flags: Pick<CommonFlags, 'json'>,
  summary: Summary,
  root: string,
): void {
  printSummary(flags, summary, root);
  shell.setExitCode(summary.exit_code);
}

/** Prints a summary: for a person, or as one JSON line. */
export function printSummary(flags: Pick<CommonFlags, 'json'>, summary: Summary, root: string): void {
  if (flags.json === true) {
    if (summary.error !== null) process.stderr.write(`oddslake: ${summary.error}\n`);
    process.stdout.write(`${JSON.stringify(summary)}\n`);
  } else if (summary.run_id === null) process.stderr.write(`oddslake: ${summary.error}\n`);
  else process.stdout.write(`${formatSummary(summary, root, getTerminalStyle(process.stdout))}\n`);
}
