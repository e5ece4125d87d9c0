import { computeThreadsMax, openWorkerPool } from '../../base/worker-threads.ts';
import type { PublishedFile } from '../format/manifest.ts';

/** Hashes published files in threads, some of them before they are asked for. */
export interface HashPrefetcher {
  /**
   * Whether the bytes at its place have the hash of the next of the files; false too where they cannot be read. To be
   * asked once for each file, in their order, one after the other.
   */
  isNextIntact(): Promise<boolean>;
  /** Ends the threads. */
  close(): Promise<void>;
}

/** Files in work or done before their turn, a thread. */
const prefetchPerThread = 8;

/** @param place where a file is at the moment; null where nothing there can be read */
export async function openHashPrefetcher(
  files: readonly PublishedFile[],
  place: (file: PublishedFile) => string | null,
): Promise<HashPrefetcher> {
  const count = Math.min(files.length, computeThreadsMax());
  const pool = await openWorkerPool('./hash-thread', import.meta.url, count);
  const ahead: Promise<boolean>[] = [];
  let begun = 0;
  let ended = false;

  async function isIntact(file: PublishedFile): Promise<boolean> {
    try {
      const path = place(file);
      return path !== null && (await pool.run('hashOf', path)) === file.sha256;
    } catch {
      return false;
    }
  }

  return {
    async isNextIntact() {
      if (ended) return false;
      while (begun < files.length && ahead.length < count * prefetchPerThread) ahead.push(isIntact(files[begun++]!));
      return (await ahead.shift()) ?? false;
    },
    async close() {
      ended = true;
      await pool.close();
    },
  };
}
