import { symbolOption } from '../asked.ts';
import { runAndTell } from '../run-job.ts';
import { type CommonFlags, withCommonFlags } from '../session.ts';
import type { Shell } from '../shell.ts';

/** `ticks`: one poll of ticks. */
export function addTicks(shell: Shell): void {
  const command = shell.program
    .command('ticks')
    .description('one poll of ticks up to now, published')
    .addOption(symbolOption());
  withCommonFlags(command).action((flags: CommonFlags & { symbol: string[] }) =>
    runAndTell(shell, 'ticks', flags, shell.jobs.ticks, () => ({ symbols: flags.symbol })),
  );
}
