import { parentPort, workerData } from 'node:worker_threads';
import { openArchive } from '../../archive/archive.ts';
import { systemDisk } from '../../archive/disk/disk.ts';
import { DamageError } from '../../core/errors.ts';
import { systemRandom } from '../../system.ts';
import { type ExportAsked, ExportTooLarge, writeExport } from '../export.ts';
import type { FailedExport, FromThread } from './export-in-thread.ts';

// The entry of a thread of its own: one export, told of by messages; any message to it stops it.

const { root, writer, asked } = workerData as { root: string; writer: string; asked: ExportAsked };
const port = parentPort!;
const tell = (message: FromThread): void => port.postMessage(message);
const stop = new AbortController();
port.on('message', () => stop.abort(new Error('stopped')));

const archive = openArchive({ root, create: false, upstream: null, parts: 1, writer, settleMs: 0 }, systemDisk);
try {
  const progress = (done: number, total: number): void => tell({ kind: 'progress', done, total });
  const exported = await writeExport(archive, asked, { random: systemRandom, signal: stop.signal, progress });
  tell({ kind: 'done', exported });
} catch (error) {
  tell({
    kind: 'failed',
    why: whyOf(error),
    message: String(error instanceof Error ? (error.stack ?? error.message) : error),
  });
} finally {
  archive.close();
  // Nothing else keeps the thread.
  port.close();
}

function whyOf(error: unknown): FailedExport {
  if (error instanceof DamageError) return 'damaged';
  if (error instanceof ExportTooLarge) return 'too large';
  const { code } = ((error as Error).cause ?? {}) as NodeJS.ErrnoException;
  return code === 'ENOSPC' || code === 'EDQUOT' ? 'full' : 'unexpected';
}
