import { symbolOption } from '../asked.ts';
import { runAndTell } from '../run-job.ts';
import { type CommonFlags, withCommonFlags } from '../session.ts';
import type { Shell } from '../shell.ts';

/** `orderbook`: one poll of order books. */
export function addOrderbook(shell: Shell): void {
  const command = shell.program
    .command('orderbook')
    .description('one poll of order books, published: of orderbooks.symbols in the config, else of every live symbol')
    .addOption(symbolOption());
  withCommonFlags(command).action((flags: CommonFlags & { symbol: string[] }) =>
    runAndTell(shell, 'orderbook', flags, shell.jobs.orderbook, () => ({ symbols: flags.symbol })),
  );
}
