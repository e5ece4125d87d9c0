import type { JobContext } from '../../archive/job-thread.ts';
import type { WriteLock } from '../../archive/journal/lock.ts';
import type { Clock, Log } from '../../base/ports.ts';
import { WorkspaceUnavailableError } from '../workspace/database-url.ts';

/** The operations on one kind of job that the runner needs. */
interface JobHandler<Job extends { readonly id: string }> {
  /** Plural name for the log, such as exports. */
  readonly plural: string;
  /** The lock for running these jobs; null if another process holds it. */
  tryLock(): WriteLock | null;
  /** Returns all started jobs to the queue. */
  releaseAll(): Promise<void>;
  /** Cleans up between two jobs, when none is running. */
  cleanUp(): Promise<void>;
  /** Takes the next job from the queue for this runner. */
  take(runner: number): Promise<Job | null>;
  /** False if the job no longer belongs to this runner, as it was removed. */
  progress(id: string, runner: number, done: number, total: number): Promise<boolean>;
  /** Returns a job to the queue. */
  release(id: string, runner: number): Promise<void>;
  /** Runs a job; the function it resolves with stores the result. */
  run(job: Job, watching: JobContext): Promise<(runner: number) => Promise<void>>;
  /** Stores why a job failed. */
  fail(job: Job, runner: number, error: unknown): Promise<void>;
}

/** Runs the jobs of an archive one at a time; of several processes only the one with the lock does. */
export interface JobRunner {
  /** A job was added or removed. */
  wake(): void;
  /** Cancels a removed job if it is running here. */
  cancel(id: string): void;
  /** Stops, and returns the running job to the queue. */
  stop(): Promise<void>;
}

/** Interval of checking for jobs of other processes, for the lock, and for files to clean up. */
const pollIntervalMs = 2_000;

/** Interval of storing progress. */
const progressIntervalMs = 500;

/** First delay after a result could not be stored; each further one is twice as long, about a minute in total. */
const finishRetryDelayMs = 250;
const finishRetriesMax = 8;

/** Starts the runner, which runs until it is stopped. */
export function startJobRunner<Job extends { readonly id: string }>(
  kind: JobHandler<Job>,
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
          log.info({}, `another service runs the ${kind.plural} of this archive; both must use the same database`);
        isLogged = true;
        const job = lock === null ? null : await next();
        if (job !== null) {
          await run(job);
          continue;
        }
      } catch (error) {
        log.error({ err: error }, `cannot process ${kind.plural}`);
      }
      await rest();
    }
    lock?.release();
  }

  async function next(): Promise<Job | null> {
    // No job is running, here or elsewhere. Jobs in that state were started by a process that died, or their result was
    // not stored.
    await kind.releaseAll();
    await kind.cleanUp();
    return stopping.signal.aborted ? null : await kind.take(runner);
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
      const finish = await kind.run(job, { signal, progress: reporter.report });
      await reporter.flush();
      await storeResult(() => finish(runner), signal);
    } catch (error) {
      await reporter.flush();
      if (removed.signal.aborted) return;
      if (stopping.signal.aborted) return await kind.release(job.id, runner);
      // Not a failure of the job: its row could not be read or storeResult, so it is started again.
      if (error instanceof WorkspaceUnavailableError) throw error;
      log.error({ err: error, job: job.id }, `one of the ${kind.plural} failed`);
      await kind.fail(job, runner, error);
    } finally {
      current = null;
    }
  }

  /** Stores a result, and retries while the database is unavailable. */
  async function storeResult(finish: () => Promise<void>, signal: AbortSignal): Promise<void> {
    for (let retries = 0; ; retries++) {
      try {
        return await finish();
      } catch (error) {
        if (!(error instanceof WorkspaceUnavailableError) || retries === finishRetriesMax) throw error;
        log.error({ err: error }, `cannot store the result of one of the ${kind.plural}; trying again`);
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
        storing = kind
          .progress(job.id, runner, done, total)
          // Another process may have removed the job.
          .then((isMine) => (isMine ? undefined : removed.abort(new Error('removed'))))
          .catch((error: unknown) =>
            log.error({ err: error }, `cannot store the progress of one of the ${kind.plural}`),
          )
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
