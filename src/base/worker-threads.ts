import { availableParallelism } from 'node:os';
import { setFlagsFromString } from 'node:v8';
import type { Tinypool } from 'tinypool';

/** Threads that all have one entry, whose exports are what they can be asked to do. */
export interface WorkerPool {
  /** Tasks beyond one a thread wait. Rejects with the task's error, or where the threads are ended before it is done. */
  run(task: string, value: unknown, transfer?: readonly ArrayBuffer[]): Promise<unknown>;
  /** Ends the threads, whatever they are at. */
  close(): Promise<void>;
}

/** How many threads are worth their while: more add little to what a disk, and one thread that commits, can take. */
export const computeThreadsMax = (): number => Math.min(availableParallelism(), 4);

/**
 * Starts threads. Their entry is a module beside another: `./name`, without its ending, and that one's `import.meta.url`.
 * @param heapMb what the heap of a thread may grow to before all of it is marked, outside memory counting towards it; 0:
 *   as little as the engine holds to be right
 */
export async function openWorkerPool(entry: string, beside: string, count: number, heapMb = 0): Promise<WorkerPool> {
  const { Tinypool } = await import('tinypool');
  // The launcher lets this thread's heap grow further before it is swept; each of several would hold that much more.
  setFlagsFromString(`--initial-old-space-size=${heapMb}`);
  // The ending is that of the asking module: what is published is JavaScript, and the build renames those of imports only.
  const ending = /\.[jt]s$/.exec(beside)![0];
  const pool = new Tinypool({
    filename: new URL(`${entry}${ending}`, beside).href,
    minThreads: count,
    maxThreads: count,
    execArgv: ['--disable-warning=ExperimentalWarning'],
    // What they allocate is mostly large and short-lived.
    resourceLimits: { maxYoungGenerationSizeMb: 8 },
  });
  let ended = false;
  let broken: Error | undefined;
  // One that dies without a task, as it starts perhaps: the library would start others for ever.
  pool.on('error', (error: Error) => {
    broken ??= new Error(`a thread ended early: ${error.message}`, { cause: error });
    void endThreads(pool);
  });
  return {
    async run(task, value, transfer = []) {
      if (broken !== undefined) throw broken;
      // The library would start others.
      if (ended) throw new Error('the threads have ended');
      return await pool.run(value, { name: task, transferList: [...transfer] });
    },
    async close() {
      ended = true;
      await endThreads(pool);
    },
  };
}

/**
 * Ends the threads. One that dies of an error just then is ended too: the library, which waits for their exits by Node's
 * `once`, lacks what that calls in this case, and the process would go down with it.
 */
async function endThreads(pool: Tinypool): Promise<void> {
  for (const thread of pool.threads) Object.assign(thread, { removeListener: () => thread });
  await pool.destroy().catch(() => {});
}

/** What a task gives back, the buffers being moved to the thread that asked and not copied: it may use them no more. */
export async function moveToCaller<T extends object>(value: T, buffers: readonly ArrayBuffer[]): Promise<T> {
  const { Tinypool } = await import('tinypool');
  const given = { [Tinypool.transferableSymbol]: [...buffers], [Tinypool.valueSymbol]: value };
  // What arrives is the value.
  return Tinypool.move(given as never) as unknown as T;
}

/** The buffers of arrays that are all that their buffers hold; of others somebody else may need the rest. */
export const listWholeBuffers = (arrays: readonly (Uint8Array | Float64Array)[]): ArrayBuffer[] => [
  ...new Set(
    arrays.filter((array) => array.byteLength === array.buffer.byteLength).map(({ buffer }) => buffer as ArrayBuffer),
  ),
];
