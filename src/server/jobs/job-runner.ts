import { join } from 'node:path';
import type { Archive } from '../../archive/archive.ts';
import type { JobContext } from '../../archive/job-thread.ts';
import { tryLock, type WriteLock } from '../../archive/journal/lock.ts';
import type { Clock, Log } from '../../base/ports.ts';
import type { App } from '../http/service-context.ts';
import type { BacktestStore, JobResult } from '../workspace/backtest-store.ts';
import { WorkspaceUnavailableError } from '../workspace/database-url.ts';
import type { BacktestRow } from '../workspace/tables.ts';
import type { HeldArchiveLease } from './archive-lease.ts';

/** What a runner needs of the queue, as `BacktestStore` has it. */
interface RunnerQueue<Job> extends Pick<BacktestStore, 'progress' | 'release' | 'releaseAll'> {
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

/** Interval between checks for jobs from other processes, for the lock, and for files to clean up. */
const pollIntervalMs = 2_000;

/** Minimum interval between two updates of the stored progress. */
const progressIntervalMs = 500;

/** Delay before the first retry to store a result; it doubles with each retry, to about a minute in total. */
const finishRetryDelayMs = 250;
const finishRetriesMax = 8;

/** Runs the jobs of an archive one at a time, until it is stopped. Only the process that holds the lock runs jobs. */
export class JobRunner<Job extends { readonly id: string } = BacktestRow> {
  private readonly id = process.pid;
  private readonly jobs: RunnerQueue<Job>;
  private readonly handler: JobHandler<Job>;
  private readonly clock: Clock;
  private readonly log: Log;
  private readonly stopping = new AbortController();
  private woken = Promise.withResolvers<void>();
  private current: { readonly id: string; readonly removed: AbortController } | null = null;
  private readonly working: Promise<void>;

  constructor(handler: JobHandler<Job>, { clock, log }: { readonly clock: Clock; readonly log: Log }) {
    this.jobs = handler.jobs;
    this.handler = handler;
    this.clock = clock;
    this.log = log;
    this.working = this.work();
  }

  /** A job was added or removed. */
  wake(): void {
    this.woken.resolve();
  }

  /** Cancels a removed job if it is running here. */
  cancel(id: string): void {
    if (this.current?.id === id) this.current.removed.abort(new Error('removed'));
  }

  /** Stops, and returns the running job to the queue. */
  async stop(): Promise<void> {
    this.stopping.abort(new Error('the service stops'));
    await this.working;
  }

  private async work(): Promise<void> {
    let lock: WriteLock | null = null;
    let isLogged = false;
    while (!this.stopping.signal.aborted) {
      try {
        lock ??= this.handler.tryLock();
        if (lock === null && !isLogged)
          this.log.info({}, 'another service runs the backtests of this archive; both must use the same database');
        isLogged = true;
        const job = lock === null ? null : await this.next();
        if (job !== null) {
          await this.run(job);
          continue;
        }
      } catch (error) {
        this.log.error({ err: error }, 'cannot process backtests');
      }
      await this.rest();
    }
    lock?.release();
  }

  private async next(): Promise<Job | null> {
    // No job is running, here or elsewhere. Jobs in that state were started by a process that died, or their result was
    // not stored.
    await this.jobs.releaseAll(this.clock.nowMs());
    await this.handler.cleanUp();
    return this.stopping.signal.aborted ? null : await this.jobs.take(this.id, this.clock.nowMs());
  }

  private async rest(): Promise<void> {
    const rested = new AbortController();
    const signal = AbortSignal.any([this.stopping.signal, rested.signal]);
    await Promise.race([this.woken.promise, this.clock.sleep(pollIntervalMs, signal).catch(() => {})]);
    rested.abort();
    this.woken = Promise.withResolvers<void>();
  }

  private async run(job: Job): Promise<void> {
    const removed = new AbortController();
    this.current = { id: job.id, removed };
    const reporter = this.createProgressReporter(job, removed);
    try {
      const signal = AbortSignal.any([this.stopping.signal, removed.signal]);
      const result = await this.handler.run(job, { signal, progress: reporter.report });
      await reporter.flush();
      if (!(await this.storeResult(job, result, signal))) this.handler.discard(job);
    } catch (error) {
      await reporter.flush();
      if (removed.signal.aborted) return;
      if (this.stopping.signal.aborted) return await this.jobs.release(job.id, this.id);
      // Not a failure of the job: its row could not be read or updated, so it is started again.
      if (error instanceof WorkspaceUnavailableError) throw error;
      this.log.error({ err: error, job: job.id }, 'one of the backtests failed');
      await this.jobs.finish(job.id, this.id, { error: this.handler.describeFailure(error) }, this.clock.nowMs());
    } finally {
      this.current = null;
    }
  }

  /** Stores a result, and retries while the database is unavailable. False if the job was removed. */
  private async storeResult(job: Job, result: JobResult<Job>, signal: AbortSignal): Promise<boolean> {
    for (let retries = 0; ; retries++) {
      try {
        return await this.jobs.finish(job.id, this.id, result, this.clock.nowMs());
      } catch (error) {
        if (!(error instanceof WorkspaceUnavailableError) || retries === finishRetriesMax) throw error;
        this.log.error({ err: error }, 'cannot store the result of one of the backtests; trying again');
        await this.clock.sleep(finishRetryDelayMs * 2 ** retries, signal);
      }
    }
  }

  private createProgressReporter(job: Job, removed: AbortController) {
    const { clock, log } = this;
    let storing: Promise<void> = Promise.resolve();
    let isStoring = false;
    let next = clock.monotonicMs();
    return {
      report: (done: number, total: number): void => {
        if (isStoring || clock.monotonicMs() < next) return;
        isStoring = true;
        next = clock.monotonicMs() + progressIntervalMs;
        storing = this.jobs
          .progress(job.id, this.id, done, total)
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
