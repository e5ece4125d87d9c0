import { type Command, Option } from 'commander';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  printResult,
  type SourceFlags,
  withCommonFlags,
  withReadableArchive,
} from '../command-context.ts';
import { formatSymbols } from '../format-lists.ts';
import { withExamples, withNotes } from '../help.ts';
import { runJobCommand } from '../run-job.ts';
import { createIntegerParser, createSourceOption } from '../shared-options.ts';
import { addSymbolsForget, addSymbolsWatch } from './symbol-subcommands.ts';

interface SymbolsFlags extends CommonFlags, SourceFlags {
  readonly rows: number;
}

/**
 * `symbols` lists and searches symbols; `symbols retry` polls suspended ones now; `symbols forget` and `symbols watch` choose
 * which are collected.
 */
export function addSymbols(command: Command, shell: CliContext): void {
  command
    .argument('[text...]', 'words that must all match, case-insensitive (default: every symbol)')
    .addOption(
      new Option('--rows <n>', 'maximum number of rows of the table; --json prints all')
        .argParser(createIntegerParser(1))
        .default(50),
    )
    .addOption(createSourceOption());
  withExamples(command, examples);
  withCommonFlags(command, flagsUnusedByReaders, true).action((text: readonly string[], flags: SymbolsFlags) =>
    withReadableArchive(flags, shell.version, async (archive, context) => {
      const { listSymbols } = await import('../../archive/read/list-symbols.ts');
      const list = listSymbols(archive, text.join(' '), context.clock.nowMs(), flags.source);
      printResult(flags, list, (style) => formatSymbols(list, flags.rows, style));
    }),
  );
  addSymbolsRetry(shell, command);
  addSymbolsForget(shell, command);
  addSymbolsWatch(shell, command);
}

function addSymbolsRetry(shell: CliContext, symbols: Command): void {
  const retry = symbols
    .command('retry')
    .description('poll suspended symbols now; a response with data ends the suspension')
    .argument('[symbol...]', 'symbols to retry (default: all suspended symbols)')
    .addOption(createSourceOption());
  withNotes(retry, retryNotes);
  withExamples(retry, retryExamples);
  withCommonFlags(retry).action((given: readonly string[], _ownFlags: object, command: Command) =>
    // Commander assigns a flag to the parent command if both commands have it: optsWithGlobals reads both.
    runJobCommand(shell, 'ticks', command.optsWithGlobals<CommonFlags>(), shell.jobs.ticks, () => ({
      symbols: given,
      retriesSuspended: true,
    })),
  );
}

const retryNotes = `
A symbol is suspended after the service has reported it as unknown on source.suspend_after_days days while serving others. From
then on it is polled once a day. Exit code 4 if the service still does not know one of the symbols.`;

const retryExamples = `
  oddslake symbols retry --output lake
  oddslake symbols retry --output lake KXBTC-26DEC0204-T28`;

const examples = `
  oddslake symbols                     all known symbols
  oddslake symbols rain sydney         symbols with both words in ticker, question, category, market ID or venue
  oddslake symbols --json kxbtc | jq -r '.symbols[] | select(.state == "active") | .symbol'`;
