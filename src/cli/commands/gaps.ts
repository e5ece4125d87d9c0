import { type Command, Option } from 'commander';
import type { AcceptedWindow } from '../../archive/format/coverage.ts';
import { UsageError } from '../../base/errors.ts';
import {
  type CliContext,
  type CommonFlags,
  flagsUnusedByReaders,
  printResult,
  type SourceFlags,
  withArchiveAction,
  withCommonFlags,
  withReadableArchive,
} from '../command-context.ts';
import { formatExplanation, formatGaps } from '../format-archive.ts';
import { formatDecided, toDecidedJson } from '../format-lists.ts';
import { withExamples, withHelp } from '../help.ts';
import {
  createFromOption,
  createSinceOption,
  createSourceOption,
  createSymbolOption,
  createToOption,
  findKnownSymbols,
  parseTimeRange,
  parseTimeWindow,
  type TimeRangeFlags,
} from '../shared-options.ts';

interface AcceptFlags extends CommonFlags, TimeRangeFlags {
  readonly reason: string;
}

interface GapsFlags extends CommonFlags, SourceFlags, TimeRangeFlags {
  readonly symbol: readonly string[];
  readonly dataset: (typeof gapDatasets)[number];
  readonly explain?: string;
  readonly at?: string;
}

const gapDatasets = ['ticks', 'quotes', 'trades'] as const;

/** `gaps` lists windows without coverage and their reasons; `gaps accept` accepts gaps, `gaps revoke` revokes that. */
export function addGaps(command: Command, shell: CliContext): void {
  command
    .addOption(createFromOption(' (default: the first covered time or tick)'))
    .addOption(createToOption(' (default: the last covered time or tick)'))
    .addOption(createSinceOption())
    .addOption(createSymbolOption())
    .addOption(createSourceOption())
    .addOption(
      new Option('--dataset <name>', 'dataset whose coverage is compared').choices(gapDatasets).default('ticks'),
    );
  command
    .option(
      '--explain <symbol>',
      'say which responses prove, or do not prove, what is claimed of this symbol --at a time',
    )
    .option('--at <time>', 'the time to explain, as for --from');
  withHelp(command, notes, examples);
  withCommonFlags(command, flagsUnusedByReaders, true).action((flags: GapsFlags) =>
    withReadableArchive(flags, shell.version, async (archive, context) => {
      const [{ listDatasetGaps, listGaps }, { explainClaim }, { toCompletenessRules }] = await Promise.all([
        import('../../archive/read/gaps.ts'),
        import('../../archive/read/explain-claim.ts'),
        import('../../context/open-configured.ts'),
      ]);
      const { source: sources, explain, at } = flags;
      const [rules, nowMs] = [toCompletenessRules(context.settings), context.clock.nowMs()];
      if ((explain === undefined) !== (at === undefined))
        throw new UsageError('--explain SYMBOL and --at TIME go together.');
      if (explain !== undefined && at !== undefined) {
        const [facts] = findKnownSymbols(archive, [explain]);
        const { from: moment } = parseTimeRange({ from: at }, nowMs);
        if (moment! >= nowMs) throw new UsageError('--at must be in the past.');
        const explanation = explainClaim(archive, facts!, moment!, rules, nowMs);
        printResult(flags, explanation, (style) => formatExplanation(explanation, style));
        return;
      }
      const range = parseTimeRange(flags, nowMs);
      const selection = { ...range, sources, symbols: findKnownSymbols(archive, flags.symbol), explainsDays: true };
      const gaps =
        flags.dataset === 'ticks'
          ? listGaps(archive, selection, rules, nowMs)
          : listDatasetGaps(archive, flags.dataset, selection, rules, nowMs);
      printResult(flags, gaps, (style) => formatGaps(gaps, style));
    }),
  );
  addGapsAccept(shell, command);
  addGapsRevoke(shell, command);
}

function addGapsAccept(shell: CliContext, gaps: Command): void {
  const accept = gaps
    .command('accept')
    .description(
      'accept the gaps of a symbol in a window: they are still listed, but runs no longer fail because of them',
    )
    .argument('<symbol>', 'symbol of the gaps')
    .addOption(createFromOption(' (required)'))
    .addOption(createToOption(' (required)'))
    .requiredOption('--reason <text>', 'reason, shown with the gap (required)');
  withHelp(accept, acceptNotes, acceptExamples);
  withArchiveAction(accept, shell.version, (symbol: string, flags: AcceptFlags) => {
    const { reason } = flags;
    if (reason.trim() === '')
      throw new UsageError('--reason must not be empty: give the reason for accepting the gap.');
    return async (archive, context) => {
      const { acceptGaps } = await import('../../collector/steps/gaps-step.ts');
      const window = parseTimeWindow(flags, context.clock.nowMs(), 'gaps accept');
      printDecided(flags, 'accepted', await acceptGaps(context, archive, { symbol, ...window, reason }));
    };
  });
}

function addGapsRevoke(shell: CliContext, gaps: Command): void {
  const revoke = gaps
    .command('revoke')
    .description('revoke an acceptance: runs fail again until the gaps are covered')
    .argument('<symbol>', 'symbol of the gaps')
    .addOption(createFromOption(' (default: unlimited)'))
    .addOption(createToOption(' (default: unlimited)'));
  withExamples(revoke, revokeExamples);
  withArchiveAction(
    revoke,
    shell.version,
    (symbol: string, flags: CommonFlags & TimeRangeFlags) => async (archive, context) => {
      const { revokeAcceptedGaps } = await import('../../collector/steps/gaps-step.ts');
      const { from, to } = parseTimeRange(flags, context.clock.nowMs());
      const window = { from: from ?? Number.MIN_SAFE_INTEGER, to: to ?? Number.MAX_SAFE_INTEGER };
      printDecided(flags, 'revoked', await revokeAcceptedGaps(context, archive, { symbol, ...window }));
    },
  );
}

const printDecided = (flags: CommonFlags, verb: 'accepted' | 'revoked', windows: readonly AcceptedWindow[]): void =>
  printResult(flags, toDecidedJson(windows, verb), () => formatDecided(windows, verb));

const acceptNotes = `
The gaps that the window has now are accepted, and no later one: it must not reach into the future. An accepted gap does not affect the watermark or the lag. If no run has failed because of it yet, the next run fails once; later
runs report a warning. Only a backfill requests the window again. If it covers the window, the gap is closed.`;

const acceptExamples = `
  oddslake gaps accept KXBTC-26DEC0204-T28 --from 2026-11-19T03:00:00Z --to 2026-11-19T05:00:00Z --reason 'venue was down'`;

const revokeExamples = `
  oddslake gaps revoke KXBTC-26DEC0204-T28
  oddslake gaps revoke KXBTC-26DEC0204-T28 --from 2026-11-19 --to 2026-11-20`;

const notes = `
A covered window without ticks is not a gap. Reasons: never asked (not requested yet); failed (with the result of the
last request); suspended (the service does not know the symbol); lost (the ticks were published but no longer exist);
expired (older than the service's retention period); accepted. Quotes and trades are imported: of --dataset quotes and trades,
a gap is a window that no --covers has declared, published so far. Other commands know the gaps of ticks only.`;

const examples = `
  oddslake gaps --output lake
  oddslake gaps --output lake --from 2026-11-01 --to 2026-11-08 --json | jq .gaps
  oddslake gaps --output lake --dataset trades --symbol KXBTC-26DEC0204-T28
  oddslake gaps --output lake --explain KXBTC-26DEC0204-T28 --at 2026-11-19T04:00:00Z`;
