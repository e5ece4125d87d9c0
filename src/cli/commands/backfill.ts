import { Option } from 'commander';
import type { BackfillFlags, BackfillPlan } from '../../app/job.ts';
import { duration, many } from '../../core/format-quantity.ts';
import { isoUtc } from '../../core/time.ts';
import { type CommonFlags, withCommonFlags } from '../command-context.ts';
import type { Shell } from '../command-types.ts';
import { visible } from '../escape-control.ts';
import { withExamples } from '../help.ts';
import { askedWindow, fromOption, readSymbols, symbolOption, toOption } from '../options.ts';
import { runAndTell } from '../run-job.ts';

interface BackfillOptions extends CommonFlags {
  readonly from: string;
  readonly to: string;
  readonly symbol: string[];
  readonly symbolsFile?: string;
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly allKnown?: boolean;
  readonly recheck?: 'inferred';
}

/** `backfill`: the windows of the past that coverage lacks. */
export function addBackfill(shell: Shell): void {
  const command = shell.program
    .command('backfill')
    .description('fetch past windows that are not covered; resumes after an interruption')
    .addOption(fromOption(' (required)').makeOptionMandatory())
    .addOption(toOption(' (required)').makeOptionMandatory())
    .addOption(symbolOption())
    .option('--symbols-file <file>', 'symbols, one a line')
    .option('--dry-run', 'print the plan: symbols, windows, expected requests and time')
    .option('--force', 'fetch covered windows too')
    .option('--all-known', 'fetch symbols outside of their lifetime too')
    .addOption(
      new Option('--recheck <evidence>', 'fetch windows again that count as covered by this evidence alone').choices([
        'inferred',
      ]),
    );
  withExamples(command, examples);
  withCommonFlags(command).action((flags: BackfillOptions) => {
    const parse = async (): Promise<BackfillFlags> => {
      const window = askedWindow(flags);
      const listed = flags.symbolsFile === undefined ? [] : await readSymbols(flags.symbolsFile);
      const showPlan =
        flags.dryRun === true ? (plan: BackfillPlan) => process.stdout.write(planText(plan, flags)) : null;
      const how = { force: flags.force === true, allKnown: flags.allKnown === true, showPlan };
      const recheckInferred = flags.recheck === 'inferred';
      return { window, symbols: [...flags.symbol, ...listed], ...how, recheckInferred };
    };
    return runAndTell(shell, 'backfill', flags, shell.jobs.backfill, parse, flags.dryRun);
  });
}

const linesMax = 20;

function planText({ plans, windows, expectedRequests, expectedSeconds }: BackfillPlan, flags: BackfillOptions): string {
  const shown = plans.slice(0, linesMax);
  const width = Math.max(0, ...shown.map(({ symbol }) => visible(symbol).length));
  const lines = shown.map(
    (plan) =>
      `  ${visible(plan.symbol).padEnd(width)}  ${plan.windows.map((w) => `${isoUtc(w.from)} … ${isoUtc(w.to)}`).join(', ')}\n`,
  );
  const more = plans.length > linesMax ? `  … and ${plans.length - linesMax} symbols more\n` : '';
  const head = `${many(plans.length, 'symbol')}, ${many(windows, 'window')}, at least ${many(expectedRequests, 'request')}, about ${duration(expectedSeconds * 1000)} at the configured rate\n`;
  const plan = {
    symbols: plans.length,
    windows,
    expected_requests: expectedRequests,
    expected_seconds: expectedSeconds,
  };
  return flags.json === true ? `${JSON.stringify({ plan })}\n` : head + lines.join('') + more;
}

const examples = `
  oddslake backfill --output lake --from 2026-11-01 --to 2026-11-08 --dry-run
  oddslake backfill --output lake --from 2026-11-01 --to 2026-11-08
  oddslake backfill --output lake --from 2026-11-05T12:00:00Z --to 2026-11-05T18:00:00Z --symbol KXBTC-26DEC0204-T28 --force
  oddslake backfill --output lake --from 2026-10-01 --to 2026-11-01 --recheck inferred`;
