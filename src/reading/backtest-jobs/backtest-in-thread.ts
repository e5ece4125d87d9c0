import type { Archive } from '../../archive/open-archive.ts';
import type { BacktestAsked } from '../../research/backtest-request.ts';
import type { Fault } from '../../research/validator.ts';
import type { Found } from '../backtests/run-backtest.ts';
import { type Failure, ThreadFailed, type Watching, workInThread } from '../job-thread.ts';

export interface RunAsked {
  readonly asked: BacktestAsked;
  readonly found: Found;
  /** Threads that play; none where its ticks are to be counted only. */
  readonly threads: number;
  /** Ticks that are played at most, weighed as `weightOf` does. */
  readonly ticksMax: number;
}

export interface RunMade {
  /** The objective's, for lists. */
  readonly value: number | null;
  /** JSON, as src/research/result.ts has it. */
  readonly result: string;
}

export type WhyNoBacktest = 'unfit' | 'too large' | 'damaged' | 'full' | 'unexpected';

/** Why there is no result. */
export interface FailedBacktest extends Failure {
  readonly why: WhyNoBacktest;
  /** What cannot be run as it was asked for, by field; of others none. */
  readonly faults: readonly Fault[];
}

/** What a user is told. */
export const reasons: Readonly<Record<Exclude<WhyNoBacktest, 'unfit'>, string>> = {
  'too large':
    'It is too large for the service. Ask for less: fewer symbols, a shorter time or fewer points of a grid.',
  damaged: 'Files that it needs are damaged in the archive. Ask again once they are repaired.',
  full: 'The disk of the service is full. Ask again once there is room.',
  unexpected: 'It could not be run here, and the request is not to blame. The log of the service says why.',
};

/** What is known of an error that ended a run. */
export function failedBacktest(error: unknown): FailedBacktest {
  const failure = error instanceof ThreadFailed ? (error.failure as Partial<FailedBacktest>) : {};
  return { why: 'unexpected', message: String(error), faults: [], ...failure };
}

/**
 * Runs a backtest in a thread of its own, which has others that play: hashing files, and adding up, would hold up everybody
 * else here.
 * @throws the signal's reason once it is aborted, else ThreadFailed
 */
export const backtestInThread = (archive: Archive, asked: RunAsked, watching: Watching): Promise<RunMade> =>
  workInThread({ name: './backtest-job-thread', beside: import.meta.url }, archive, asked, watching);

/**
 * Whether a backtest would play more ticks than it may. What else is wrong with it, the run tells.
 * @throws the signal's reason once it is aborted
 */
export async function isTooLarge(archive: Archive, asked: Omit<RunAsked, 'threads'>, signal: AbortSignal) {
  try {
    await backtestInThread(archive, { ...asked, threads: 0 }, { signal, progress() {} });
    return false;
  } catch (error) {
    signal.throwIfAborted();
    return failedBacktest(error).why === 'too large';
  }
}
