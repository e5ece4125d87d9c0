import { type Command, Option } from 'commander';
import { UsageError } from '../../base/errors.ts';
import { quoteShellWord } from '../../base/shell-quote.ts';
import { formatIsoUtc } from '../../base/time.ts';
import type { ForgetResult, WatchResult } from '../../collector/steps/selection-step.ts';
import { completeCommands } from '../../context/command-name.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  printResult,
  type SourceFlags,
  withArchive,
  withArchiveAction,
  withCommonFlags,
  withReadableArchive,
} from '../command-context.ts';
import { formatSymbols } from '../format-lists.ts';
import { withExamples, withHelp } from '../help.ts';
import { runJobCommand } from '../run-job.ts';
import { createIntegerParser, createSourceOption } from '../shared-options.ts';
import { escapeControls } from '../terminal-style.ts';

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
  withHelp(retry, retryNotes, retryExamples);
  withCommonFlags(retry).action((symbols: readonly string[], _ownFlags: object, command: Command) => {
    const flags = command.optsWithGlobals<CommonFlags & SourceFlags>();
    const parse = async () => {
      if (symbols.length > 0)
        await withArchive(flags, shell.version, async (archive, context) => {
          const { requireKnownSymbols } = await import('../../collector/steps/selection-step.ts');
          requireKnownSymbols(context, archive, symbols);
        });
      return { symbols, retriesSuspended: true };
    };
    return runJobCommand(shell, 'ticks', flags, shell.jobs.ticks, parse);
  });
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

interface ForgetFlags extends CommonFlags {
  readonly reason?: string;
}

/** `symbols forget` stops collecting symbols. */
function addSymbolsForget(shell: CliContext, symbols: Command): void {
  const forget = symbols
    .command('forget')
    .description('stop collecting symbols: nothing is expected of them any more, and what is published stays')
    .argument('<symbol...>', 'symbols to forget')
    .option('--reason <text>', 'reason, shown by symbols --json');
  withHelp(forget, forgetNotes, forgetExamples);
  withArchiveAction(forget, shell.version, (names: readonly string[], flags: ForgetFlags) => {
    const reason = flags.reason?.trim() ?? null;
    if (reason === '') throw new UsageError('--reason must not be empty: give a reason, or leave the flag out.');
    return async (archive, context) => {
      const { forgetSymbols } = await import('../../collector/steps/selection-step.ts');
      const forgotten = await forgetSymbols(context, archive, names, reason);
      printResult(flags, { forgotten }, () => forgotten.map(formatForgotten).join(''));
    };
  });
}

/** `symbols watch` collects symbols whatever lists and settings say. */
function addSymbolsWatch(shell: CliContext, symbols: Command): void {
  const watch = symbols
    .command('watch')
    .description('collect symbols from now on: forgotten ones again, and those that settings or market lists leave out')
    .argument('<symbol...>', 'symbols to watch');
  withHelp(watch, watchNotes, watchExamples);
  withArchiveAction(
    watch,
    shell.version,
    (names: readonly string[], flags: CommonFlags) => async (archive, context) => {
      const { watchSymbols } = await import('../../collector/steps/selection-step.ts');
      const watched = await watchSymbols(context, archive, names);
      printResult(flags, { watched }, () => watched.map(formatWatched).join(''));
    },
  );
}

function formatForgotten({ symbol, changed, decided_at, expected_to, configured }: ForgetResult): string {
  const name = escapeControls(symbol);
  if (!changed) return `${name}: forgotten since ${formatIsoUtc(decided_at)} already; nothing has changed\n`;
  return joinLines(
    `${name}: forgotten`,
    expected_to === null
      ? 'nothing of it was collected, and nothing is expected'
      : `nothing is expected of it after ${formatIsoUtc(expected_to)}; what is published stays`,
    configured ? 'symbols in the settings names it, without effect from now on' : null,
  );
}

const nextSteps: Readonly<Record<WatchResult['outcome'], string>> = {
  collected: 'it was collected before, and stays so whatever lists and settings say',
  resumed: 'the next run polls it again',
  started: 'the next run polls it, although no market list names it',
  ended: 'the market lists say that it has ended: it is not polled unless it opens again',
};

function formatWatched({ symbol, changed, decided_at, outcome, not_owed }: WatchResult): string {
  const name = escapeControls(symbol);
  if (!changed) return `${name}: watched since ${formatIsoUtc(decided_at)} already; nothing has changed\n`;
  const notOwed = outcome === 'ended' ? null : not_owed;
  return joinLines(
    `${name}: watched`,
    nextSteps[outcome],
    notOwed === null
      ? null
      : `nothing is expected ${notOwed.from === null ? 'before' : `from ${formatIsoUtc(notOwed.from)} to`} ${formatIsoUtc(notOwed.to)}`,
    notOwed === null ? null : formatFetchAdvice(symbol, notOwed),
  );
}

/** What fetches a window that is not owed, with its command if the window has a start. */
const formatFetchAdvice = (symbol: string, { from, to }: NonNullable<WatchResult['not_owed']>): string =>
  from === null
    ? 'to fetch that too, name it in oddslake backfill --symbol'
    : `to fetch that too: ${completeCommands(`oddslake backfill --symbol ${quoteShellWord(escapeControls(symbol))} --from ${formatIsoUtc(from)} --to ${formatIsoUtc(to)}`)}`;

/** One line, and the others indented below it. */
const joinLines = (first: string, ...rest: readonly (string | null)[]): string =>
  [first, ...rest.flatMap((line) => (line === null ? [] : [`  ${line}`]))].map((line) => `${line}\n`).join('');

const forgetNotes = `
The lifetime of the symbol ends where its coverage is proven, so that its last day can be complete. From then on it is
not polled, not owed, and holds back neither watermark nor lag. The decision is published with the archive. --symbol still fetches it.`;

const forgetExamples = `
  oddslake symbols forget KXBTC-26DEC0204-T28 --reason 'too thin to trade'`;

const watchNotes = `
The lifetime of a symbol that was not collected starts now; that of any other goes on. The time in between is not owed. It is
collected until symbols forget. A symbol that the market lists call closed is not polled. One that no list names becomes known
when oddslake ticks --symbol or an import brings ticks of it.`;

const watchExamples = `
  oddslake symbols watch KXBTC-26DEC0204-T28
  oddslake symbols watch KXBTC-26DEC0204-T28 --json | jq .watched`;
