import { availableParallelism } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import type { Tinypool } from 'tinypool';

/** Threads that run one module. Its exports are the tasks. */
interface WorkerPool {
  /** Runs a task on a free thread; waits for one if all are busy. Rejects with the error of the task, or if the threads are terminated. */
  run(task: string, value: unknown, transfer?: readonly ArrayBuffer[]): Promise<unknown>;
  /** Terminates the threads, also during a task. */
  close(): Promise<void>;
}

/** Maximum number of useful threads. With more, the disk and the committing thread are the bottleneck. */
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
 * Starts threads.
 * @param entry, callerUrl see `resolveThreadEntry`
 * @param heapMb heap size at which a thread first runs a full garbage collection, including external memory; 0: V8's default
 */
export async function openWorkerPool(entry: string, callerUrl: string, count: number, heapMb = 0): Promise<WorkerPool> {
  const { Tinypool } = await import('tinypool');
  // The launcher sets a larger value for the main thread; each worker thread would use that much more memory.
  setFlagsFromString(`--initial-old-space-size=${heapMb}`);
  const pool = new Tinypool({
    filename: resolveThreadEntry(entry, callerUrl).href,
    minThreads: count,
    maxThreads: count,
    execArgv: [...threadExecArgv],
    // Most allocations are large and short-lived.
    resourceLimits: { maxYoungGenerationSizeMb: 8 },
  });
  let isClosed = false;
  let threadError: Error | undefined;
  // A thread may exit without a task, for example while it starts. The library would start new ones forever.
  pool.on('error', (error: Error) => {
    threadError ??= new Error(`a thread ended early: ${error.message}`, { cause: error });
    void endThreads(pool);
  });
  return {
    async run(task, value, transfer = []) {
      if (threadError !== undefined) throw threadError;
      // The library would start new threads.
      if (isClosed) throw new Error('the threads have ended');
      return await pool.run(value, { name: task, transferList: [...transfer] });
    },
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

/** Marks the result of a task so that `buffers` are transferred to the caller, not copied. The task must not use them afterwards. */
export async function moveToCaller<T extends object>(value: T, buffers: readonly ArrayBuffer[]): Promise<T> {
  const { Tinypool } = await import('tinypool');
  const transferable = { [Tinypool.transferableSymbol]: [...buffers], [Tinypool.valueSymbol]: value };
  // The caller receives the plain value.
  return Tinypool.move(transferable as never) as unknown as T;
}

/** Returns the buffers of arrays that span their whole buffer. Other buffers may be in use elsewhere. */
export const listWholeBuffers = (arrays: readonly (Uint8Array | Float64Array)[]): ArrayBuffer[] => [
  ...new Set(
    arrays.filter((array) => array.byteLength === array.buffer.byteLength).map(({ buffer }) => buffer as ArrayBuffer),
  ),
];
