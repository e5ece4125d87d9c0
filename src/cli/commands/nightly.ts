import { dayStart, parseDay } from '../../core/time.ts';
import { type CommonFlags, withCommonFlags } from '../command-context.ts';
import type { Shell } from '../command-types.ts';
import { withExamples, withNotes } from '../help.ts';
import { runAndTell } from '../run-job.ts';

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
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((flags: CommonFlags & { date?: string }) =>
    runAndTell(shell, 'nightly', flags, shell.jobs.nightly, () => ({
      day: flags.date === undefined ? null : dayStart(parseDay(flags.date, '--date')),
    })),
  );
}

const notes = `
It is made for a scheduler: it asks for what is not there yet, so that a run that was broken off is simply run again, and
two at a time do no harm. The first poll of a symbol begins with its opening, or,
where that is not known, source.first_lookback_days before it was first seen. Exit code 4 says that something
is missing; the next run asks for it again.`;

const examples = `
  oddslake nightly --output lake
  oddslake nightly --config oddslake.yaml --json
  oddslake nightly --output lake --date 2026-11-19`;
