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

interface ExportRunnerOptions {
  readonly archive: Archive;
  readonly jobs: ExportJobStore;
  readonly clock: Clock;
  readonly log: Log;
  /** Time that a finished job is kept, in ms. */
  readonly keepMs: number;
  /** Bytes of all files, at least 1. */
  readonly bytesMax: number;
}

const failureMessages: Readonly<Record<ExportFailureReason, string>> = {
  damaged: 'Files of the slice are damaged in the archive. Try again once they are repaired.',
  'too large': 'The file would exceed the space left for exports. Request a smaller slice, or remove other exports.',
  full: 'The disk of the service is full. Try again once there is space.',
  unexpected: 'The export failed for an internal reason; see the log of the service.',
};

/** Runs the export jobs of an archive until it is stopped. */
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
      async run(job, jobContext) {
        const bytesLeft = bytesMax - (await jobs.sumBytes());
        if (bytesLeft <= 0) throw new JobThreadError({ why: 'too large', message: 'no room' });
        const { bytes, sha256, rows, generation } = await runExportInThread(
          archive,
          toExportRequest(archive, job, bytesLeft),
          jobContext,
        );
        const file = { bytes, sha256, rows, generation };
        return async (runner) => {
          if (!(await jobs.finish(job.id, runner, { state: 'done', ...ends(), file }))) removeExport(archive, job);
        };
      },
      async fail(job, runner, error) {
        await jobs.finish(job.id, runner, {
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

/** Why an export failed; any other error is unexpected. */
const toExportFailureReason = (error: unknown): ExportFailureReason =>
  error instanceof JobThreadError ? (error.failure.why as ExportFailureReason) : 'unexpected';

/**
 * Writes an export in its own thread, as encoding and hashing would block other requests.
 * @throws the signal's reason once it is aborted, else JobThreadError
 */
const runExportInThread = (archive: Archive, spec: ExportSpec, jobContext: JobContext): Promise<ExportResult> =>
  runInThread({ name: './export-thread', beside: import.meta.url }, archive, spec, jobContext);
