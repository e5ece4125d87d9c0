import { runAndTell } from '../run-job.ts';
import { type CommonFlags, withCommonFlags } from '../session.ts';
import type { Shell } from '../shell.ts';

/** `publish`: what is journaled, into the day partitions. */
export function addPublish(shell: Shell): void {
  const command = shell.program.command('publish').description('merge what is journaled into the day partitions');
  withCommonFlags(command).action((flags: CommonFlags) =>
    runAndTell(shell, 'publish', flags, shell.jobs.publish, () => undefined),
  );
}
