import { readlinkSync } from 'node:fs';
import { availableParallelism, constants, setPriority } from 'node:os';
import { basename } from 'node:path';
import { setFlagsFromString } from 'node:v8';
import { workerData } from 'node:worker_threads';
import type { Tinypool } from 'tinypool';

/** Number of threads to use. With more than four, the disk and the main thread are the bottleneck. */
export const computeThreadsMax = (): number => Math.min(availableParallelism(), 4);

/** Options of Node for every thread. */
export const threadExecArgv: readonly string[] = ['--disable-warning=ExperimentalWarning'];

/**
 * The URL of a thread's module, which has the extension of the calling module: the npm package ships JavaScript, and the
 * build rewrites only imports.
 * @param entry path of the module relative to `callerUrl`, without extension, e.g. `./worker`
 * @param callerUrl `import.meta.url` of the calling module
 */
export const resolveThreadEntry = (entry: string, callerUrl: string): URL =>
  new URL(`${entry}${/\.[jt]s$/.exec(callerUrl)![0]}`, callerUrl);

/**
 * Lowers the CPU priority of the calling thread, and of those that it starts, by default to the lowest. Does nothing where threads
 * have none of their own (only Linux has, by the thread's ID), or where a container does not show or permit it.
 */
export function lowerThreadPriority(priority: number = constants.priority.PRIORITY_LOW): void {
  if (process.platform !== 'linux') return;
  try {
    setPriority(Number(basename(readlinkSync('/proc/thread-self'))), priority);
  } catch {}
}

let arePoolsInBackground = false;

/** Lets the threads of later pools run at the lowest CPU priority, for a process that answers requests beside them. */
export const putPoolsInBackground = (): void => {
  arePoolsInBackground = true;
};

/** Called by the module of a pool's threads. */
export function lowerInBackground(): void {
  const [, ours] = Array.isArray(workerData) ? (workerData as [unknown, { isBackground?: boolean }?]) : [];
  if (ours?.isBackground === true) lowerThreadPriority();
}

interface PoolOptions {
  /** Heap size at which the first full garbage collection starts, in MiB including external memory; 0: V8's default. */
  readonly heapMb?: number;
  /**
   * Tasks that are sent to a thread before it has finished the first of them; default: 1. The others wait on the calling thread,
   * which sends none while it computes itself.
   */
  readonly tasksPerThread?: number;
}

/** A pool of worker threads. The tasks are the exported functions of one module. */
export type WorkerPool = Awaited<ReturnType<typeof openWorkerPool>>;

/**
 * Starts a pool of worker threads.
 * @param entry, callerUrl see `resolveThreadEntry`
 */
export async function openWorkerPool(
  entry: string,
  callerUrl: string,
  count: number,
  { heapMb = 0, tasksPerThread = 1 }: PoolOptions = {},
) {
  const { Tinypool } = await import('tinypool');
  // The launcher sets a larger value for the main thread. Each worker thread would inherit it and use more memory.
  setFlagsFromString(`--initial-old-space-size=${heapMb}`);
  const pool = new Tinypool({
    filename: resolveThreadEntry(entry, callerUrl).href,
    minThreads: count,
    maxThreads: count,
    concurrentTasksPerWorker: tasksPerThread,
    execArgv: [...threadExecArgv],
    workerData: { isBackground: arePoolsInBackground },
    // Most allocations are large and short-lived.
    resourceLimits: { maxYoungGenerationSizeMb: 8 },
  });
  let isClosed = false;
  let threadError: Error | undefined;
  // If a thread fails outside of a task, for example at its start, the library would start new threads forever.
  pool.on('error', (error: Error) => {
    threadError ??= new Error(`a thread ended early: ${error.message}`, { cause: error });
    void endThreads(pool);
  });
  return {
    /** Runs a task when a thread is free. Rejects with the error of the task, or if the threads are terminated. */
    async run(task: string, value: unknown, transfer: readonly ArrayBuffer[] = []): Promise<unknown> {
      if (threadError !== undefined) throw threadError;
      // The library would start new threads.
      if (isClosed) throw new Error('the threads have ended');
      return await pool.run(value, { name: task, transferList: [...transfer] });
    },
    /** Terminates the threads, even if they are running tasks. May be called again. */
    async close() {
      isClosed = true;
      await endThreads(pool);
    },
  };
}

/**
 * Terminates the threads. The library waits for their exit with `events.once`, which calls `removeListener` if a thread
 * fails at that moment; its threads do not have that method, and the process would crash.
 */
async function endThreads(pool: Tinypool): Promise<void> {
  for (const thread of pool.threads) Object.assign(thread, { removeListener: () => thread });
  await pool.destroy().catch(() => {});
}

/** Marks the result of a task so that its `buffers` are moved to the caller, not copied. The task must not use them again. */
export async function moveToCaller<T extends object>(value: T, buffers: readonly ArrayBuffer[]): Promise<T> {
  const { Tinypool } = await import('tinypool');
  const transferable = { [Tinypool.transferableSymbol]: [...buffers], [Tinypool.valueSymbol]: value };
  // The caller receives the plain value.
  return Tinypool.move(transferable as never) as unknown as T;
}

/** Returns the buffers of the arrays that span their complete buffer. Other buffers may be shared with other arrays. */
export const listWholeBuffers = (arrays: readonly (Uint8Array | Float64Array)[]): ArrayBuffer[] => [
  ...new Set(
    arrays.filter((array) => array.byteLength === array.buffer.byteLength).map(({ buffer }) => buffer as ArrayBuffer),
  ),
];
