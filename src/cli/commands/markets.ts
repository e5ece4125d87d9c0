import { type CommonFlags, withCommonFlags } from '../command-context.ts';
import type { Shell } from '../command-types.ts';
import { withExamples, withNotes } from '../help.ts';
import { runAndTell } from '../run-job.ts';

/** `markets`: one poll of the market lists. */
export function addMarkets(shell: Shell): void {
  const command = shell.program.command('markets').description('one poll of the market lists, published');
  withNotes(command, notes);
  withExamples(command, examples);
  withCommonFlags(command).action((flags: CommonFlags) =>
    runAndTell(shell, 'markets', flags, shell.jobs.markets, () => undefined),
  );
}

const notes = `
The lists say which symbols there are and which of them live: nightly and ticks poll those.`;

const examples = `
  oddslake markets --output lake
  oddslake markets --output lake --set source.views=matched`;
