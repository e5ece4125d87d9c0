import { type Command, Option } from 'commander';
import { type CommonFlags, idleWhereRead, withArchive, withCommonFlags } from '../command-context.ts';
import type { Shell } from '../command-types.ts';
import { withExamples, withNotes } from '../help.ts';
import { wholeNumber } from '../options.ts';
import { runAndTell } from '../run-job.ts';
import { styleOf } from '../terminal-style.ts';

interface SymbolsFlags extends CommonFlags {
  readonly rows: number;
}

/** `symbols`: what is known of each, found by words; `symbols retry`: suspended ones at once. */
export function addSymbols(shell: Shell): void {
  const command = shell.program
    .command('symbols')
    .description('the known symbols, live ones first, found by ticker, question, category, market id or venue')
    .argument('[text...]', 'words that must all stand somewhere, in whatever case (default: every symbol)')
    .addOption(
      new Option('--rows <n>', 'most rows of the table; --json has all').argParser(wholeNumber(1)).default(50),
    );
  withExamples(command, examples);
  withCommonFlags(command, idleWhereRead).action((text: readonly string[], flags: SymbolsFlags) =>
    withArchive(flags, shell.version, async (archive, context) => {
      const [{ listSymbols }, { symbolsText }] = await Promise.all([
        import('../../reading/symbols.ts'),
        import('../format-symbols.ts'),
      ]);
      const list = listSymbols(archive, text.join(' '), context.clock.nowMs());
      process.stdout.write(
        flags.json === true ? `${JSON.stringify(list)}\n` : symbolsText(list, flags.rows, styleOf(process.stdout)),
      );
    }),
  );
  addRetry(shell, command);
}

function addRetry(shell: Shell, symbols: Command): void {
  const retry = symbols
    .command('retry')
    .description('poll suspended symbols at once; an answer ends the suspension')
    .argument('[symbol...]', 'which ones (default: all that are suspended)');
  withNotes(retry, retryNotes);
  withExamples(retry, retryExamples);
  withCommonFlags(retry).action((given: readonly string[], _own: object, command: Command) =>
    // Flags that its parent has too are the parent's to Commander.
    runAndTell(shell, 'ticks', command.optsWithGlobals<CommonFlags>(), shell.jobs.ticks, () => ({
      symbols: given,
      retriesSuspended: true,
    })),
  );
}

const retryNotes = `
A symbol is suspended once the service has said on source.suspend_after_days days that it does not know it, while it answered
for others. It is asked for once a day from then on. Exit code 4 where it still does not know one.`;

const retryExamples = `
  oddslake symbols retry --output lake
  oddslake symbols retry --output lake KXBTC-26DEC0204-T28`;

const examples = `
  oddslake symbols                     every symbol known
  oddslake symbols rain sydney         those with both words in ticker, question, category, market id or venue
  oddslake symbols --json kxbtc | jq -r '.symbols[] | select(.state == "active") | .symbol'`;
