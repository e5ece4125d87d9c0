import { type Command, Option } from 'commander';
import { systemClock } from '../../base/system.ts';
import type { BackfillFlags } from '../../collector/job.ts';
import type { BackfillPlan } from '../../collector/steps/estimate-step.ts';
import { type CliContext, type CommonFlags, printResult, withCommonFlags } from '../command-context.ts';
import { formatPlan, toPlanJson } from '../format-plan.ts';
import { withExamples } from '../help.ts';
import { runJobCommand } from '../run-job.ts';
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
    .option('--dry-run', 'print the plan: symbols, windows, expected requests and time')
    .option('--force', 'also fetch windows that are already covered')
    .option('--all-known', "also fetch windows outside a symbol's lifetime")
    .addOption(
      new Option(
        '--recheck <evidence>',
        'refetch windows whose coverage has only this evidence, or whose proof came too soon after them to be final',
      ).choices(['inferred']),
    );
  withExamples(command, examples);
  withCommonFlags(command).action((flags: BackfillOptions) => {
    const parse = async (): Promise<BackfillFlags> => {
      const window = parseTimeWindow(flags, systemClock.nowMs(), 'backfill');
      const fileSymbols = flags.symbolsFile === undefined ? [] : await readSymbolsFile(flags.symbolsFile);
      const showPlan = flags.dryRun === true ? createPlanPrinter(flags) : null;
      const options = { force: flags.force === true, allKnown: flags.allKnown === true, showPlan };
      const recheckInferred = flags.recheck === 'inferred';
      return { window, symbols: [...flags.symbol, ...fileSymbols], ...options, recheckInferred };
    };
    return runJobCommand(shell, 'backfill', flags, shell.jobs.backfill, parse, flags.dryRun);
  });
}

const createPlanPrinter =
  (flags: BackfillOptions) =>
  ({ source, rate, plans: _, ...ticks }: BackfillPlan): void => {
    const plan = { source, rate, ticks, others: [] };
    printResult(flags, { plan: toPlanJson(plan) }, (style) => formatPlan(plan, style));
  };

const examples = `
  oddslake backfill --output lake --from 2026-11-01 --to 2026-11-08 --dry-run
  oddslake backfill --output lake --from 2026-11-01 --to 2026-11-08
  oddslake backfill --output lake --from 2026-11-05T12:00:00Z --to 2026-11-05T18:00:00Z --symbol KXBTC-26DEC0204-T28 --force
  oddslake backfill --output lake --from 2026-10-01 --to 2026-11-01 --recheck inferred`;
