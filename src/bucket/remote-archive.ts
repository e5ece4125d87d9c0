import { dirname, join } from 'node:path';
import type { Archive } from '../archive/archive.ts';
import type { Disk } from '../archive/disk/file-system.ts';
import { manifestName } from '../archive/format/layout.ts';
import type { PublishedFile } from '../archive/format/manifest.ts';
import { openArchive } from '../archive/open-archive.ts';
import { formatRootFiles } from '../archive/publish/commit.ts';
import { forEachConcurrent } from '../base/for-each-concurrent.ts';
import type { Clock } from '../base/ports.ts';
import { type RemoteManifest, restoreArchiveText, type StoredFile, toFileId } from './bucket-manifest.ts';
import { type FileCache, openFileCache } from './file-cache.ts';
import type { ObjectStore } from './object-store.ts';
import { downloadFile, downloadsConcurrent, parseLocalManifest, requireRemoteManifest } from './pull.ts';

export interface RemoteArchiveOptions {
  readonly disk: Disk;
  readonly clock: Clock;
  readonly writer: string;
  readonly cacheFolder: string;
  /** See `FileCacheOptions.bytesMax`. */
  readonly cacheBytesMax: number;
  /** Distinguishes the archives that this process has open. */
  readonly id: string;
  readonly signal: AbortSignal;
  /** Shows the progress of a download, in files. */
  readonly showProgress: (work: (onProgress: (done: number, total: number) => void) => Promise<void>) => Promise<void>;
}

/** A generation in a bucket, opened for reading. */
interface RemoteArchive {
  /** Its `fetchFiles` has to be called before a file is read, except for those of `stateDatasets`. */
  readonly archive: Archive;
  /** Closes the archive and removes its folder. */
  close(): void;
}

/** The datasets from which the state is rebuilt. Their files are fetched first. */
const stateDatasets = ['symbols', 'markets', 'coverage'] as const;

/**
 * Opens the generation that a bucket has now, for reading. It is a local archive in the folder of this process in the cache:
 * the manifest, the state rebuilt from it, and links to the cached files. Other generations that are pushed meanwhile do not
 * change it.
 * @throws UsageError if there is no archive, or the cache folder cannot be written to
 * @throws DamageError if an object is missing or differs
 */
export async function openRemoteArchive(store: ObjectStore, options: RemoteArchiveOptions): Promise<RemoteArchive> {
  const remote = await requireRemoteManifest(store);
  const manifest = parseLocalManifest(remote);
  const { disk, clock, writer, cacheFolder, cacheBytesMax, id } = options;
  const cache = openFileCache({ folder: cacheFolder, bytesMax: cacheBytesMax, disk, clock, id });
  try {
    const root = join(cache.folder, 'archive');
    const fetchFiles = createFetcher(store, remote, cache, root, options);
    await fetchFiles(stateDatasets.flatMap((name) => manifest.datasets[name].files));
    disk.makeVolatileFolder(root);
    const texts = { ...formatRootFiles(manifest), [manifestName]: restoreArchiveText(remote.text) };
    for (const [name, text] of Object.entries(texts)) disk.write(join(root, name), Buffer.from(text, 'utf8'));
    const archive = openArchive({ root, create: false, upstream: null, writer, name: store.url, fetchFiles }, disk);
    return {
      archive,
      close() {
        archive.close();
        cache.release();
      },
    };
  } catch (error) {
    cache.release();
    throw error;
  }
}

/** Creates `Archive.fetchFiles`. Several calls at once wait for each other, so that no file is downloaded twice. */
function createFetcher(
  store: ObjectStore,
  { files: stored }: RemoteManifest,
  cache: FileCache,
  root: string,
  options: RemoteArchiveOptions,
): (files: readonly PublishedFile[]) => Promise<void> {
  const objects = new Map(stored.map((file) => [toFileId(file), file]));
  const fetched = new Set<string>();
  let previous: Promise<void> = Promise.resolve();
  return (files) => {
    const current = previous.then(async () => {
      const wanted = files.filter(({ path }) => !fetched.has(path)).map((file) => objects.get(toFileId(file))!);
      await fetchThroughCache(store, cache, root, wanted, options, ({ path }) => fetched.add(path));
    });
    // Its caller has the error.
    previous = current.catch(() => {});
    return current;
  };
}

/** Links files below a root: those that the cache has, and the others once they are downloaded into it. */
async function fetchThroughCache(
  store: ObjectStore,
  cache: FileCache,
  root: string,
  files: readonly StoredFile[],
  { disk, signal, showProgress }: RemoteArchiveOptions,
  onFetched: (file: StoredFile) => void,
): Promise<void> {
  const toTarget = ({ path }: StoredFile): string => join(root, path);

  async function tryCache(file: StoredFile): Promise<boolean> {
    signal.throwIfAborted();
    disk.makeVolatileFolder(dirname(toTarget(file)));
    const isCached = await cache.take(file, toTarget(file));
    if (isCached) onFetched(file);
    return isCached;
  }

  if (files.length === 0) return;
  // Cached files count too: hashing them takes time.
  await showProgress(async (onProgress) => {
    let done = 0;
    onProgress(0, files.length);
    const missing: StoredFile[] = [];
    for (const file of files) {
      if (await tryCache(file)) onProgress(++done, files.length);
      else missing.push(file);
    }
    // Files without rows are often equal: one download is enough.
    const groups = [...Map.groupBy(missing, ({ sha256 }) => sha256).values()];
    cache.makeRoom(groups.reduce((sum, [file]) => sum + file!.bytes, 0));
    await forEachConcurrent(downloadsConcurrent, groups, async (group) => {
      for (const [i, file] of group.entries()) {
        signal.throwIfAborted();
        if (i === 0 || !(await tryCache(file))) {
          cache.add(file, await downloadFile(store, file), toTarget(file));
          onFetched(file);
        }
        onProgress(++done, files.length);
      }
    });
  });
}
