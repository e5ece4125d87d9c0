import { join } from 'node:path';
import type { Archive } from '../archive/archive.ts';
import type { Disk } from '../archive/disk/file-system.ts';
import { manifestName } from '../archive/format/layout.ts';
import type { PublishedFile } from '../archive/format/manifest.ts';
import { openArchive } from '../archive/open-archive.ts';
import { formatRootFiles } from '../archive/publish/commit.ts';
import type { Clock } from '../base/ports.ts';
import { type RemoteManifest, restoreArchiveText, toFileId } from './bucket-manifest.ts';
import { type FetchOptions, fetchThroughCache } from './fetch-files.ts';
import { type FileCache, openFileCache } from './file-cache.ts';
import type { ObjectStore } from './object-store.ts';
import { downloadFile, downloadsConcurrent, parseLocalManifest, requireRemoteManifest } from './pull.ts';

export interface RemoteArchiveOptions {
  readonly disk: Disk;
  readonly clock: Clock;
  readonly writer: string;
  /** How long after a window's end a response must be generated to be final, in ms. */
  readonly settleMs: number;
  readonly cacheFolder: string;
  /** See `FileCacheOptions.bytesMax`. */
  readonly cacheBytesMax: number;
  /** Distinguishes the archives that this process has open. */
  readonly id: string;
  readonly signal: AbortSignal;
  readonly showProgress: FetchOptions<unknown>['showProgress'];
}

/** A generation in a bucket, opened for reading. */
export interface RemoteArchive {
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
  const { disk, clock, writer, settleMs, cacheFolder, cacheBytesMax, id } = options;
  const cache = openFileCache({ folder: cacheFolder, bytesMax: cacheBytesMax, disk, clock, id });
  try {
    const root = join(cache.folder, 'archive');
    const fetchFiles = createFetcher(store, remote, cache, root, options);
    await fetchFiles(stateDatasets.flatMap((name) => manifest.datasets[name].files));
    disk.makeVolatileFolder(root);
    const texts = { ...formatRootFiles(manifest), [manifestName]: restoreArchiveText(remote.text) };
    for (const [name, text] of Object.entries(texts)) disk.write(join(root, name), Buffer.from(text, 'utf8'));
    const { parts } = manifest;
    const archive = openArchive(
      { root, create: false, upstream: null, parts, writer, settleMs, name: store.url, fetchFiles },
      disk,
    );
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
  { disk, signal, showProgress }: RemoteArchiveOptions,
): (files: readonly PublishedFile[]) => Promise<void> {
  const objects = new Map(stored.map((file) => [toFileId(file), file]));
  const fetched = new Set<string>();

  const fetchNow = (files: readonly PublishedFile[]): Promise<void> => {
    const wanted = files
      .filter(({ path }) => !fetched.has(path))
      .map((file) => ({ ...objects.get(toFileId(file))!, target: join(root, file.path) }));
    return fetchThroughCache(cache, wanted, {
      download: (file) => downloadFile(store, file),
      onFetched: ({ path }) => fetched.add(path),
      concurrency: downloadsConcurrent,
      disk,
      signal,
      showProgress,
    });
  };

  let previous: Promise<void> = Promise.resolve();
  return (files) => {
    const current = previous.then(() => fetchNow(files));
    // Its caller has the error.
    previous = current.catch(() => {});
    return current;
  };
}
