import type { Archive } from '../../archive/archive.ts';
import type { ExportFormat } from '../../archive/copies/export-file.ts';
import type { DatasetName } from '../../archive/parquet/datasets.ts';
import type { Clock } from '../../core/clock.ts';
import type { Log } from '../../core/log.ts';
import type { WriteLock } from '../../state/lock.ts';
import type { ExportJobs } from '../../workspace/export-jobs.ts';
import type { ExportJobRow } from '../../workspace/tables.ts';
import { exportPath, removeExport, removeStray, tryExportLock } from './export-folder.ts';
import { exportInThread, type FailedExport, ThreadFailed } from './export-in-thread.ts';

export interface RunnerParts {
  readonly archive: Archive;
  readonly jobs: ExportJobs;
  readonly clock: Clock;
  readonly log: Log;
  /** How long a finished job is kept, in ms. */
  readonly keepMs: number;
  /** Bytes of all files together; at least 1. */
  readonly bytesMax: number;
}

/** Works off the export jobs of an archive, one at a time: of several processes the one that has the lock does. */
export interface ExportRunner {
  /** There is a new job, or one was cancelled. */
  wake(): void;
  /** Breaks off a job that was cancelled, where it is this runner's. */
  breakOff(id: string): void;
  /** What is under way is put back for the next start. */
  stop(): Promise<void>;
}

/** How often is looked for jobs that other processes were asked for, for the lock, and for files whose time is over. */
const restMs = 2_000;

/** How often progress is written down. */
const tellMs = 500;

const reasons: Readonly<Record<FailedExport, string>> = {
  damaged: 'Files that it needs are damaged in the archive. Ask again once they are repaired.',
  'too large': 'The file would be larger than what is left for exports. Ask for less, or remove other exports.',
  full: 'The disk of the service is full. Ask again once there is room.',
  unexpected: 'It could not be made here, and the request is not to blame. The log of the service says why.',
};

/** Begins at once, and goes on until it is stopped. */
export function startExportRunner({ archive, jobs, clock, log, keepMs, bytesMax }: RunnerParts): ExportRunner {
  const me = process.pid;
  const stopping = new AbortController();
  let woken = Promise.withResolvers<void>();
  let current: { readonly id: string; readonly cancel: AbortController } | null = null;

  async function work(): Promise<void> {
    let lock: WriteLock | null = null;
    let isTold = false;
    while (!stopping.signal.aborted) {
      try {
        lock ??= tryExportLock(archive);
        if (lock === null && !isTold)
          log.info({}, 'another service makes the exports of this archive: they have to share one database');
        isTold = true;
        const job = lock === null ? null : await next();
        if (job !== null) {
          await run(job);
          continue;
        }
      } catch (error) {
        log.error({ err: error }, 'export jobs are held up');
      }
      await rest();
    }
    lock?.release();
  }

  async function next(): Promise<ExportJobRow | null> {
    // Nothing is under way here, and nowhere else: what seems to be was begun by a process that died, or its finish was
    // not written down.
    await jobs.releaseAll();
    await jobs.expire(clock.nowMs());
    await removeStray(archive, jobs);
    return stopping.signal.aborted ? null : await jobs.take(me);
  }

  async function rest(): Promise<void> {
    const enough = new AbortController();
    const signal = AbortSignal.any([stopping.signal, enough.signal]);
    await Promise.race([woken.promise, clock.sleep(restMs, signal).catch(() => {})]);
    enough.abort();
    woken = Promise.withResolvers<void>();
  }

  async function run(job: ExportJobRow): Promise<void> {
    const cancel = new AbortController();
    current = { id: job.id, cancel };
    const teller = progressTeller(job, cancel);
    try {
      const room = bytesMax - (await jobs.bytes());
      if (room <= 0) throw new ThreadFailed('too large', 'no room');
      const signal = AbortSignal.any([stopping.signal, cancel.signal]);
      const exported = await exportInThread(archive, askedOf(archive, job, room), { signal, progress: teller.tell });
      await teller.told();
      const { bytes, sha256, rows, generation } = exported;
      if (!(await jobs.finish(job.id, me, { state: 'done', ...ends(), file: { bytes, sha256, rows, generation } })))
        removeExport(archive, job);
    } catch (error) {
      await teller.told();
      if (cancel.signal.aborted) return;
      if (stopping.signal.aborted) return await jobs.release(job.id, me);
      const why = error instanceof ThreadFailed ? error.why : 'unexpected';
      log.error({ err: error, job: job.id }, 'an export failed');
      await jobs.finish(job.id, me, { state: 'failed', ...ends(), error: reasons[why] });
    } finally {
      current = null;
    }
  }

  function progressTeller(job: ExportJobRow, cancel: AbortController) {
    let telling: Promise<void> = Promise.resolve();
    let isTelling = false;
    let next = clock.monotonicMs();
    return {
      tell(done: number, total: number): void {
        if (isTelling || clock.monotonicMs() < next) return;
        isTelling = true;
        next = clock.monotonicMs() + tellMs;
        telling = jobs
          .progress(job.id, me, done, total)
          // Another process may have cancelled it.
          .then((isMine) => (isMine ? undefined : cancel.abort(new Error('cancelled'))))
          .catch((error: unknown) => log.error({ err: error }, 'progress of an export is lost'))
          .finally(() => {
            isTelling = false;
          });
      },
      told: () => telling,
    };
  }

  const ends = () => ({ finishedAt: clock.nowMs(), expiresAt: clock.nowMs() + keepMs });
  const working = work();
  return {
    wake: () => woken.resolve(),
    breakOff(id) {
      if (current?.id === id) current.cancel.abort(new Error('cancelled'));
    },
    async stop() {
      stopping.abort(new Error('the service stops'));
      await working;
    },
  };
}

const askedOf = (archive: Archive, job: ExportJobRow, bytesMax: number) => ({
  file: `${archive.layout.root}/${exportPath(job)}`,
  format: job.format as ExportFormat,
  dataset: job.dataset as DatasetName,
  symbols: JSON.parse(job.symbols) as string[],
  ...{ from: job.from_ms, to: job.to_ms, bytesMax },
});
