import { DamageError } from '../../core/errors.ts';
import { systemRandom } from '../../system.ts';
import { type ExportAsked, ExportTooLarge, writeExport } from '../export.ts';
import { isFullDisk, workAsked } from '../job-thread.ts';
import type { FailedExport } from './export-in-thread.ts';

// The entry of a thread of its own: one export.

await workAsked(
  (archive, asked: ExportAsked, watching) => writeExport(archive, asked, { random: systemRandom, ...watching }),
  (error) => ({ why: whyOf(error) }),
);

function whyOf(error: unknown): FailedExport {
  if (error instanceof DamageError) return 'damaged';
  if (error instanceof ExportTooLarge) return 'too large';
  return isFullDisk(error) ? 'full' : 'unexpected';
}
