import { computeThreadsMax, openWorkerPool } from '../../base/worker-threads.ts';
import type { PublishedFile } from '../format/manifest.ts';

/** Hashes published files on worker threads, ahead of the caller. */
export interface HashPrefetcher {
  /**
   * Whether the next file matches its recorded hash; false if it cannot be read. Call once per file, in order; calls
   * must not overlap.
   */
  isNextIntact(): Promise<boolean>;
  /** Ends the threads. */
  close(): Promise<void>;
}

/** Files hashed or queued ahead, per thread. */
const prefetchPerThread = 8;

/** @param getPath returns the current path of a file; null if it cannot be read */
export async function openHashPrefetcher(
  files: readonly PublishedFile[],
  getPath: (file: PublishedFile) => string | null,
): Promise<HashPrefetcher> {
  const count = Math.min(files.length, computeThreadsMax());
  const pool = await openWorkerPool('./hash-thread', import.meta.url, count);
  const prefetched: Promise<boolean>[] = [];
  let started = 0;
  let isClosed = false;

  async function isIntact(file: PublishedFile): Promise<boolean> {
    try {
      const path = getPath(file);
      return path !== null && (await pool.run('hashFile', path)) === file.sha256;
    } catch {
      return false;
    }
  }

  return {
    async isNextIntact() {
      if (isClosed) return false;
      while (started < files.length && prefetched.length < count * prefetchPerThread)
        prefetched.push(isIntact(files[started++]!));
      return (await prefetched.shift()) ?? false;
    },
    async close() {
      isClosed = true;
      await pool.close();
    },
  };
}
