import type { DatasetName } from '../../archive/format/datasets.ts';
import { type JobContext, JobThreadError, runInThread } from '../../archive/job-thread.ts';
import type { Archive } from '../../archive/open-archive.ts';
import type { ExportResult, ExportSpec } from '../../archive/query/export.ts';
import type { ExportFormat } from '../../archive/read/export-file.ts';
import type { Clock, Log } from '../../base/ports.ts';
import type { ExportJobStore } from '../workspace/export-jobs.ts';
import type { ExportJobRow } from '../workspace/tables.ts';
import { removeExport, removeOrphanExports, toExportPath, tryExportLock } from './export-folder.ts';
import { type JobRunner, startJobRunner } from './job-runner.ts';

export interface ExportRunnerOptions {
  readonly archive: Archive;
  readonly jobs: ExportJobStore;
  readonly clock: Clock;
  readonly log: Log;
  /** How long a finished job is kept, in ms. */
  readonly keepMs: number;
  /** Bytes of all files together; at least 1. */
  readonly bytesMax: number;
}

const failureMessages: Readonly<Record<ExportFailureReason, string>> = {
  damaged: 'Files that it needs are damaged in the archive. Ask again once they are repaired.',
  'too large': 'The file would be larger than what is left for exports. Ask for less, or remove other exports.',
  full: 'The disk of the service is full. Ask again once there is room.',
  unexpected: 'It could not be made here, and the request is not to blame. The log of the service says why.',
};

/** Works off the export jobs of an archive. Begins at once, and goes on until it is stopped. */
export function startExportRunner({ archive, jobs, clock, log, keepMs, bytesMax }: ExportRunnerOptions): JobRunner {
  const ends = () => ({ finishedAt: clock.nowMs(), expiresAt: clock.nowMs() + keepMs });
  return startJobRunner<ExportJobRow>(
    {
      plural: 'exports',
      tryLock: () => tryExportLock(archive),
      releaseAll: () => jobs.releaseAll(clock.nowMs(), clock.nowMs() + keepMs),
      async cleanUp() {
        await jobs.expire(clock.nowMs());
        await removeOrphanExports(archive, jobs);
      },
      take: jobs.take,
      progress: jobs.progress,
      release: jobs.release,
      async run(job, watching) {
        const room = bytesMax - (await jobs.sumBytes());
        if (room <= 0) throw new JobThreadError({ why: 'too large', message: 'no room' });
        const { bytes, sha256, rows, generation } = await runExportInThread(
          archive,
          toExportRequest(archive, job, room),
          watching,
        );
        const file = { bytes, sha256, rows, generation };
        return async (me) => {
          if (!(await jobs.finish(job.id, me, { state: 'done', ...ends(), file }))) removeExport(archive, job);
        };
      },
      async fail(job, me, error) {
        await jobs.finish(job.id, me, {
          state: 'failed',
          ...ends(),
          error: failureMessages[toExportFailureReason(error)],
        });
      },
    },
    { clock, log },
  );
}

const toExportRequest = (archive: Archive, job: ExportJobRow, bytesMax: number) => ({
  file: `${archive.layout.root}/${toExportPath(job)}`,
  format: job.format as ExportFormat,
  dataset: job.dataset as DatasetName,
  symbols: JSON.parse(job.symbols) as string[],
  from: job.from_ms,
  to: job.to_ms,
  bytesMax,
});

export type ExportFailureReason = 'damaged' | 'too large' | 'full' | 'unexpected';

/** Why an export was not made; anything else is unexpected. */
export const toExportFailureReason = (error: unknown): ExportFailureReason =>
  error instanceof JobThreadError ? (error.failure.why as ExportFailureReason) : 'unexpected';

/**
 * Writes an export in a thread of its own, as encoding and hashing would hold up everybody else here.
 * @throws the signal's reason once it is aborted, else JobThreadError
 */
export const runExportInThread = (archive: Archive, asked: ExportSpec, watching: JobContext): Promise<ExportResult> =>
  runInThread({ name: './export-thread', beside: import.meta.url }, archive, asked, watching);
