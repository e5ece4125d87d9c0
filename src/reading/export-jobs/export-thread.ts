import { DamageError } from '../../core/errors.ts';
import { systemRandom } from '../../system.ts';
import { type ExportSpec, ExportTooLargeError, writeExport } from '../export.ts';
import { isFullDisk, serveThreadTask } from '../job-thread.ts';
import type { ExportFailureReason } from './export-runner.ts';

// The entry of a thread of its own: one export.

await serveThreadTask(
  (archive, asked: ExportSpec, watching) => writeExport(archive, asked, { random: systemRandom, ...watching }),
  (error) => ({ why: toFailureReason(error) }),
);

function toFailureReason(error: unknown): ExportFailureReason {
  if (error instanceof DamageError) return 'damaged';
  if (error instanceof ExportTooLargeError) return 'too large';
  return isFullDisk(error) ? 'full' : 'unexpected';
}
