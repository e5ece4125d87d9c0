import { join } from 'node:path';
import type { Archive } from '../../archive/archive.ts';
import type { JobContext } from '../../archive/job-thread.ts';
import { tryLock, type WriteLock } from '../../archive/journal/lock.ts';
import type { Clock, Log } from '../../base/ports.ts';
import type { App } from '../http/service-context.ts';
import { WorkspaceUnavailableError } from '../workspace/database-url.ts';
import type { JobQueue, JobResult } from '../workspace/job-queue.ts';
import type { HeldArchiveLease } from './archive-lease.ts';

/** What a runner needs of the queue, as `JobQueue` has it. */
interface RunnerQueue<Job> extends Pick<JobQueue, 'progress' | 'release' | 'releaseAll'> {
  take(runner: number, nowMs: number): Promise<Job | null>;
  finish(id: string, runner: number, result: JobResult<Job>, nowMs: number): Promise<boolean>;
}

/** How backtests are run. */
interface JobHandler<Job> {
  readonly jobs: RunnerQueue<Job>;
  /** The lock for running these jobs; null if another process holds it. */
  tryLock(): WriteLock | null;
  /** Cleans up between two jobs, when none is running. */
  cleanUp(): Promise<void>;
  /** Runs a job; resolves with the columns of its result. */
  run(job: Job, context: JobContext): Promise<Partial<Job>>;
  /** Why a job failed, for its user. */
  describeFailure(error: unknown): string;
  /** Removes what `run` wrote for a job that was removed before its result was stored. */
  discard(job: Job): void;
}

/** Runs the jobs of an archive one at a time. Only the process that holds the lock runs jobs. */
export interface JobRunner {
  /** A job was added or removed. */
  wake(): void;
  /** Cancels a removed job if it is running here. */
  cancel(id: string): void;
  /** Stops, and returns the running job to the queue. */
  stop(): Promise<void>;
}

/** Interval between checks for jobs from other processes, for the lock, and for files to clean up. */
const pollIntervalMs = 2_000;

/** Minimum interval between two updates of the stored progress. */
const progressIntervalMs = 500;

/** Delay before the first retry to store a result; it doubles with each retry, to about a minute in total. */
const finishRetryDelayMs = 250;
const finishRetriesMax = 8;

/** Starts the runner, which runs until it is stopped. */
export function startJobRunner<Job extends { readonly id: string }>(
  { jobs, ...kind }: JobHandler<Job>,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): JobRunner {
  const runner = process.pid;
  const stopping = new AbortController();
  let woken = Promise.withResolvers<void>();
  let current: { readonly id: string; readonly removed: AbortController } | null = null;

  async function work(): Promise<void> {
    let lock: WriteLock | null = null;
    let isLogged = false;
    while (!stopping.signal.aborted) {
      try {
        lock ??= kind.tryLock();
        if (lock === null && !isLogged)
          log.info({}, 'another service runs the backtests of this archive; both must use the same database');
        isLogged = true;
        const job = lock === null ? null : await next();
        if (job !== null) {
          await run(job);
          continue;
        }
      } catch (error) {
        log.error({ err: error }, 'cannot process backtests');
      }
      await rest();
    }
    lock?.release();
  }

  async function next(): Promise<Job | null> {
    // No job is running, here or elsewhere. Jobs in that state were started by a process that died, or their result was
    // not stored.
    await jobs.releaseAll(clock.nowMs());
    await kind.cleanUp();
    return stopping.signal.aborted ? null : await jobs.take(runner, clock.nowMs());
  }

  async function rest(): Promise<void> {
    const rested = new AbortController();
    const signal = AbortSignal.any([stopping.signal, rested.signal]);
    await Promise.race([woken.promise, clock.sleep(pollIntervalMs, signal).catch(() => {})]);
    rested.abort();
    woken = Promise.withResolvers<void>();
  }

  async function run(job: Job): Promise<void> {
    const removed = new AbortController();
    current = { id: job.id, removed };
    const reporter = createProgressReporter(job, removed);
    try {
      const signal = AbortSignal.any([stopping.signal, removed.signal]);
      const result = await kind.run(job, { signal, progress: reporter.report });
      await reporter.flush();
      if (!(await storeResult(job, result, signal))) kind.discard(job);
    } catch (error) {
      await reporter.flush();
      if (removed.signal.aborted) return;
      if (stopping.signal.aborted) return await jobs.release(job.id, runner);
      // Not a failure of the job: its row could not be read or updated, so it is started again.
      if (error instanceof WorkspaceUnavailableError) throw error;
      log.error({ err: error, job: job.id }, 'one of the backtests failed');
      await jobs.finish(job.id, runner, { error: kind.describeFailure(error) }, clock.nowMs());
    } finally {
      current = null;
    }
  }

  /** Stores a result, and retries while the database is unavailable. False if the job was removed. */
  async function storeResult(job: Job, result: JobResult<Job>, signal: AbortSignal): Promise<boolean> {
    for (let retries = 0; ; retries++) {
      try {
        return await jobs.finish(job.id, runner, result, clock.nowMs());
      } catch (error) {
        if (!(error instanceof WorkspaceUnavailableError) || retries === finishRetriesMax) throw error;
        log.error({ err: error }, 'cannot store the result of one of the backtests; trying again');
        await clock.sleep(finishRetryDelayMs * 2 ** retries, signal);
      }
    }
  }

  function createProgressReporter(job: Job, removed: AbortController) {
    let storing: Promise<void> = Promise.resolve();
    let isStoring = false;
    let next = clock.monotonicMs();
    return {
      report(done: number, total: number): void {
        if (isStoring || clock.monotonicMs() < next) return;
        isStoring = true;
        next = clock.monotonicMs() + progressIntervalMs;
        storing = jobs
          .progress(job.id, runner, done, total)
          // Another process may have removed the job.
          .then((isMine) => (isMine ? undefined : removed.abort(new Error('removed'))))
          .catch((error: unknown) => log.error({ err: error }, 'cannot store the progress of one of the backtests'))
          .finally(() => {
            isStoring = false;
          });
      },
      flush: () => storing,
    };
  }

  const working = work();
  return {
    wake: () => woken.resolve(),
    cancel(id) {
      if (current?.id === id) current.removed.abort(new Error('removed'));
    },
    async stop() {
      stopping.abort(new Error('the service stops'));
      await working;
    },
  };
}

/** The lock for running backtests; null if another process holds it. */
export function tryJobLock({ disk, layout }: Archive): WriteLock | null {
  disk.makeFolder(layout.privateFolder);
  return tryLock(join(layout.privateFolder, 'backtests.lock'));
}

/** Starts a runner with the service. It stops when the service stops or the archive lease is lost. */
export function runWithService(
  app: App,
  { lostSignal }: HeldArchiveLease,
  start: () => JobRunner,
): Pick<JobRunner, 'wake' | 'cancel'> {
  let runner: JobRunner | undefined;
  app.addHook('onReady', async () => {
    runner = start();
    lostSignal.addEventListener('abort', () => void runner?.stop());
  });
  app.addHook('onClose', async () => runner?.stop());
  return { wake: () => runner?.wake(), cancel: (id) => runner?.cancel(id) };
}
