import { dayStart, parseDay } from '../../core/time.ts';
import { runAndTell } from '../run-job.ts';
import { type CommonFlags, withCommonFlags } from '../session.ts';
import type { Shell } from '../shell.ts';

/** `nightly`: the main job. */
export function addNightly(shell: Shell): void {
  const command = shell.program
    .command('nightly')
    .description(
      'the main job: market lists, ticks of every live symbol from its cursor on, order books where the config asks for them, publish, verify',
    )
    .option(
      '--date <day>',
      'up to the end of that UTC day, YYYY-MM-DD; may be repeated without changing a byte (default: up to now)',
    );
  withCommonFlags(command).action((flags: CommonFlags & { date?: string }) =>
    runAndTell(shell, 'nightly', flags, shell.jobs.nightly, () => ({
      day: flags.date === undefined ? null : dayStart(parseDay(flags.date, '--date')),
    })),
  );
}
