import { createHash } from 'node:crypto';
import {
  chownSync,
  closeSync,
  createReadStream,
  fsync,
  fsyncSync,
  linkSync,
  lstatSync,
  mkdirSync,
  openSync,
  readdirSync,
  readFileSync,
  realpathSync,
  renameSync,
  rmdirSync,
  type Stats,
  statfsSync,
  statSync,
  unlinkSync,
  writeSync,
} from 'node:fs';
import { basename, dirname, join, resolve, sep } from 'node:path';
import { promisify } from 'node:util';
import { DiskFullError, exitCodes, OddslakeError } from '../../base/errors.ts';

/**
 * The system calls that change an archive on disk. A file's contents are durable only after `sync` on the file; its
 * name is durable only after `sync` on its folder. Errors carry the system's error `code`.
 */
export interface FileSystemCalls {
  /** Creates or truncates a file. */
  create(path: string): number;
  /** Appends and returns the number of bytes written, at least one. */
  write(file: number, bytes: Uint8Array): number;
  openFolder(path: string): number;
  sync(file: number): void;
  close(file: number): void;
  rename(from: string, to: string): void;
  link(from: string, to: string): void;
  unlink(path: string): void;
  makeFolder(path: string): void;
  /** Removes an empty folder. */
  removeFolder(path: string): void;
}

export const systemCalls: FileSystemCalls = {
  create: (path) => openSync(path, 'w'),
  write: (file, bytes) => writeSync(file, bytes),
  openFolder: (path) => openSync(path, 'r'),
  sync: (file) => fsyncSync(file),
  close: (file) => closeSync(file),
  rename: (from, to) => renameSync(from, to),
  link: (from, to) => linkSync(from, to),
  unlink: (path) => unlinkSync(path),
  makeFolder(path) {
    mkdirSync(path);
    if (process.geteuid?.() !== 0) return;
    // Root reads archives of others: its folder for that must not keep the owner from reading.
    const { uid, gid } = statSync(dirname(path));
    if (uid !== 0) chownSync(path, uid, gid);
  },
  removeFolder: (path) => rmdirSync(path),
};

export type StartSync = (file: number) => Promise<void>;

/** All file system operations of the archive. Writes are durable when a call returns, unless stated otherwise. */
export interface Disk {
  read(path: string): Uint8Array;
  /** Size in bytes; null if there is no such file. */
  size(path: string): number | null;
  /** A string that changes when the file at this path is replaced or written; null if there is none. */
  stamp(path: string): string | null;
  /** Reads a file from start to end, in chunks of several hundred kilobytes. */
  readStream(path: string): AsyncIterable<Uint8Array>;
  isFolder(path: string): boolean;
  /** Whether it is a regular file, not a folder, device or pipe. */
  isFile(path: string): boolean;
  /** Names in a folder, sorted; empty if it is missing or not a folder. */
  list(path: string): string[];
  isLink(path: string): boolean;
  /** Creates or replaces a file and syncs it, but not its folder. */
  write(path: string, bytes: Uint8Array | Iterable<Uint8Array>): void;
  /**
   * Creates or replaces a file, which can be read from then on. It is durable, but not its name, when the promise is
   * fulfilled: the disk works meanwhile.
   * @throws Error if the file cannot be written. The promise is rejected if it cannot be synced
   */
  writeInBackground(path: string, bytes: Uint8Array | Iterable<Uint8Array>): Promise<void>;
  /** Writes and syncs a file as `write` does, of chunks that arrive asynchronously. */
  writeStream(path: string, pieces: AsyncIterable<Uint8Array>): Promise<void>;
  /** Creates a folder and its missing parents, and syncs the parent of each. */
  makeFolder(path: string): void;
  /** Creates several folders as `makeFolder` does, but syncs each parent once. */
  makeFolders(paths: readonly string[]): void;
  /** Creates a folder that may be lost in a crash. */
  makeVolatileFolder(path: string): void;
  /** Replaces `to` atomically. Durable only after `syncFolder` of both folders. */
  rename(from: string, to: string): void;
  link(from: string, to: string): void;
  /** The absolute path with symbolic links resolved, as far as it exists. */
  realPath(path: string): string;
  syncFolder(path: string): void;
  /** Syncs a folder while other work goes on. */
  syncFolderInBackground(path: string): Promise<void>;
  /** Removes a file, or a folder with its contents. Does nothing if it is missing. */
  remove(path: string): void;
}

const readStreamBytes = 512 * 1024;

function syncFolder(calls: FileSystemCalls, path: string): void {
  const folder = calls.openFolder(path);
  try {
    calls.sync(folder);
  } finally {
    calls.close(folder);
  }
}

function writeWhole(calls: FileSystemCalls, file: number, piece: Uint8Array): void {
  for (let at = 0; at < piece.length; ) at += calls.write(file, piece.subarray(at));
}

/**
 * A killed process may leave an empty folder unsynced, but a folder's name is always synced before anything is put
 * into it.
 */
function syncEmpty(calls: FileSystemCalls, path: string): void {
  if (readdirSync(path).length > 0) return;
  try {
    syncFolder(calls, dirname(path));
  } catch (error) {
    // A parent that this user cannot open was not created by this program.
    if ((error as NodeJS.ErrnoException).code !== 'EACCES') throw error;
  }
}

function createFolder(calls: FileSystemCalls, path: string): void {
  try {
    calls.makeFolder(path);
  } catch (error) {
    // Another process may have created it first.
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    requireLinkTarget(path);
  }
}

/** Creates the missing folders from the root down, so that a folder's name is synced before anything is put into it. */
function makeFolders(calls: FileSystemCalls, paths: readonly string[]): void {
  const missing = new Set<string>();
  const existing = new Set<string>();
  const addMissing = (path: string): void => {
    if (missing.has(path) || existing.has(path)) return;
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) {
      existing.add(path);
      return;
    }
    addMissing(dirname(path));
    missing.add(path);
  };
  for (const path of paths) explainDiskErrors('create', path, () => addMissing(path));
  for (const path of existing) explainDiskErrors('sync', path, () => syncEmpty(calls, path));
  const levels = Map.groupBy(missing, (path) => path.split(sep).length);
  for (const [, level] of [...levels].sort(([a], [b]) => a - b)) {
    for (const path of level) {
      explainDiskErrors('create', path, () => createFolder(calls, path));
    }
    for (const parent of new Set(level.map((path) => dirname(path))))
      explainDiskErrors('sync', parent, () => syncFolder(calls, parent));
  }
}

function makeScratch(calls: FileSystemCalls, path: string): void {
  if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
  makeScratch(calls, dirname(path));
  try {
    calls.makeFolder(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Another process may remove the same path concurrently. */
function remove(calls: FileSystemCalls, path: string): void {
  const stats = lstatSync(path, { throwIfNoEntry: false });
  if (stats === undefined) return;
  try {
    if (stats.isDirectory()) {
      for (const name of readdirSync(path).sort()) remove(calls, join(path, name));
      calls.removeFolder(path);
    } else calls.unlink(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
}

async function syncAndClose(
  calls: FileSystemCalls,
  startSync: StartSync,
  operation: string,
  path: string,
  file: number,
): Promise<void> {
  try {
    await startSync(file);
  } catch (error) {
    explainDiskErrors(operation, path, () => {
      throw error;
    });
  } finally {
    calls.close(file);
  }
}

/**
 * Creates a disk that makes all its changes through `calls`, in order.
 * @param startSync syncs files in the background; by default at once, through `calls`
 */
export function createDisk(calls: FileSystemCalls, startSync: StartSync = async (file) => calls.sync(file)): Disk {
  return {
    ...diskReads,
    write: (path, bytes) =>
      explainDiskErrors('write', path, () => {
        const file = calls.create(path);
        try {
          for (const piece of bytes instanceof Uint8Array ? [bytes] : bytes) writeWhole(calls, file, piece);
          calls.sync(file);
        } finally {
          calls.close(file);
        }
      }),
    writeInBackground(path, bytes) {
      const file = explainDiskErrors('write', path, () => calls.create(path));
      try {
        explainDiskErrors('write', path, () => {
          for (const piece of bytes instanceof Uint8Array ? [bytes] : bytes) writeWhole(calls, file, piece);
        });
      } catch (error) {
        calls.close(file);
        throw error;
      }
      return syncAndClose(calls, startSync, 'write', path, file);
    },
    async writeStream(path, pieces) {
      const file = explainDiskErrors('write', path, () => calls.create(path));
      try {
        for await (const piece of pieces) explainDiskErrors('write', path, () => writeWhole(calls, file, piece));
        explainDiskErrors('write', path, () => calls.sync(file));
      } finally {
        calls.close(file);
      }
    },
    makeFolder: (path) => makeFolders(calls, [path]),
    makeFolders: (paths) => makeFolders(calls, paths),
    makeVolatileFolder: (path) => explainDiskErrors('create', path, () => makeScratch(calls, path)),
    rename: (from, to) => explainDiskErrors('rename', `${from} to ${to}`, () => calls.rename(from, to)),
    link: (from, to) => explainDiskErrors('link', `${from} to ${to}`, () => calls.link(from, to)),
    syncFolder: (path) => explainDiskErrors('sync', path, () => syncFolder(calls, path)),
    syncFolderInBackground: (path) =>
      syncAndClose(
        calls,
        startSync,
        'sync',
        path,
        explainDiskErrors('sync', path, () => calls.openFolder(path)),
      ),
    remove: (path) => explainDiskErrors('remove', path, () => remove(calls, path)),
  };
}

type DiskReadMethod = 'read' | 'size' | 'stamp' | 'readStream' | 'isFolder' | 'isFile' | 'list' | 'isLink' | 'realPath';

const diskReads: Pick<Disk, DiskReadMethod> = {
  read: (path) => explainDiskErrors('read', path, () => readFileSync(path)),
  size: (path) => explainDiskErrors('access', path, () => statIfExists(path)?.size ?? null),
  stamp: (path) =>
    explainDiskErrors('access', path, () => {
      if (statIfExists(path) === undefined) return null;
      const stats = statSync(path, { throwIfNoEntry: false, bigint: true });
      return stats === undefined ? null : `${stats.dev}:${stats.ino}:${stats.size}:${stats.mtimeNs}`;
    }),
  readStream: (path) => createReadStream(path, { highWaterMark: readStreamBytes }),
  isFolder: (path) => explainDiskErrors('access', path, () => statIfExists(path)?.isDirectory() ?? false),
  isFile: (path) => explainDiskErrors('access', path, () => statIfExists(path)?.isFile() ?? false),
  list: (path) =>
    explainDiskErrors('list', path, () => (statIfExists(path)?.isDirectory() ? readdirSync(path).sort() : [])),
  isLink: (path) =>
    explainDiskErrors('access', path, () => lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false),
  realPath,
};

/** Also undefined for a cycle of symbolic links. */
function statIfExists(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ELOOP') return undefined;
    throw error;
  }
}

/** Throws if `path` is a symbolic link whose target is missing, for example on a disk that is not mounted. */
function requireLinkTarget(path: string): void {
  if (statIfExists(path) !== undefined || lstatSync(path, { throwIfNoEntry: false }) === undefined) return;
  throw new OddslakeError(
    exitCodes.unexpected,
    `${path} is a symbolic link whose target does not exist. Restore the target (is its disk mounted?) and run again; no accepted data is lost.`,
  );
}

/** The file system of this machine. */
export const systemDisk: Disk = createDisk(systemCalls, promisify(fsync));

function realPath(path: string): string {
  const absolute = resolve(path);
  if (statSync(absolute, { throwIfNoEntry: false }) !== undefined) return realpathSync(absolute);
  return join(realPath(dirname(absolute)), basename(absolute));
}

function explainDiskErrors<T>(operation: string, path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const { code = '' } = error as NodeJS.ErrnoException;
    const what = `${operation} ${path}`;
    if (['ENOSPC', 'EDQUOT'].includes(code)) {
      const message = `The disk is full: could not ${what}. Free some space and run again; no accepted data is lost.`;
      throw new DiskFullError(message, { cause: error });
    }
    const message =
      code === 'EIO'
        ? `The disk failed: could not ${what}. Check the disk and run again; no accepted data is lost.`
        : ['EACCES', 'EPERM', 'EROFS'].includes(code)
          ? `Not allowed to ${what}. Check owners and permissions, and whether a file is immutable or its file system read-only.`
          : null;
    if (message !== null) throw new OddslakeError(exitCodes.unexpected, message, { cause: error });
    throw error;
  }
}

/** SHA-256 in lowercase hexadecimal, as in the manifest and SHA256SUMS. */
export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

// A folder of the archive may be a link to another file system. Files cannot be renamed or hard-linked across file
// systems, so they are copied there; otherwise a committed publish could never finish.

/**
 * Path of the temporary copy of a file that comes from another file system. It is in the target's folder, under a name
 * that no reader's glob matches.
 */
export const toTemporaryPath = (path: string): string => join(dirname(path), `.${basename(path)}.next`);

/**
 * Moves a file to `to`, replacing it atomically. Durable only after `syncFolder` of that folder. If the file has to be
 * copied, `from` stays in place for its readers. May be repeated.
 */
export function moveFile(disk: Disk, from: string, to: string): void {
  try {
    disk.rename(from, to);
  } catch (error) {
    if (!isCrossDeviceError(error)) throw error;
    const draft = toTemporaryPath(to);
    try {
      disk.write(draft, disk.read(from));
      disk.rename(draft, to);
    } catch (copyError) {
      disk.remove(draft);
      throw copyError;
    }
  }
}

/** Hard-links a file. If that is not possible, copies it and returns false. The copy is synced, but not its folder. */
export function linkOrCopy(disk: Disk, from: string, to: string): boolean {
  if (tryLink(disk, from, to)) return true;
  disk.write(to, disk.read(from));
  return false;
}

/**
 * Returns false if the paths are on different file systems, hard links are not supported, or the file has too many of
 * them.
 */
export function tryLink(disk: Disk, from: string, to: string): boolean {
  try {
    disk.link(from, to);
    return true;
  } catch (error) {
    if (linkFallbackCodes.has(toErrorCode(error))) return false;
    throw error;
  }
}

/** Whether a rename or link failed because it crosses file systems. */
export const isCrossDeviceError = (error: unknown): boolean => toErrorCode(error) === 'EXDEV';

const linkFallbackCodes = new Set(['EXDEV', 'EPERM', 'ENOTSUP', 'EMLINK']);

const toErrorCode = (error: unknown): string =>
  (((error as Error).cause ?? error) as NodeJS.ErrnoException | undefined)?.code ?? '';

/** Space of a file system in bytes: available to this user, and in total. */
export interface DiskSpace {
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/**
 * Reads the space of the file system that contains a path; null if it does not report any, as some network file systems
 * do.
 */
export function readDiskSpace(path: string): DiskSpace | null {
  try {
    const { bavail, blocks, bsize } = statfsSync(path);
    return blocks > 0 ? { freeBytes: bavail * bsize, totalBytes: blocks * bsize } : null;
  } catch {
    return null;
  }
}
