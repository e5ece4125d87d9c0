import type { Archive } from '../../archive/open-archive.ts';
import type { ExportAsked, Exported } from '../export.ts';
import { ThreadFailed, type Watching, workInThread } from '../job-thread.ts';

export type FailedExport = 'damaged' | 'too large' | 'full' | 'unexpected';

/** Why an export was not made; anything else is unexpected. */
export const whyFailed = (error: unknown): FailedExport =>
  error instanceof ThreadFailed ? (error.failure.why as FailedExport) : 'unexpected';

/**
 * Writes an export in a thread of its own, as encoding and hashing would hold up everybody else here.
 * @throws the signal's reason once it is aborted, else ThreadFailed
 */
export const exportInThread = (archive: Archive, asked: ExportAsked, watching: Watching): Promise<Exported> =>
  workInThread({ name: './export-thread', beside: import.meta.url }, archive, asked, watching);
