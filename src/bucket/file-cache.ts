import { createHash } from 'node:crypto';
import { lstatSync, mkdirSync, utimesSync } from 'node:fs';
import { join } from 'node:path';
import { type Disk, linkOrCopy, moveFile } from '../archive/disk/file-system.ts';
import type { PublishedFile } from '../archive/format/manifest.ts';
import { LockRefusedError } from '../archive/journal/lock.ts';
import { acquireLockedFolder, type LockedFolder } from '../archive/read/locked-folder.ts';
import { DiskFullError, UsageError } from '../base/errors.ts';
import type { Clock } from '../base/ports.ts';

// A cache folder holds files of any number of archives, for any number of processes:
//   files/SHA256     an entry: a file, under the hash of its content
//   readers/ID       the folder of a process, with hard links to the entries that it uses; readers/ID.held is its lock
// An entry is only ever added whole, by a rename, and removed. A process that has linked it can go on reading it.

/** What identifies the content of a file. */
type FileContent = Pick<PublishedFile, 'sha256' | 'bytes'>;

export interface FileCacheOptions {
  /** Absolute path. It is created if it is missing, for this user only. */
  readonly folder: string;
  /** The size of all entries that evictions keep to, in bytes. Entries in use stay, so that it may be exceeded. */
  readonly bytesMax: number;
  readonly disk: Disk;
  readonly clock: Clock;
  /** Distinguishes the readers of one process. */
  readonly id: string;
}

/** A cache of downloaded files that processes share, as one reader sees it. */
export type FileCache = ReturnType<typeof openFileCache>;

/**
 * Opens a cache folder for a reader, and removes the folders of readers whose process is gone.
 * @throws UsageError if the folder is not writable, DiskFullError if its disk is full; methods do too
 */
export function openFileCache(options: FileCacheOptions) {
  const { folder, bytesMax, disk, clock } = options;
  const filesFolder = toFilesFolder(folder);
  const reader = explainCacheErrors(folder, () => openReader(options));
  let drafts = 0;

  function makeRoom(bytes: number): void {
    const entries = listEntries(disk, filesFolder);
    let excess = entries.reduce((sum, entry) => sum + entry.bytes, bytes) - bytesMax;
    const unused = entries.filter(({ isUsed }) => !isUsed).sort((a, b) => a.usedAt - b.usedAt);
    for (const { path, bytes: freed } of unused) {
      if (excess <= 0) return;
      disk.remove(path);
      excess -= freed;
    }
  }

  return {
    /** Folder for the links and the other files of this reader. `release` removes it. */
    folder: reader.folder,
    /**
     * Links an entry to `target`, whose folder exists, after a check of its size and hash. False if there is none, or it is
     * damaged; `add` then replaces it.
     */
    async take(file: FileContent, target: string): Promise<boolean> {
      const entry = join(filesFolder, file.sha256);
      const isLinked = explainCacheErrors(folder, () => {
        if (!disk.isFile(entry) || disk.isLink(entry) || disk.size(entry) !== file.bytes) return false;
        try {
          linkOrCopy(disk, entry, target);
          return true;
        } catch (error) {
          // Another process has removed it.
          if ((error as NodeJS.ErrnoException).code === 'ENOENT') return false;
          throw error;
        }
      });
      if (!isLinked) return false;
      // The link is checked, not the entry, which another process may replace meanwhile.
      if ((await hashFile(disk, target)) === file.sha256) {
        recordUse(entry, clock.nowMs());
        return true;
      }
      disk.remove(target);
      return false;
    },
    /** Adds an entry and links it to `target`. The bytes must have been checked. */
    add({ sha256: hash }: FileContent, bytes: Uint8Array, target: string) {
      explainCacheErrors(folder, () => {
        const draft = join(toDraftsFolder(reader), `${++drafts}`);
        disk.write(draft, bytes);
        recordUse(draft, clock.nowMs());
        // Before the rename: an entry may be removed at once.
        linkOrCopy(disk, draft, target);
        const entry = join(filesFolder, hash);
        // A rename replaces a damaged file or a link, but no folder.
        if (disk.isFolder(entry) && !disk.isLink(entry)) disk.remove(entry);
        moveFile(disk, draft, entry);
      });
    },
    /**
     * Removes the entries that were not used for longest, until there is room for more bytes. Entries in use stay: removing
     * them would free nothing.
     */
    makeRoom: (bytes: number) => explainCacheErrors(folder, () => makeRoom(bytes)),
    /** Ends the use of all entries. */
    release() {
      reader.release();
      try {
        // Entries that were in use may be too many now.
        makeRoom(0);
      } catch {
        // The result of the command does not depend on it, and the next command does it again.
      }
    },
  };
}

/** The folder of a reader, with a folder for its downloads. */
function openReader({ folder, disk, id }: FileCacheOptions): LockedFolder {
  // The objects of a private bucket are not for other users.
  for (const path of [toFilesFolder(folder), toReadersFolder(folder)])
    mkdirSync(path, { recursive: true, mode: 0o700 });
  const reader = acquireLockedFolder(disk, toReadersFolder(folder), id);
  try {
    disk.makeVolatileFolder(toDraftsFolder(reader));
    return reader;
  } catch (error) {
    reader.release();
    throw error;
  }
}

const toFilesFolder = (folder: string): string => join(folder, 'files');
const toReadersFolder = (folder: string): string => join(folder, 'readers');
const toDraftsFolder = (reader: LockedFolder): string => join(reader.folder, 'downloads');

interface CacheEntry {
  readonly path: string;
  readonly bytes: number;
  /** Epoch ms. */
  readonly usedAt: number;
  /** Whether a reader has linked it. */
  readonly isUsed: boolean;
}

const listEntries = (disk: Disk, folder: string): CacheEntry[] =>
  disk.list(folder).flatMap((name) => {
    const path = join(folder, name);
    // Another process may remove it meanwhile.
    const stats = lstatSync(path, { throwIfNoEntry: false });
    return stats?.isFile() === true
      ? [{ path, bytes: stats.size, usedAt: stats.atimeMs, isUsed: stats.nlink > 1 }]
      : [];
  });

/**
 * Records a use in the access time, which file systems may not do by themselves. The modification time keeps its value:
 * to a reader of a link, another one means that the file was changed.
 */
function recordUse(path: string, nowMs: number): void {
  try {
    utimesSync(path, nowMs / 1000, Math.floor(lstatSync(path).mtimeMs / 1000));
  } catch {
    // Another process has removed it, or it is another user's. It may be evicted too early then, and that is all.
  }
}

async function hashFile(disk: Disk, path: string): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of disk.readStream(path)) hash.update(chunk);
  return hash.digest('hex');
}

const refusedCodes = new Set(['EACCES', 'EPERM', 'EROFS', 'ENOTDIR', 'EEXIST']);

/** Says which folder is meant, and which setting names another. */
function explainCacheErrors<T>(folder: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (error instanceof DiskFullError || toErrorCode(error) === 'ENOSPC')
      throw new DiskFullError(
        `The disk of the cache folder ${folder} is full. Free some space, or name a folder on another disk with the setting bucket.cache_dir.`,
        { cause: error },
      );
    if (error instanceof LockRefusedError || refusedCodes.has(toErrorCode(error)))
      throw new UsageError(
        `The cache folder ${folder} cannot be written to. Name another folder with the setting bucket.cache_dir.`,
        { cause: error },
      );
    throw error;
  }
}

const toErrorCode = (error: unknown): string =>
  String((((error as Error).cause ?? error) as NodeJS.ErrnoException).code);
