import { runAndTell } from '../run-job.ts';
import { type CommonFlags, withCommonFlags } from '../session.ts';
import type { Shell } from '../shell.ts';

/** `markets`: one poll of the market lists. */
export function addMarkets(shell: Shell): void {
  const command = shell.program.command('markets').description('one poll of the market lists, published');
  withCommonFlags(command).action((flags: CommonFlags) =>
    runAndTell(shell, 'markets', flags, shell.jobs.markets, () => undefined),
  );
}
