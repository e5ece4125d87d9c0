import { type JobContext, type JobFailure, JobThreadError, runInThread } from '../../archive/job-thread.ts';
import type { Archive } from '../../archive/open-archive.ts';
import type { BacktestSpec } from '../backtest-spec.ts';
import type { Fault } from '../strategy/json-validator.ts';
import type { ResolvedStrategy } from './run-backtest.ts';

export interface BacktestTask {
  readonly spec: BacktestSpec;
  readonly resolvedStrategy: ResolvedStrategy;
  /** Threads that play; none where its ticks are to be counted only. */
  readonly threads: number;
  /** Ticks that are played at most, weighed as `estimateCost` does. */
  readonly ticksMax: number;
}

export interface BacktestOutput {
  /** The objective's, for lists. */
  readonly value: number | null;
  /** JSON, as src/backtest/result.ts has it. */
  readonly result: string;
}

export type BacktestFailureReason = 'unfit' | 'too large' | 'damaged' | 'full' | 'unexpected';

/** Why there is no result. */
export interface BacktestFailure extends JobFailure {
  readonly why: BacktestFailureReason;
  /** What cannot be run as it was asked for, by field; of others none. */
  readonly faults: readonly Fault[];
}

/** What a user is told. */
export const failureMessages: Readonly<Record<Exclude<BacktestFailureReason, 'unfit'>, string>> = {
  'too large':
    'It is too large for the service. Ask for less: fewer symbols, a shorter time or fewer points of a grid.',
  damaged: 'Files that it needs are damaged in the archive. Ask again once they are repaired.',
  full: 'The disk of the service is full. Ask again once there is room.',
  unexpected: 'It could not be run here, and the request is not to blame. The log of the service says why.',
};

/** What is known of an error that ended a run. */
export function toBacktestFailure(error: unknown): BacktestFailure {
  const failure = error instanceof JobThreadError ? (error.failure as Partial<BacktestFailure>) : {};
  return { why: 'unexpected', message: String(error), faults: [], ...failure };
}

/**
 * Runs a backtest in a thread of its own, which has others that play: hashing files, and adding up, would hold up everybody
 * else here.
 * @throws the signal's reason once it is aborted, else JobThreadError
 */
export const runBacktestInThread = (
  archive: Archive,
  asked: BacktestTask,
  watching: JobContext,
): Promise<BacktestOutput> =>
  runInThread({ name: './backtest-job-thread', beside: import.meta.url }, archive, asked, watching);

/**
 * Whether a backtest would play more ticks than it may. What else is wrong with it, the run tells.
 * @throws the signal's reason once it is aborted
 */
export async function isTooLarge(archive: Archive, asked: Omit<BacktestTask, 'threads'>, signal: AbortSignal) {
  try {
    await runBacktestInThread(archive, { ...asked, threads: 0 }, { signal, progress() {} });
    return false;
  } catch (error) {
    signal.throwIfAborted();
    return toBacktestFailure(error).why === 'too large';
  }
}
