import { isDiskFullError, serveThreadTask } from '../../archive/job-thread.ts';
import { type ExportSpec, ExportTooLargeError, writeExport } from '../../archive/query/export.ts';
import { DamageError } from '../../base/errors.ts';
import { systemRandom } from '../../base/system.ts';
import type { ExportFailureReason } from './export-runner.ts';

// Entry point of the thread that writes one export.

await serveThreadTask(
  (archive, spec: ExportSpec, jobContext) => writeExport(archive, spec, { random: systemRandom, ...jobContext }),
  (error) => ({ why: toFailureReason(error) }),
);

function toFailureReason(error: unknown): ExportFailureReason {
  if (error instanceof DamageError) return 'damaged';
  if (error instanceof ExportTooLargeError) return 'too large';
  return isDiskFullError(error) ? 'full' : 'unexpected';
}
