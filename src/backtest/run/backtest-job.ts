import type { Archive } from '../../archive/archive.ts';
import { type JobContext, type JobFailure, JobThreadError, runInThread } from '../../archive/job-thread.ts';
import type { BacktestSpec } from '../../contract/backtest-request.ts';
import type { Fault } from '../../contract/parsed-schema.ts';
import type { StoredTrades, TradesTarget } from '../data/stored-trades.ts';
import type { ResolvedStrategy } from '../resolve-strategy.ts';

export interface BacktestTask {
  readonly spec: BacktestSpec;
  readonly resolvedStrategy: ResolvedStrategy;
  /** Number of worker threads; 0 only estimates the ticks. */
  readonly threads: number;
  /** Maximum cost in ticks, see `estimateCost`. */
  readonly ticksMax: number;
  /** Where all trades are stored; null to keep only those in the result. */
  readonly trades: TradesTarget | null;
}

export interface BacktestOutput {
  /** Value of the objective, for lists. */
  readonly value: number | null;
  /** JSON of a BacktestResult. */
  readonly result: string;
  /** Null if they were not to be stored. */
  readonly trades: StoredTrades | null;
}

type BacktestFailureReason = 'invalid' | 'too large' | 'damaged' | 'full' | 'unexpected';

export interface BacktestFailure extends JobFailure {
  readonly why: BacktestFailureReason;
  /** Faults of the request; empty for other failures. */
  readonly faults: readonly Fault[];
}

export const failureMessages: Readonly<Record<Exclude<BacktestFailureReason, 'invalid'>, string>> = {
  'too large': 'The backtest is too large for this service. Use fewer symbols, a shorter window or fewer grid points.',
  damaged: 'Files that the backtest needs are damaged. Try again after the archive is repaired.',
  full: 'The disk of the service is full. Try again later.',
  unexpected: 'The backtest failed because of an internal error. See the log of the service.',
};

/** Converts an error of a run to a failure. */
export function toBacktestFailure(error: unknown): BacktestFailure {
  const failure = error instanceof JobThreadError ? (error.failure as Partial<BacktestFailure>) : {};
  return { why: 'unexpected', message: String(error), faults: [], ...failure };
}

/**
 * Runs a backtest in its own thread, which starts worker threads. Hashing files and merging totals would block the event loop
 * of the service.
 * @throws the signal's reason if it is aborted, otherwise JobThreadError
 */
export const runBacktestInThread = (
  archive: Archive,
  task: BacktestTask,
  context: JobContext,
): Promise<BacktestOutput> =>
  runInThread({ name: './backtest-job-thread', beside: import.meta.url }, archive, task, context);

/**
 * Whether the cost of a backtest exceeds `ticksMax`. Other errors are ignored; the run reports them.
 * @throws the signal's reason if it is aborted
 */
export async function isTooLarge(
  archive: Archive,
  task: Omit<BacktestTask, 'threads' | 'trades'>,
  signal: AbortSignal,
) {
  try {
    await runBacktestInThread(
      archive,
      { ...task, threads: 0, trades: null },
      { signal, progress() {}, isAwaited: true },
    );
    return false;
  } catch (error) {
    signal.throwIfAborted();
    return toBacktestFailure(error).why === 'too large';
  }
}
