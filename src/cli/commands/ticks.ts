import { type CommonFlags, withCommonFlags } from '../command-context.ts';
import type { Shell } from '../command-types.ts';
import { withExamples, withNotes } from '../help.ts';
import { symbolOption } from '../options.ts';
import { runAndTell } from '../run-job.ts';

/** `ticks`: one poll of ticks. */
export function addTicks(shell: Shell): void {
  const command = shell.program
    .command('ticks')
    .description('one poll of ticks up to now, published')
    .addOption(symbolOption());
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((flags: CommonFlags & { symbol: string[] }) =>
    runAndTell(shell, 'ticks', flags, shell.jobs.ticks, () => ({ symbols: flags.symbol })),
  );
}

const notes = `
Without --symbol it polls those of the setting symbols, else those that the market lists of the last poll name.`;

const examples = `
  oddslake ticks --output lake
  oddslake ticks --output lake --symbol KXBTC-26DEC0204-T28`;
