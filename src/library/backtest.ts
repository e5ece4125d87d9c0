import { availableParallelism } from 'node:os';
import type { Archive } from '../archive/archive.ts';
import { systemDisk } from '../archive/disk/file-system.ts';
import { openArchive } from '../archive/open-archive.ts';
import { requireWritableTarget, writeFileAtomically } from '../archive/read/export-file.ts';
import { inferTradesFormat, type SortedTrades } from '../backtest/data/trade-files.ts';
import { InvalidBacktestError, resolveStrategy } from '../backtest/resolve-strategy.ts';
import { runBacktest as runResolvedBacktest } from '../backtest/run/run-backtest.ts';
import { UsageError } from '../base/errors.ts';
import { systemRandom } from '../base/system.ts';
import { parseBacktestSpec } from '../contract/backtest-request.ts';
import type { BacktestResult } from '../contract/backtests.ts';

// `oddslake/backtest`: runs strategies on the published ticks of an archive. See docs/BACKTESTS.md and docs/STRATEGIES.md.

export { InvalidBacktestError } from '../backtest/resolve-strategy.ts';
export { type BuiltinStrategy, builtinStrategies } from '../backtest/strategy/builtin-strategies.ts';
export { DamageError, UsageError } from '../base/errors.ts';
export type { BacktestResult } from '../contract/backtests.ts';
export type { Strategy } from '../contract/strategy-language.ts';

export interface BacktestOptions {
  /** Number of worker threads, at least 1. Default: the number of cores, at most 4. */
  readonly threads?: number;
  readonly signal?: AbortSignal;
  /** Called repeatedly with the number of finished batches and the total number of batches. */
  readonly onProgress?: (done: number, total: number) => void;
  /** File for all trades, which ends in .parquet or .csv; replaced atomically. The result lists the first 1,000 only. */
  readonly tradesFile?: string;
}

/**
 * Runs a backtest on one generation of the archive at `root`. `spec` has the format of the body of POST
 * /api/v1/research/backtest. Its strategy is a built-in strategy or `entry_executable.strategy`.
 * @throws InvalidBacktestError with each invalid field of `spec`; UsageError for a missing archive, an unknown symbol or a
 *   `tradesFile` that cannot be written; DamageError for a damaged file; the signal's reason if it is aborted
 */
export async function runBacktest(
  root: string,
  spec: unknown,
  { threads = Math.min(4, availableParallelism()), signal, onProgress, tradesFile }: BacktestOptions = {},
): Promise<BacktestResult> {
  const parsed = parseBacktestSpec(spec);
  if ('faults' in parsed) throw new InvalidBacktestError(parsed.faults);
  const resolved = await resolveStrategy(parsed.spec.entry_executable, async () => null);
  using archive = openArchive({ root, create: false, upstream: null, writer: 'oddslake/backtest' }, systemDisk);
  const saveTrades = tradesFile === undefined ? undefined : createTradesWriter(archive, tradesFile);
  return await runResolvedBacktest(archive, parsed.spec, resolved, {
    ...(saveTrades !== undefined && { saveTrades }),
    random: systemRandom,
    signal: signal ?? new AbortController().signal,
    threads,
    progress: onProgress ?? (() => {}),
  });
}

/** @throws UsageError if the file cannot be written */
function createTradesWriter({ disk, layout }: Archive, path: string): (trades: SortedTrades) => Promise<void> {
  const format = inferTradesFormat(path);
  if (format === null) throw new UsageError(`tradesFile ${path} must end in .parquet or .csv.`);
  const file = requireWritableTarget(disk, layout.root, path, 'tradesFile');
  return async (trades) => {
    const id = Math.floor(systemRandom() * 36 ** 8).toString(36);
    await writeFileAtomically(disk, file, id, trades.encode(format));
  };
}
