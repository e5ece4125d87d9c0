import { type CliContext, type CommonFlags, withCommonFlags } from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';
import { createSymbolOption } from '../options.ts';
import { runJobCommand } from '../run-job.ts';

/** `orderbook`: one poll of order books. */
export function addOrderbook(shell: CliContext): void {
  const command = shell.program
    .command('orderbook')
    .description('poll order books once, and publish: the symbols of orderbooks.symbols, or every live symbol')
    .addOption(createSymbolOption());
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((flags: CommonFlags & { symbol: string[] }) =>
    runJobCommand(shell, 'orderbook', flags, shell.jobs.orderbook, () => ({ symbols: flags.symbol })),
  );
}

const notes = `
The service returns only current order books: a snapshot that is not polled is lost.`;

const examples = `
  oddslake orderbook --output lake
  oddslake orderbook --output lake --symbol KXBTC-26DEC0204-T28 --symbol KXBTC-26NOV2305-T25.5`;
