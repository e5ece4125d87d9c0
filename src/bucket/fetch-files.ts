import { dirname } from 'node:path';
import type { Disk } from '../archive/disk/file-system.ts';
import { forEachConcurrent } from '../base/for-each-concurrent.ts';
import type { FileCache, FileContent } from './file-cache.ts';

/** A file of known content that is wanted on this machine. */
export interface WantedFile extends FileContent {
  /** Where: a path in the folder of the cache's reader. Its folder is created. */
  readonly target: string;
}

export interface FetchOptions<F> {
  /** Returns the bytes of a file, which it has checked. */
  download(file: F): Promise<Uint8Array>;
  /** Called for each file once it is there. */
  onFetched?(file: F): void;
  /** The number of downloads at a time. */
  readonly concurrency: number;
  readonly disk: Disk;
  readonly signal: AbortSignal;
  /** Shows the progress, in files. */
  readonly showProgress: (work: (onProgress: (done: number, total: number) => void) => Promise<void>) => Promise<void>;
}

/** Puts files where they are wanted: from the cache if it has them, otherwise downloads, which the cache keeps. */
export async function fetchThroughCache<F extends WantedFile>(
  cache: FileCache,
  files: readonly F[],
  { download, onFetched = () => {}, concurrency, disk, signal, showProgress }: FetchOptions<F>,
): Promise<void> {
  async function tryCache(file: F): Promise<boolean> {
    signal.throwIfAborted();
    disk.makeVolatileFolder(dirname(file.target));
    const isCached = await cache.take(file, file.target);
    if (isCached) onFetched(file);
    return isCached;
  }

  if (files.length === 0) return;
  // Cached files count too: hashing them takes time.
  await showProgress(async (onProgress) => {
    let done = 0;
    onProgress(0, files.length);
    const missing: F[] = [];
    for (const file of files) {
      if (await tryCache(file)) onProgress(++done, files.length);
      else missing.push(file);
    }
    // Files without rows are often equal: one download is enough.
    const groups = [...Map.groupBy(missing, ({ sha256 }) => sha256).values()];
    cache.makeRoom(groups.reduce((sum, [file]) => sum + file!.bytes, 0));
    await forEachConcurrent(concurrency, groups, async (group) => {
      for (const [i, file] of group.entries()) {
        signal.throwIfAborted();
        if (i === 0 || !(await tryCache(file))) {
          cache.add(file, await download(file), file.target);
          onFetched(file);
        }
        onProgress(++done, files.length);
      }
    });
  });
}
