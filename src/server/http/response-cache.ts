import { LRUCache } from 'lru-cache';
import {
  type Coding,
  type CompressBody,
  selectBodyCoding,
  type selectCoding,
  toCodedTag,
} from './compress-response.ts';
import type { FairSemaphore } from './fair-semaphore.ts';

export type ResponseCache = ReturnType<typeof openResponseCache>;

interface BodyRequest {
  /** Identifies the body: the same tag means the same bytes. */
  readonly tag: string;
  readonly choice: ReturnType<typeof selectCoding>;
  /** Aborted when the client disconnects. The read continues for the other clients that wait for it. */
  readonly signal: AbortSignal;
  /** ID of the key holder, whose requests wait in one queue of `semaphore`. A cached body needs no permit. */
  readonly holder: string;
  readonly semaphore: FairSemaphore;
  read(signal: AbortSignal): Promise<ReadBody>;
}

interface ReadBody {
  /** Differs from the requested tag if the archive has changed since; null for a body that must not be cached. */
  readonly tag: string | null;
  readonly generation: number;
  readonly body: Buffer;
}

interface LoadedBody extends ReadBody {
  readonly coding: Coding | null;
}

/** Memory of an entry besides its body, in bytes. */
const entryBytes = 300;

/**
 * A bounded cache of response bodies, with and without content coding.
 * @param bytesMax memory for bodies, at least 0
 */
export function openResponseCache(bytesMax: number, compress: CompressBody) {
  const cached = new LRUCache<string, Omit<ReadBody, 'tag'>>({
    maxSize: Math.max(1, Math.floor(bytesMax)),
    sizeCalculation: ({ body }) => body.length + entryBytes,
  });
  const waiting = createSharedWork<ReadBody>();
  const reading = createSharedWork<ReadBody>();
  const compressing = createSharedWork<Buffer>();
  // `shared`: waited for a read of another request.
  const counts = { hit: 0, miss: 0, shared: 0, notModified: 0 };

  async function loadPlain({ tag, signal, holder, semaphore, read }: BodyRequest): Promise<ReadBody> {
    let origin: 'hit' | 'miss' | 'shared' = 'shared';
    const findCached = (): ReadBody | undefined => {
      const found = cached.get(tag);
      if (found === undefined) return undefined;
      origin = 'hit';
      return { tag, ...found };
    };
    const readAndCache = async (shared: AbortSignal): Promise<ReadBody> => {
      origin = 'miss';
      const result = await read(shared);
      const { generation, body } = result;
      if (result.tag !== null) cached.set(result.tag, { generation, body });
      return result;
    };
    const result =
      findCached() ??
      // Equal requests of one holder wait for one permit. Those of several holders wait in their own queues, so that
      // holders take turns; the first that gets a permit reads for all.
      (await waiting(`${tag} ${holder}`, signal, async (shared) => {
        using _permit = await semaphore.acquire(shared);
        return findCached() ?? (await reading(tag, shared, readAndCache));
      }));
    counts[origin]++;
    return result;
  }

  async function compressPlain(
    { tag, generation, body }: ReadBody,
    coding: Coding,
    signal: AbortSignal,
  ): Promise<Buffer> {
    if (tag === null) return await compress(coding, body);
    return await compressing(toCodedTag(tag, coding), signal, async () => {
      const coded = await compress(coding, body);
      cached.set(toCodedTag(tag, coding), { generation, body: coded });
      return coded;
    });
  }

  return {
    /**
     * Returns a body from the cache, or reads, compresses and caches it. Concurrent requests for one body read it once. An
     * error is not cached.
     */
    async load(request: BodyRequest): Promise<LoadedBody> {
      const { tag, choice, signal } = request;
      const found = choice.coding === null ? undefined : cached.get(toCodedTag(tag, choice.coding));
      if (found !== undefined) {
        counts.hit++;
        return { tag, coding: choice.coding, ...found };
      }
      const plain = await loadPlain(request);
      const coding = selectBodyCoding(choice, plain.body.length);
      return coding === null
        ? { ...plain, coding }
        : { ...plain, coding, body: await compressPlain(plain, coding, signal) };
    },
    /** Forgets the bodies of other generations. */
    dropOthers(generation: number): void {
      for (const [tag, body] of [...cached.entries()]) if (body.generation !== generation) cached.delete(tag);
    },
    /** Counts a response without a body, 304. */
    countNotModified(): void {
      counts.notModified++;
    },
    /** Numbers of responses since the start, by origin, and the size of the cached bodies. */
    getCounts: () => ({ ...counts, bytes: cached.calculatedSize }),
  };
}

/** Work in progress, and the number of callers that wait for it. */
interface RunningWork<T> {
  readonly result: Promise<T>;
  readonly abort: AbortController;
  callers: number;
}

/**
 * Runs work once for concurrent callers with the same key. A caller whose signal is aborted leaves at once; the work is
 * aborted when the last one has left.
 */
export function createSharedWork<T>(): (
  key: string,
  signal: AbortSignal,
  work: (signal: AbortSignal) => Promise<T>,
) => Promise<T> {
  const running = new Map<string, RunningWork<T>>();

  function start(key: string, work: (signal: AbortSignal) => Promise<T>): RunningWork<T> {
    const abort = new AbortController();
    const started: RunningWork<T> = { result: work(abort.signal), abort, callers: 0 };
    running.set(key, started);
    const end = (): void => {
      if (running.get(key) === started) running.delete(key);
    };
    started.result.then(end, end);
    return started;
  }

  return async (key, signal, work) => {
    signal.throwIfAborted();
    const joined = running.get(key) ?? start(key, work);
    joined.callers++;
    const left = Promise.withResolvers<never>();
    const leave = (): void => {
      joined.callers--;
      if (joined.callers === 0) {
        // Later callers must not join work that is being aborted.
        if (running.get(key) === joined) running.delete(key);
        joined.abort.abort(signal.reason);
      }
      left.reject(signal.reason);
    };
    signal.addEventListener('abort', leave, { once: true });
    try {
      return await Promise.race([joined.result, left.promise]);
    } finally {
      signal.removeEventListener('abort', leave);
    }
  };
}
