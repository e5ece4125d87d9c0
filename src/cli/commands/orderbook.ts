import { type CommonFlags, withCommonFlags } from '../command-context.ts';
import type { Shell } from '../command-types.ts';
import { withExamples, withNotes } from '../help.ts';
import { symbolOption } from '../options.ts';
import { runAndTell } from '../run-job.ts';

/** `orderbook`: one poll of order books. */
export function addOrderbook(shell: Shell): void {
  const command = shell.program
    .command('orderbook')
    .description('one poll of order books, published: of orderbooks.symbols in the config, else of every live symbol')
    .addOption(symbolOption());
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((flags: CommonFlags & { symbol: string[] }) =>
    runAndTell(shell, 'orderbook', flags, shell.jobs.orderbook, () => ({ symbols: flags.symbol })),
  );
}

const notes = `
The service has only the present ones: what is not polled is never to be had again.`;

const examples = `
  oddslake orderbook --output lake
  oddslake orderbook --output lake --symbol KXBTC-26DEC0204-T28 --symbol KXBTC-26NOV2305-T25.5`;
