import type { Archive } from '../../archive/open-archive.ts';
import type { ExportResult, ExportSpec } from '../export.ts';
import { type JobContext, JobThreadError, runInThread } from '../job-thread.ts';

export type ExportFailureReason = 'damaged' | 'too large' | 'full' | 'unexpected';

/** Why an export was not made; anything else is unexpected. */
export const toExportFailureReason = (error: unknown): ExportFailureReason =>
  error instanceof JobThreadError ? (error.failure.why as ExportFailureReason) : 'unexpected';

/**
 * Writes an export in a thread of its own, as encoding and hashing would hold up everybody else here.
 * @throws the signal's reason once it is aborted, else ThreadFailed
 */
export const runExportInThread = (archive: Archive, asked: ExportSpec, watching: JobContext): Promise<ExportResult> =>
  runInThread({ name: './export-thread', beside: import.meta.url }, archive, asked, watching);
