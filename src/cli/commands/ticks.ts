import { type CliContext, type CommonFlags, withCommonFlags } from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';
import { createSymbolOption } from '../options.ts';
import { runJobCommand } from '../run-job.ts';

/** `ticks`: one poll of ticks. */
export function addTicks(shell: CliContext): void {
  const command = shell.program
    .command('ticks')
    .description('poll new ticks once, and publish')
    .addOption(createSymbolOption());
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((flags: CommonFlags & { symbol: string[] }) =>
    runJobCommand(shell, 'ticks', flags, shell.jobs.ticks, () => ({ symbols: flags.symbol })),
  );
}

const notes = `
Without --symbol, polls the symbols of the setting symbols, or the live symbols of the last market lists.`;

const examples = `
  oddslake ticks --output lake
  oddslake ticks --output lake --symbol KXBTC-26DEC0204-T28`;
