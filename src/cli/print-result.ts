import type { Summary } from '../app/summary.ts';
import type { CommonFlags } from './command-context.ts';
import type { Shell } from './command-types.ts';
import { summaryText } from './print-summary.ts';
import { styleOf } from './terminal-style.ts';

/** Prints a summary and sets the exit code by it. */
export function tell(shell: Shell, flags: Pick<CommonFlags, 'json'>, summary: Summary, root: string): void {
  print(flags, summary, root);
  shell.exit(summary.exit_code);
}

/** Prints a summary: for a person, or as one JSON line. */
export function print(flags: Pick<CommonFlags, 'json'>, summary: Summary, root: string): void {
  if (flags.json === true) {
    if (summary.error !== null) process.stderr.write(`oddslake: ${summary.error}\n`);
    process.stdout.write(`${JSON.stringify(summary)}\n`);
  } else if (summary.run_id === null) process.stderr.write(`oddslake: ${summary.error}\n`);
  else process.stdout.write(`${summaryText(summary, root, styleOf(process.stdout))}\n`);
}
