import { extname } from 'node:path';
import { Worker } from 'node:worker_threads';
import type { Archive } from '../../archive/archive.ts';
import type { ExportAsked, Exported } from '../export.ts';

export type FailedExport = 'damaged' | 'too large' | 'full' | 'unexpected';

export type FromThread =
  | { readonly kind: 'progress'; readonly done: number; readonly total: number }
  | { readonly kind: 'done'; readonly exported: Exported }
  | { readonly kind: 'failed'; readonly why: FailedExport; readonly message: string };

/** Why a thread made no file; the message is for the log. */
export class ThreadFailed extends Error {
  readonly why: FailedExport;
  constructor(why: FailedExport, message: string) {
    super(message);
    this.name = 'ThreadFailed';
    this.why = why;
  }
}

/**
 * Writes an export in a thread of its own, as encoding and hashing would hold up everybody else here. The thread opens
 * the archive for itself.
 * @throws the signal's reason once it is aborted, else ThreadFailed
 */
export async function exportInThread(
  archive: Archive,
  asked: ExportAsked,
  { signal, progress }: { readonly signal: AbortSignal; progress(done: number, total: number): void },
): Promise<Exported> {
  signal.throwIfAborted();
  // The thread would make a new one.
  if (!archive.state.isOwn()) throw new ThreadFailed('unexpected', 'the state of the archive was removed or replaced');
  // Not a literal: the build renames the endings of imports only.
  const entry = new URL(`./export-thread${extname(import.meta.url)}`, import.meta.url);
  const workerData = { root: archive.layout.root, writer: archive.writer, asked };
  const thread = new Worker(entry, { workerData, execArgv: ['--disable-warning=ExperimentalWarning'] });
  const stop = (): void => thread.postMessage('stop');
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await new Promise<Exported>((resolve, reject) => {
      let end: () => void = () => reject(new ThreadFailed('unexpected', 'The thread ended without a word.'));
      thread.on('message', (message: FromThread) => {
        if (message.kind === 'progress') progress(message.done, message.total);
        else if (message.kind === 'done') end = () => resolve(message.exported);
        else end = () => reject(new ThreadFailed(message.why, message.message));
      });
      thread.on('error', (error) => reject(new ThreadFailed('unexpected', String(error.stack ?? error))));
      // Only now it holds nothing open any more.
      thread.on('exit', () => end());
    });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}
