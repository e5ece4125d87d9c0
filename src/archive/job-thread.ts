import { constants } from 'node:os';
import { parentPort, Worker, workerData } from 'node:worker_threads';
import { DiskFullError } from '../base/errors.ts';
import { lowerThreadPriority, resolveThreadEntry, threadExecArgv } from '../base/worker-threads.ts';
import type { Archive } from './archive.ts';
import { systemDisk } from './disk/file-system.ts';
import { openArchive } from './open-archive.ts';

/*
 * Runs a task on an archive in a worker thread, which opens the archive itself. Contains both sides of the message
 * protocol.
 *
 * This does not use `openWorkerPool`: the pool ends its threads by terminating them, which crashes the process if
 * DuckDB runs in one. A task of a job may fail while a query that it started is still running. So each job has its own
 * thread, which is never terminated: an abort is a message, and the thread exits when its event loop is empty.
 */

export interface JobContext {
  readonly signal: AbortSignal;
  progress(done: number, total: number): void;
  /** Whether a client waits for the result. The lowest priority would stop such a task while other processes use all processors. */
  readonly isAwaited?: boolean;
}

/** Why a thread failed. The message is for the log. */
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

interface ThreadEntry {
  /** See `resolveThreadEntry`. */
  readonly name: string;
  readonly beside: string;
}

interface ThreadData<Input> {
  readonly root: string;
  readonly writer: string;
  readonly input: Input;
  readonly isAwaited: boolean;
}

type JobThreadMessage<T, F> =
  | { readonly kind: 'progress'; readonly done: number; readonly total: number }
  | { readonly kind: 'done'; readonly result: T }
  | { readonly kind: 'failed'; readonly failure: F };

/**
 * Runs the task of a thread's entry module on `input`.
 * @throws the signal's reason if it is aborted, else JobThreadError; its reason is `unexpected` if the thread gave none
 */
export async function runInThread<T, F extends JobFailure>(
  { name, beside }: ThreadEntry,
  archive: Archive,
  input: unknown,
  { signal, progress, isAwaited = false }: JobContext,
): Promise<T> {
  signal.throwIfAborted();
  const unexpected = (message: string) => new JobThreadError<JobFailure>({ why: 'unexpected', message });
  // Otherwise the thread would create a new state database.
  if (!archive.state.isFileCurrent()) throw unexpected('The state database of the archive was removed or replaced.');
  const threadData: ThreadData<unknown> = { root: archive.layout.root, writer: archive.writer, input, isAwaited };
  const thread = new Worker(resolveThreadEntry(name, beside), {
    workerData: threadData,
    execArgv: [...threadExecArgv],
  });
  const stop = (): void => thread.postMessage('stop');
  signal.addEventListener('abort', stop, { once: true });
  try {
    return await new Promise<T>((resolve, reject) => {
      let settle: () => void = () => reject(unexpected('The thread ended without a result.'));
      thread.on('message', (message: JobThreadMessage<T, F>) => {
        if (message.kind === 'progress') progress(message.done, message.total);
        else if (message.kind === 'done') settle = () => resolve(message.result);
        else settle = () => reject(new JobThreadError(message.failure));
      });
      thread.on('error', (error) => reject(unexpected(String(error.stack ?? error))));
      // Settle after the exit: until then the thread may hold files open.
      thread.on('exit', () => settle());
    });
  } catch (error) {
    signal.throwIfAborted();
    throw error;
  } finally {
    signal.removeEventListener('abort', stop);
  }
}

/**
 * Called by the thread's entry module. Runs the work and posts progress and the result; any message to the thread
 * aborts it.
 */
export async function serveThreadTask<Input, T>(
  task: (archive: Archive, input: Input, context: JobContext) => Promise<T>,
  toFailure: (error: unknown) => Omit<JobFailure, 'message'>,
): Promise<void> {
  const { root, writer, input, isAwaited } = workerData as ThreadData<Input>;
  // Requests of the service go first.
  lowerThreadPriority(isAwaited ? constants.priority.PRIORITY_BELOW_NORMAL : constants.priority.PRIORITY_LOW);
  const port = parentPort!;
  const post = (message: JobThreadMessage<T, JobFailure>): void => port.postMessage(message);
  const stop = new AbortController();
  port.on('message', () => stop.abort(new Error('stopped')));
  const archive = openArchive({ root, create: false, upstream: null, writer }, systemDisk);
  try {
    const progress = (done: number, total: number): void => post({ kind: 'progress', done, total });
    post({ kind: 'done', result: await task(archive, input, { signal: stop.signal, progress }) });
  } catch (error) {
    const message = String(error instanceof Error ? (error.stack ?? error.message) : error);
    post({ kind: 'failed', failure: { ...toFailure(error), message } });
  } finally {
    archive.close();
    // The open port is all that keeps the thread alive.
    port.close();
  }
}

/** Whether an error, or one of its causes, reports a full disk or an exhausted quota. */
export function isDiskFullError(error: unknown): boolean {
  for (let current = error, depth = 0; current instanceof Error && depth < 5; current = current.cause, depth++) {
    const { code } = current as NodeJS.ErrnoException;
    if (current instanceof DiskFullError) return true;
    if (code === 'ENOSPC' || code === 'EDQUOT' || /No space left on device/i.test(current.message)) return true;
  }
  return false;
}
