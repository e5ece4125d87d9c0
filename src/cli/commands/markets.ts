import { type CliContext, type CommonFlags, withCommonFlags } from '../command-context.ts';
import { withExamples, withNotes } from '../help.ts';
import { runJobCommand } from '../run-job.ts';

/** `markets`: one poll of the market lists. */
export function addMarkets(shell: CliContext): void {
  const command = shell.program.command('markets').description('poll the market lists once, and publish');
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((flags: CommonFlags) =>
    runJobCommand(shell, 'markets', flags, shell.jobs.markets, () => undefined),
  );
}

const notes = `
The lists name the symbols and say which are live; nightly and ticks poll the live ones.`;

const examples = `
  oddslake markets --output lake
  oddslake markets --output lake --set source.views=matched`;
