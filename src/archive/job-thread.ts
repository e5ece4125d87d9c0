import { parentPort, Worker, workerData } from 'node:worker_threads';
import { DiskFullError } from '../base/errors.ts';
import { systemDisk } from './disk/file-system.ts';
import { type Archive, openArchive } from './open-archive.ts';

// Work over an archive in a thread of its own, which opens the archive for itself. Both of its ends.

export interface JobContext {
  readonly signal: AbortSignal;
  progress(done: number, total: number): void;
}

/** Why a thread came to no end; the message is for the log. */
export interface JobFailure {
  readonly why: string;
  readonly message: string;
}

export class JobThreadError<F extends JobFailure> extends Error {
  readonly failure: F;
  constructor(failure: F) {
    super(failure.message);
    this.name = 'ThreadFailed';
    this.failure = failure;
  }
}

export interface ThreadEntry {
  /** A module beside another: `./name`, without its ending, and that one's `import.meta.url`. */
  readonly name: string;
  readonly beside: string;
}

type JobThreadMessage<T, F> =
  | { readonly kind: 'progress'; readonly done: number; readonly total: number }
  | { readonly kind: 'done'; readonly made: T }
  | { readonly kind: 'failed'; readonly failure: F };

/**
 * Has a thread do what its entry does with `asked`.
 * @throws the signal's reason once it is aborted, else JobThreadError: `unexpected` where the thread said nothing of it
 */
export async function runInThread<T, F extends JobFailure>(
  { name, beside }: ThreadEntry,
  archive: Archive,
  asked: unknown,
  { signal, progress }: JobContext,
): Promise<T> {
  signal.throwIfAborted();
  const unexpected = (message: string) => new JobThreadError<JobFailure>({ why: 'unexpected', message });
  // The thread would make a new one.
  if (!archive.state.isFileCurrent()) throw unexpected('the state of the archive was removed or replaced');
  // The ending is that of the asking module: the build renames those of imports only.
  const entry = new URL(`${name}${/\.[jt]s$/.exec(beside)![0]}`, beside);
  const given = { root: archive.layout.root, writer: archive.writer, asked };
  const thread = new Worker(entry, { workerData: given, execArgv: ['--disable-warning=ExperimentalWarning'] });
  const stop = (): void => thread.postMessage('stop');
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await new Promise<T>((resolve, reject) => {
      let end: () => void = () => reject(unexpected('The thread ended without a word.'));
      thread.on('message', (message: JobThreadMessage<T, F>) => {
        if (message.kind === 'progress') progress(message.done, message.total);
        else if (message.kind === 'done') end = () => resolve(message.made);
        else end = () => reject(new JobThreadError(message.failure));
      });
      thread.on('error', (error) => reject(unexpected(String(error.stack ?? error))));
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

/** What such a thread's entry calls: does the work, and tells of it by messages; any message to it stops it. */
export async function serveThreadTask<Asked, T>(
  work: (archive: Archive, asked: Asked, watching: JobContext) => Promise<T>,
  failureOf: (error: unknown) => Omit<JobFailure, 'message'>,
): Promise<void> {
  const { root, writer, asked } = workerData as { root: string; writer: string; asked: Asked };
  const port = parentPort!;
  const tell = (message: JobThreadMessage<T, JobFailure>): void => port.postMessage(message);
  const stop = new AbortController();
  port.on('message', () => stop.abort(new Error('stopped')));
  const archive = openArchive({ root, create: false, upstream: null, parts: 1, writer, settleMs: 0 }, systemDisk);
  try {
    const progress = (done: number, total: number): void => tell({ kind: 'progress', done, total });
    tell({ kind: 'done', made: await work(archive, asked, { signal: stop.signal, progress }) });
  } catch (error) {
    const message = String(error instanceof Error ? (error.stack ?? error.message) : error);
    tell({ kind: 'failed', failure: { ...failureOf(error), message } });
  } finally {
    archive.close();
    // Nothing else keeps the thread.
    port.close();
  }
}

/** Whether an error says, itself or through what caused it, that a disk or its quota is full. */
export function isFullDisk(error: unknown): boolean {
  for (let at = error, depth = 0; at instanceof Error && depth < 5; at = at.cause, depth++) {
    const { code } = at as NodeJS.ErrnoException;
    if (at instanceof DiskFullError) return true;
    if (code === 'ENOSPC' || code === 'EDQUOT' || /No space left on device/i.test(at.message)) return true;
  }
  return false;
}
