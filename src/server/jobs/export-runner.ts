import { join } from 'node:path';
import type { Archive } from '../../archive/archive.ts';
import type { DatasetName } from '../../archive/format/datasets.ts';
import { JobThreadError, runInThread } from '../../archive/job-thread.ts';
import type { ExportResult, ExportSpec } from '../../archive/query/export.ts';
import type { ExportFormat } from '../../archive/read/export-file.ts';
import type { Clock, Log } from '../../base/ports.ts';
import type { ExportJobStore } from '../workspace/export-jobs.ts';
import type { ExportJobRow } from '../workspace/tables.ts';
import { exportFolder, leaseFileName } from './archive-lease.ts';
import { type JobRunner, startJobRunner, tryJobLock } from './job-runner.ts';

interface ExportRunnerOptions {
  readonly archive: Archive;
  readonly jobs: ExportJobStore;
  readonly clock: Clock;
  readonly log: Log;
  /** Maximum total size of all files in bytes, at least 1. */
  readonly bytesMax: number;
}

export type ExportFailureReason = 'damaged' | 'too large' | 'full' | 'unexpected';

const failureMessages: Readonly<Record<ExportFailureReason, string>> = {
  damaged: 'Files of the slice are damaged in the archive. Try again once they are repaired.',
  'too large': 'The file would exceed the space left for exports. Request a smaller slice, or remove other exports.',
  full: 'The disk of the service is full. Try again once there is space.',
  unexpected: 'The export failed for an internal reason; see the log of the service.',
};

/** Runs the export jobs of an archive until it is stopped. */
export const startExportRunner = ({ archive, jobs, bytesMax, ...ports }: ExportRunnerOptions): JobRunner =>
  startJobRunner<ExportJobRow>(
    {
      plural: 'exports',
      jobs,
      tryLock: () => tryJobLock(archive, 'exports'),
      async cleanUp() {
        await jobs.expire(ports.clock.nowMs());
        await removeOrphanExports(archive, jobs);
      },
      async run(job, context) {
        const bytesLeft = bytesMax - (await jobs.sumBytes());
        if (bytesLeft <= 0) throw new JobThreadError({ why: 'too large', message: 'no room' });
        // In its own thread, as encoding and hashing would block requests.
        const entry = { name: './export-thread', beside: import.meta.url };
        const spec = toExportSpec(archive, job, bytesLeft);
        const { bytes, sha256, rows, generation }: ExportResult = await runInThread(entry, archive, spec, context);
        return { bytes, sha256, rows, generation, rows_done: rows, rows_total: rows };
      },
      describeFailure: (error) =>
        failureMessages[error instanceof JobThreadError ? (error.failure.why as ExportFailureReason) : 'unexpected'],
      discard: (job) => removeExport(archive, job),
    },
    ports,
  );

const toExportSpec = ({ layout }: Archive, job: ExportJobRow, bytesMax: number): ExportSpec => ({
  file: `${layout.root}/${toExportPath(job)}`,
  format: job.format as ExportFormat,
  isCsvSafe: job.csv_safe === 1,
  dataset: job.dataset as DatasetName,
  symbols: JSON.parse(job.symbols) as string[],
  from: job.from_ms,
  to: job.to_ms,
  bytesMax,
});

type ExportFileName = Pick<ExportJobRow, 'id' | 'format'>;

/** Path of a job's file, relative to the root of the archive. */
export const toExportPath = ({ id, format }: ExportFileName): string => `${exportFolder}/${id}.${format}`;

/** Removes the file of a job, if it exists. */
export const removeExport = ({ disk, layout }: Archive, job: ExportFileName): void =>
  disk.remove(join(layout.root, toExportPath(job)));

/** Removes files without a job and unfinished files. Call it with the lock held and no job running. */
async function removeOrphanExports({ disk, layout }: Archive, jobs: ExportJobStore): Promise<void> {
  const folder = join(layout.root, exportFolder);
  const names = disk.list(folder);
  const idsWithFiles = new Set(await jobs.listWithFiles());
  for (const name of names) {
    const [, id] = /^([^.]+)\.[a-z]+$/.exec(name) ?? [];
    if (name !== leaseFileName && (id === undefined || !idsWithFiles.has(id))) disk.remove(join(folder, name));
  }
}
