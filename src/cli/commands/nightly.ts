import { parseDay, parseDayStart } from '../../base/time.ts';
import { type CliContext, type CommonFlags, withCommonFlags } from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';
import { runJobCommand } from '../run-job.ts';

/** `nightly`: the main job. */
export function addNightly(shell: CliContext): void {
  const command = shell.program
    .command('nightly')
    .description(
      'the main job: poll market lists, new ticks of every live symbol and (if configured) order books, publish, and verify',
    )
    .option(
      '--date <day>',
      'end of the poll: the end of that UTC day, YYYY-MM-DD; a repeated run changes nothing (default: now)',
    );
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((flags: CommonFlags & { date?: string }) =>
    runJobCommand(shell, 'nightly', flags, shell.jobs.nightly, () => ({
      day: flags.date === undefined ? null : parseDayStart(parseDay(flags.date, '--date')),
    })),
  );
}

const notes = `
Run it from a scheduler. It fetches only what is missing, so an interrupted run can be repeated, and two concurrent runs
are safe. The first poll of a symbol starts at its opening or, if that is unknown, source.first_lookback_days before the symbol
was first seen. Exit code 4 means that some windows are missing; the next run requests them again.`;

const examples = `
  oddslake nightly --output lake
  oddslake nightly --config oddslake.yaml --json
  oddslake nightly --output lake --date 2026-11-19`;
