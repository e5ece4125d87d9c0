import type { JobContext } from '../../archive/job-thread.ts';
import type { WriteLock } from '../../archive/journal/lock.ts';
import type { Clock, Log } from '../../base/ports.ts';
import { WorkspaceUnavailableError } from '../workspace/database-url.ts';

/** What jobs of one kind are, to who works them off. */
export interface JobHandler<Job extends { readonly id: string }> {
  /** Of several jobs, for the log: exports. */
  readonly plural: string;
  /** The right to work them off, which one process at a time has; null where another one has it. */
  tryLock(): WriteLock | null;
  /** Puts back all that was begun. */
  releaseAll(): Promise<void>;
  /** What is to be cleared away between two jobs; nothing is under way then. */
  cleanUp(): Promise<void>;
  /** The next one, which is then this runner's. */
  take(runner: number): Promise<Job | null>;
  /** False where the job is no longer this runner's: it was removed. */
  progress(id: string, runner: number, done: number, total: number): Promise<boolean>;
  /** Puts it back. */
  release(id: string, runner: number): Promise<void>;
  /** Makes what was asked for; the function that it resolves with writes down that it is done. */
  run(job: Job, watching: JobContext): Promise<(runner: number) => Promise<void>>;
  /** Writes down why it was not made. */
  fail(job: Job, runner: number, error: unknown): Promise<void>;
}

/** Works off the jobs of an archive, one at a time: of several processes the one that has the lock does. */
export interface JobRunner {
  /** There is a new job, or one was removed. */
  wake(): void;
  /** Breaks off a job that was removed, where it is this runner's. */
  cancel(id: string): void;
  /** What is under way is put back for the next start. */
  stop(): Promise<void>;
}

/** How often is looked for jobs that other processes were asked for, for the lock, and for what is to be tidied up. */
const pollIntervalMs = 2_000;

/** How often progress is written down. */
const progressIntervalMs = 500;

/** The rest after a finish that could not be written down; each is twice the one before. A minute of them in all. */
const finishRetryDelayMs = 250;
const finishRetriesMax = 8;

/** Begins at once, and goes on until it is stopped. */
export function startJobRunner<Job extends { readonly id: string }>(
  kind: JobHandler<Job>,
  { clock, log }: { readonly clock: Clock; readonly log: Log },
): JobRunner {
  const me = process.pid;
  const stopping = new AbortController();
  let woken = Promise.withResolvers<void>();
  let current: { readonly id: string; readonly removed: AbortController } | null = null;

  async function work(): Promise<void> {
    let lock: WriteLock | null = null;
    let isTold = false;
    while (!stopping.signal.aborted) {
      try {
        lock ??= kind.tryLock();
        if (lock === null && !isTold)
          log.info({}, `another service makes the ${kind.plural} of this archive: they have to share one database`);
        isTold = true;
        const job = lock === null ? null : await next();
        if (job !== null) {
          await run(job);
          continue;
        }
      } catch (error) {
        log.error({ err: error }, `${kind.plural} are held up`);
      }
      await rest();
    }
    lock?.release();
  }

  async function next(): Promise<Job | null> {
    // Nothing is under way here, and nowhere else: what seems to be was begun by a process that died, or its finish was
    // not written down.
    await kind.releaseAll();
    await kind.cleanUp();
    return stopping.signal.aborted ? null : await kind.take(me);
  }

  async function rest(): Promise<void> {
    const enough = new AbortController();
    const signal = AbortSignal.any([stopping.signal, enough.signal]);
    await Promise.race([woken.promise, clock.sleep(pollIntervalMs, signal).catch(() => {})]);
    enough.abort();
    woken = Promise.withResolvers<void>();
  }

  async function run(job: Job): Promise<void> {
    const removed = new AbortController();
    current = { id: job.id, removed };
    const teller = progressTeller(job, removed);
    try {
      const signal = AbortSignal.any([stopping.signal, removed.signal]);
      const finish = await kind.run(job, { signal, progress: teller.tell });
      await teller.told();
      await written(() => finish(me), signal);
    } catch (error) {
      await teller.told();
      if (removed.signal.aborted) return;
      if (stopping.signal.aborted) return await kind.release(job.id, me);
      // It has not failed: nothing could be read or written of it, and it is begun again.
      if (error instanceof WorkspaceUnavailableError) throw error;
      log.error({ err: error, job: job.id }, `one of the ${kind.plural} failed`);
      await kind.fail(job, me, error);
    } finally {
      current = null;
    }
  }

  /** What was made is kept for as long as it may still be written down. */
  async function written(finish: () => Promise<void>, signal: AbortSignal): Promise<void> {
    for (let rests = 0; ; rests++) {
      try {
        return await finish();
      } catch (error) {
        if (!(error instanceof WorkspaceUnavailableError) || rests === finishRetriesMax) throw error;
        log.error({ err: error }, `what came of one of the ${kind.plural} cannot be written down now`);
        await clock.sleep(finishRetryDelayMs * 2 ** rests, signal);
      }
    }
  }

  function progressTeller(job: Job, removed: AbortController) {
    let telling: Promise<void> = Promise.resolve();
    let isTelling = false;
    let next = clock.monotonicMs();
    return {
      tell(done: number, total: number): void {
        if (isTelling || clock.monotonicMs() < next) return;
        isTelling = true;
        next = clock.monotonicMs() + progressIntervalMs;
        telling = kind
          .progress(job.id, me, done, total)
          // Another process may have removed it.
          .then((isMine) => (isMine ? undefined : removed.abort(new Error('removed'))))
          .catch((error: unknown) => log.error({ err: error }, `progress of one of the ${kind.plural} is lost`))
          .finally(() => {
            isTelling = false;
          });
      },
      told: () => telling,
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
