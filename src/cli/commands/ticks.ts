import { type CommonFlags, withCommonFlags } from '../command-context.ts';
import type { Shell } from '../command-types.ts';
import { withExamples, withNotes } from '../help.ts';
import { symbolOption } from '../options.ts';
import { runAndTell } from '../run-job.ts';

/** `ticks`: one poll of ticks. */
export function addTicks(shell: Shell): void {
  const command = shell.program
    .command('ticks')
    .description('poll new ticks once, and publish')
    .addOption(symbolOption());
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((flags: CommonFlags & { symbol: string[] }) =>
    runAndTell(shell, 'ticks', flags, shell.jobs.ticks, () => ({ symbols: flags.symbol })),
  );
}

const notes = `
Without --symbol, polls the symbols of the setting symbols, or the live symbols of the last market lists.`;

const examples = `
  oddslake ticks --output lake
  oddslake ticks --output lake --symbol KXBTC-26DEC0204-T28`;
