import { type Command, Option } from 'commander';
import { systemClock } from '../../base/system.ts';
import { parseRelativeDay } from '../../base/time.ts';
import type { BackfillFlags } from '../../collector/job.ts';
import type { BackfillPlan } from '../../collector/steps/estimate-step.ts';
import {
  type CliContext,
  type CommonFlags,
  printResult,
  type SourceFlags,
  withArchive,
  withCommonFlags,
} from '../command-context.ts';
import { formatPlan, toPlanJson } from '../format-plan.ts';
import { withExamples, withHelp } from '../help.ts';
import { runJobCommand, withScratchArchive } from '../run-job.ts';
import {
  createFromOption,
  createSinceOption,
  createSourceOption,
  createSymbolOption,
  createToOption,
  parseTimeWindow,
  readSymbolsFile,
  type TimeRangeFlags,
} from '../shared-options.ts';

/** `nightly`: the main job. */
export function addNightly(command: Command, shell: CliContext): void {
  command
    .option(
      '--date <day>',
      'poll up to the end of this UTC day, YYYY-MM-DD or yesterday; a repeated run changes nothing (default: up to now)',
    )
    .option('--dry-run', 'print what the job would request, and how long that takes; sends no request, writes nothing')
    .addOption(createSourceOption());
  withHelp(command, nightlyNotes, nightlyExamples);
  withCommonFlags(command).action((flags: NightlyOptions) => {
    const parse = () => (flags.date === undefined ? null : parseRelativeDay(flags.date, '--date', systemClock.nowMs()));
    return flags.dryRun === true
      ? printNightlyPlan(shell, flags, parse())
      : runJobCommand(shell, 'nightly', flags, shell.jobs.nightly, () => ({ day: parse() }));
  });
}

interface NightlyOptions extends CommonFlags, SourceFlags {
  readonly date?: string;
  readonly dryRun?: boolean;
}

/** Prints the plans of a night: as text, or as one JSON line. */
const printNightlyPlan = (shell: CliContext, flags: NightlyOptions, day: number | null): Promise<void> =>
  withArchive(flags, shell.version, async (archive, context) => {
    const { planNightly } = await import('../../collector/steps/nightly-plan-step.ts');
    const shown = (await planNightly(context, archive, day)).map(
      ({ source, ticks, rate, isFirst, unmatchedSelectors, ...counts }) => ({
        source,
        ticks,
        rate,
        isFirst,
        warnings: unmatchedSelectors,
        others: [
          { name: 'market lists', requests: counts.marketLists },
          { name: 'order books', requests: counts.orderBooks },
          { name: 'rechecks', requests: counts.rechecks },
        ],
      }),
    );
    const [first] = shown;
    const result = first?.source === null ? { plan: toPlanJson(first) } : { plans: shown.map(toPlanJson) };
    printResult(flags, result, (style) => shown.map((plan) => formatPlan(plan, style)).join('\n'));
  });

const nightlyNotes = `
Run it from a scheduler. It fetches only what is missing, so an interrupted run can be repeated, and two concurrent runs
are safe. The first poll of a symbol starts at its opening or, if that is unknown, source.first_lookback_days before the symbol
was first seen. Exit code 4 means that some windows are missing; the next run requests them again. An archive of several sources
is collected source by source; one that fails does not keep the others from being collected.
--dry-run estimates from the ticks per hour that each symbol had and the pages that the service has sent so far. It does not
know symbols that the market lists will name for the first time.`;

const nightlyExamples = `
  oddslake nightly --output lake
  oddslake nightly --config oddslake.yaml --json
  oddslake nightly --output lake --dry-run
  oddslake nightly --output lake --date 2026-11-19
  oddslake nightly --config sources.yaml --source alpha`;

/** `markets`: one poll of the market lists. */
export function addMarkets(command: Command, shell: CliContext): void {
  command.addOption(createSourceOption());
  withHelp(command, marketsNotes, marketsExamples);
  withCommonFlags(command).action((flags: CommonFlags) =>
    runJobCommand(shell, 'markets', flags, shell.jobs.markets, () => undefined),
  );
}

const marketsNotes = `
The lists name the symbols and say which of them are live. nightly and ticks poll the live ones.`;

const marketsExamples = `
  oddslake markets --output lake
  oddslake markets --output lake --set source.views=matched`;

/** `ticks`: one poll of ticks. */
export const addTicks = (command: Command, shell: CliContext): void =>
  addPoll('ticks', command, shell, ticksNotes, ticksExamples);

function addPoll(
  name: 'ticks' | 'orderbook',
  command: Command,
  shell: CliContext,
  notes: string,
  examples: string,
): void {
  command.addOption(createSymbolOption()).addOption(createSourceOption());
  withHelp(command, notes, examples);
  withCommonFlags(command).action((flags: CommonFlags & { symbol: string[] }) =>
    runJobCommand(shell, name, flags, shell.jobs[name], () => ({ symbols: flags.symbol })),
  );
}

const ticksNotes = `
Without --symbol, polls the symbols of the setting symbols or, if it is empty, the live symbols of the last market lists.`;

const ticksExamples = `
  oddslake ticks --output lake
  oddslake ticks --output lake --symbol KXBTC-26DEC0204-T28`;

/** `orderbook`: one poll of order books. */
export const addOrderbook = (command: Command, shell: CliContext): void =>
  addPoll('orderbook', command, shell, orderbookNotes, orderbookExamples);

const orderbookNotes = `
The service returns only the current order book, so past order books cannot be fetched later.`;

const orderbookExamples = `
  oddslake orderbook --output lake
  oddslake orderbook --output lake --symbol KXBTC-26DEC0204-T28 --symbol KXBTC-26NOV2305-T25.5`;

/** `publish`: merges the journal into the day partitions. */
export function addPublish(command: Command, shell: CliContext): void {
  withHelp(command, publishNotes, publishExamples);
  withCommonFlags(command).action((flags: CommonFlags) =>
    runJobCommand(shell, 'publish', flags, shell.jobs.publish, () => undefined),
  );
}

const publishNotes = `
Every job publishes before it ends. Use this after a run that was interrupted or did not get the write lock within --wait.`;

const publishExamples = `
  oddslake publish --output lake`;

interface BackfillOptions extends CommonFlags, TimeRangeFlags {
  readonly symbol: string[];
  readonly symbolsFile?: string;
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly allKnown?: boolean;
  readonly recheck?: 'inferred';
}

/** `backfill`: fetches past windows that are not covered. */
export function addBackfill(command: Command, shell: CliContext): void {
  command
    .addOption(createFromOption(' (required, unless --since is given)'))
    .addOption(createToOption(' (required with --from)'))
    .addOption(createSinceOption())
    .addOption(createSymbolOption())
    .addOption(createSourceOption())
    .option('--symbols-file <file>', 'file with one symbol per line')
    .option('--dry-run', 'print the plan: symbols, windows, expected requests and time; creates nothing')
    .option('--force', 'also fetch windows that are already covered')
    .option('--all-known', "also fetch windows outside a symbol's lifetime")
    .addOption(
      new Option(
        '--recheck <evidence>',
        'refetch windows whose coverage has only this evidence, or whose proof came too soon after them to be final',
      ).choices(['inferred']),
    );
  withExamples(command, backfillExamples);
  withCommonFlags(command).action((flags: BackfillOptions) => {
    const parse = async (): Promise<BackfillFlags> => {
      const window = parseTimeWindow(flags, systemClock.nowMs(), 'backfill');
      const fileSymbols = flags.symbolsFile === undefined ? [] : readSymbolsFile(flags.symbolsFile);
      const showPlan = flags.dryRun === true ? createPlanPrinter(flags) : null;
      const options = { force: flags.force === true, allKnown: flags.allKnown === true, showPlan };
      const recheckInferred = flags.recheck === 'inferred';
      return { window, symbols: [...flags.symbol, ...fileSymbols], ...options, recheckInferred };
    };
    const { backfill } = shell.jobs;
    const load = flags.dryRun === true ? async () => withScratchArchive(await backfill(), true) : backfill;
    return runJobCommand(shell, 'backfill', flags, load, parse, flags.dryRun);
  });
}

const createPlanPrinter =
  (flags: BackfillOptions) =>
  ({ source, rate, isFirst, plans: _, ...ticks }: BackfillPlan): void => {
    const plan = { source, rate, ticks, isFirst, others: [] };
    printResult(flags, { plan: toPlanJson(plan) }, (style) => formatPlan(plan, style));
  };

const backfillExamples = `
  oddslake backfill --output lake --from 2026-11-01 --to 2026-11-08 --dry-run
  oddslake backfill --output lake --from 2026-11-01 --to 2026-11-08
  oddslake backfill --output lake --from 2026-11-05T12:00:00Z --to 2026-11-05T18:00:00Z --symbol KXBTC-26DEC0204-T28 --force
  oddslake backfill --output lake --from 2026-10-01 --to 2026-11-01 --recheck inferred`;
