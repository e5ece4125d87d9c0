import type { Command } from 'commander';
import type { Context } from '../../app/context.ts';
import type { BackfillPlan, Job } from '../../app/job.ts';
import { noBooks, type Summary, summarize } from '../../app/summary.ts';
import { UsageError } from '../../core/errors.ts';
import { dayStart, isoUtc, parseDay } from '../../core/time.ts';
import { askedWindow, symbolOption } from '../asked.ts';
import { duration } from '../print-summary.ts';
import { type CommonFlags, withCommonFlags, withContext } from '../session.ts';
import type { Shell } from '../shell.ts';
import { tell } from '../tell.ts';

/** The commands that collect or publish. */
export function addJobs(shell: Shell): void {
  const { program, jobs } = shell;
  const nightly = program
    .command('nightly')
    .description(
      'the main job: market lists, ticks of every live symbol from its cursor on, order books where the config asks for them, publish, verify',
    )
    .option(
      '--date <day>',
      'up to the end of that UTC day, YYYY-MM-DD; may be repeated without changing a byte (default: up to now)',
    );
  withCommonFlags(nightly).action(async (flags: CommonFlags & { date?: string }) =>
    runAndTell(shell, 'nightly', flags, jobs.nightly, () => ({
      day: flags.date === undefined ? null : dayStart(parseDay(flags.date, '--date')),
    })),
  );
  const markets = program.command('markets').description('one poll of the market lists, published');
  withCommonFlags(markets).action((flags: CommonFlags) =>
    runAndTell(shell, 'markets', flags, jobs.markets, () => undefined),
  );
  const ticks = program
    .command('ticks')
    .description('one poll of ticks up to now, published')
    .addOption(symbolOption());
  withCommonFlags(ticks).action((flags: CommonFlags & { symbol: string[] }) =>
    runAndTell(shell, 'ticks', flags, jobs.ticks, () => ({ symbols: flags.symbol })),
  );
  addBackfill(shell);
  const publish = program.command('publish').description('merge what is journaled into the day partitions');
  withCommonFlags(publish).action((flags: CommonFlags) =>
    runAndTell(shell, 'publish', flags, jobs.publish, () => undefined),
  );
}

interface BackfillOptions extends CommonFlags {
  readonly from: string;
  readonly to: string;
  readonly symbol: string[];
  readonly symbolsFile?: string;
  readonly dryRun?: boolean;
  readonly force?: boolean;
  readonly allKnown?: boolean;
}

function addBackfill(shell: Shell): void {
  const backfill: Command = shell.program
    .command('backfill')
    .description('fetch the windows of the past that coverage lacks; killed, it goes on where it was')
    .requiredOption('--from <time>', 'start, included: epoch ms, YYYY-MM-DD, or an ISO-8601 instant with a zone')
    .requiredOption('--to <time>', 'end, excluded')
    .addOption(symbolOption())
    .option('--symbols-file <file>', 'symbols, one a line')
    .option('--dry-run', 'print the plan: symbols, windows, expected requests and time')
    .option('--force', 'fetch covered windows too')
    .option('--all-known', 'fetch symbols outside of their life too');
  withCommonFlags(backfill).action((flags: BackfillOptions) =>
    runAndTell(shell, 'backfill', flags, shell.jobs.backfill, async () => {
      const window = askedWindow(flags);
      const symbols = [
        ...flags.symbol,
        ...(flags.symbolsFile === undefined ? [] : await readSymbols(flags.symbolsFile)),
      ];
      const showPlan =
        flags.dryRun === true ? (plan: BackfillPlan) => process.stdout.write(planText(plan, flags)) : null;
      return { window, symbols, force: flags.force === true, allKnown: flags.allKnown === true, showPlan };
    }),
  );
}

async function readSymbols(path: string): Promise<string[]> {
  const { readFile } = await import('node:fs/promises');
  let text: string;
  try {
    text = await readFile(path, 'utf8');
  } catch (error) {
    throw new UsageError(`--symbols-file ${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
  const symbols = text.split(/\r?\n/).filter((line) => line.trim() !== '');
  if (symbols.length === 0) throw new UsageError(`--symbols-file ${path} names no symbol.`);
  return symbols;
}

const linesMax = 20;

function planText({ plans, windows, expectedRequests, expectedSeconds }: BackfillPlan, flags: BackfillOptions): string {
  const lines = plans
    .slice(0, linesMax)
    .map((plan) => `  ${plan.symbol}  ${plan.windows.map((w) => `${isoUtc(w.from)} … ${isoUtc(w.to)}`).join(', ')}\n`);
  const more = plans.length > linesMax ? `  … and ${plans.length - linesMax} symbols more\n` : '';
  const head = `${plans.length} symbols, ${windows} windows, at least ${expectedRequests} requests, about ${duration(expectedSeconds * 1000)} at the configured rate\n`;
  const plan = {
    symbols: plans.length,
    windows,
    expected_requests: expectedRequests,
    expected_seconds: expectedSeconds,
  };
  return flags.json === true ? `${JSON.stringify({ plan })}\n` : head + lines.join('') + more;
}

/** Runs a job and prints its summary: for a person, or as one JSON line. */
export async function runAndTell<F>(
  shell: Shell,
  name: string,
  flags: CommonFlags,
  load: () => Promise<Job<F>>,
  parse: () => F | Promise<F>,
): Promise<void> {
  const startedAt = performance.timeOrigin;
  let root = '';
  let summary: Summary;
  try {
    // Flags first: bad usage ends before anything is opened.
    const own = await parse();
    summary = await withContext(flags, shell.version, false, async (context: Context) => {
      root = context.settings.archive.output;
      return (await load()).run(context, own);
    });
  } catch (thrown) {
    summary = notStarted(name, shell.version, startedAt, thrown);
  }
  tell(shell, flags, summary, root);
}

/** The summary of a job that ended before it was begun; times in epoch ms. */
export const notStarted = (
  job: string,
  version: string,
  startedAt: number,
  thrown: unknown,
  finishedAt = startedAt + performance.now(),
): Summary =>
  summarize({
    ...{ version, job, run_id: null, started_at: Math.round(startedAt), finished_at: Math.round(finishedAt) },
    ...{ requests: 0, retries: 0, throttled_ms: 0, pages: 0, recovered: 0, generation: 0, watermark: null, gaps: 0 },
    ticks: { fetched: 0, accepted: 0, duplicates: 0, conflicts: 0, quarantined: 0 },
    symbols: { planned: 0, done: 0, failed: 0, retired: 0 },
    books: noBooks,
    ...{ warnings: [], failures: [], files: [], strict: false, reached: false, thrown },
  });
