import { createHash } from 'node:crypto';
import {
  createReadStream,
  lstatSync,
  readdirSync,
  readFileSync,
  realpathSync,
  type Stats,
  statfsSync,
  statSync,
} from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { DiskFullError, exitCodes, OddslakeError } from '../../base/errors.ts';
import { type FileSystemCalls, systemCalls } from './syscalls.ts';

/** Everything the archive does to a file system. What it writes is durable when a call returns, unless said otherwise. */
export interface Disk {
  read(path: string): Uint8Array;
  /** Null where there is no such file. */
  size(path: string): number | null;
  /** Differs once a file at this path is another one, or was written to; null where there is none. */
  stamp(path: string): string | null;
  /** A file from its beginning to its end, some hundred kilobytes at a time. */
  readStream(path: string): AsyncIterable<Uint8Array>;
  isFolder(path: string): boolean;
  /** A regular file, that is: no folder, device or pipe. */
  isFile(path: string): boolean;
  /** Names in a folder, sorted; none where it is missing, or no folder. */
  list(path: string): string[];
  isLink(path: string): boolean;
  /** Creates or replaces a file, whole or piece by piece, and syncs it; not its folder. */
  write(path: string, bytes: Uint8Array | Iterable<Uint8Array>): void;
  /** The same for pieces that come as they are ready. */
  writeStream(path: string, pieces: AsyncIterable<Uint8Array>): Promise<void>;
  /** Makes a folder and those above it, each synced into its parent. */
  makeFolder(path: string): void;
  /** Makes a folder that need not outlive a crash. */
  makeVolatileFolder(path: string): void;
  /** Replaces `to` at once; durable only after `syncFolder` of both folders. */
  rename(from: string, to: string): void;
  link(from: string, to: string): void;
  /** The path without symbolic links in it, as far as it is there; absolute. */
  realPath(path: string): string;
  syncFolder(path: string): void;
  /** Removes a file or a folder with all that is in it; nothing where it is missing. */
  remove(path: string): void;
}

const readStreamBytes = 512 * 1024;

/** A disk whose every change is one of these calls, in the order in which it is made. */
export function createDisk(calls: FileSystemCalls): Disk {
  const syncFolder = (path: string): void => {
    const folder = calls.openFolder(path);
    try {
      calls.sync(folder);
    } finally {
      calls.close(folder);
    }
  };
  function writeWhole(file: number, piece: Uint8Array): void {
    for (let at = 0; at < piece.length; ) at += calls.write(file, piece.subarray(at));
  }
  /** An empty one may be what a killed process made and did not sync: nothing is put into one before its name is durable. */
  function syncEmpty(path: string): void {
    if (readdirSync(path).length > 0) return;
    try {
      syncFolder(dirname(path));
    } catch (error) {
      // Where we may not even look, we have made nothing.
      if ((error as NodeJS.ErrnoException).code !== 'EACCES') throw error;
    }
  }
  function makeFolder(path: string): void {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) {
      syncEmpty(path);
      return;
    }
    makeFolder(dirname(path));
    try {
      calls.makeFolder(path);
    } catch (error) {
      // Another process may have been quicker.
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
      requireLinkTarget(path);
    }
    syncFolder(dirname(path));
  }
  function makeScratch(path: string): void {
    if (statSync(path, { throwIfNoEntry: false })?.isDirectory()) return;
    makeScratch(dirname(path));
    try {
      calls.makeFolder(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    }
  }
  /** Another process may remove the same at the same time. */
  function remove(path: string): void {
    const found = lstatSync(path, { throwIfNoEntry: false });
    if (found === undefined) return;
    try {
      if (found.isDirectory()) {
        for (const name of readdirSync(path).sort()) remove(join(path, name));
        calls.removeFolder(path);
      } else calls.unlink(path);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
  }
  return {
    ...diskReads,
    write: (path, bytes) =>
      explainDiskErrors('write', path, () => {
        const file = calls.create(path);
        try {
          for (const piece of bytes instanceof Uint8Array ? [bytes] : bytes) writeWhole(file, piece);
          calls.sync(file);
        } finally {
          calls.close(file);
        }
      }),
    async writeStream(path, pieces) {
      const file = explainDiskErrors('write', path, () => calls.create(path));
      try {
        for await (const piece of pieces) explainDiskErrors('write', path, () => writeWhole(file, piece));
        explainDiskErrors('write', path, () => calls.sync(file));
      } finally {
        calls.close(file);
      }
    },
    makeFolder: (path) => explainDiskErrors('make', path, () => makeFolder(path)),
    makeVolatileFolder: (path) => explainDiskErrors('make', path, () => makeScratch(path)),
    rename: (from, to) => explainDiskErrors('rename', from, () => calls.rename(from, to)),
    link: (from, to) => explainDiskErrors('link', from, () => calls.link(from, to)),
    syncFolder: (path) => explainDiskErrors('sync', path, () => syncFolder(path)),
    remove: (path) => explainDiskErrors('remove', path, () => remove(path)),
  };
}

type DiskReadMethod = 'read' | 'size' | 'stamp' | 'readStream' | 'isFolder' | 'isFile' | 'list' | 'isLink' | 'realPath';

const diskReads: Pick<Disk, DiskReadMethod> = {
  read: (path) => explainDiskErrors('read', path, () => readFileSync(path)),
  size: (path) => explainDiskErrors('look at', path, () => statIfExists(path)?.size ?? null),
  stamp: (path) =>
    explainDiskErrors('look at', path, () => {
      if (statIfExists(path) === undefined) return null;
      const found = statSync(path, { throwIfNoEntry: false, bigint: true });
      return found === undefined ? null : `${found.dev}:${found.ino}:${found.size}:${found.mtimeNs}`;
    }),
  readStream: (path) => createReadStream(path, { highWaterMark: readStreamBytes }),
  isFolder: (path) => explainDiskErrors('look at', path, () => statIfExists(path)?.isDirectory() ?? false),
  isFile: (path) => explainDiskErrors('look at', path, () => statIfExists(path)?.isFile() ?? false),
  list: (path) =>
    explainDiskErrors('list', path, () => (statIfExists(path)?.isDirectory() ? readdirSync(path).sort() : [])),
  isLink: (path) =>
    explainDiskErrors('look at', path, () => lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false),
  realPath,
};

/** Undefined also for a link that leads round in a circle: there is nothing. */
function statIfExists(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ELOOP') return undefined;
    throw error;
  }
}

/** A folder that is there and cannot be looked into is a link to what is not there, a disk that is not mounted perhaps. */
function requireLinkTarget(path: string): void {
  if (statIfExists(path) !== undefined || lstatSync(path, { throwIfNoEntry: false }) === undefined) return;
  throw new OddslakeError(
    exitCodes.unexpected,
    `${path} is a link to a place that is not there. Put that place back (is its disk mounted?), and run again; nothing that was accepted is lost.`,
  );
}

/** The machine's own. */
export const systemDisk: Disk = createDisk(systemCalls);

function realPath(path: string): string {
  const absolute = resolve(path);
  if (statSync(absolute, { throwIfNoEntry: false }) !== undefined) return realpathSync(absolute);
  return join(realPath(dirname(absolute)), basename(absolute));
}

function explainDiskErrors<T>(doing: string, path: string, work: () => T): T {
  try {
    return work();
  } catch (error) {
    const { code } = error as NodeJS.ErrnoException;
    if (code === 'ENOSPC' || code === 'EDQUOT') {
      throw new DiskFullError(
        `The disk is full: could not ${doing} ${path}. Free some space and run again; nothing that was accepted is lost.`,
        { cause: error },
      );
    }
    if (code === 'EIO') {
      throw new OddslakeError(
        exitCodes.unexpected,
        `The disk failed: could not ${doing} ${path}. Check the disk and run again; nothing that was accepted is lost.`,
        { cause: error },
      );
    }
    if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') {
      throw new OddslakeError(
        exitCodes.unexpected,
        `Not allowed to ${doing} ${path}. Check its owner and permissions.`,
        {
          cause: error,
        },
      );
    }
    throw error;
  }
}

/** In hexadecimal, as manifest and SHA256SUMS have it. */
export const sha256 = (bytes: Uint8Array): string => createHash('sha256').update(bytes).digest('hex');

// A folder of the archive may be a link to where there is room. Where that is another file system, nothing of the archive
// can be renamed or linked to it: what was committed has to get there all the same, or no run could ever finish it.

/** Where a file that comes from another file system is made: beside its place, under a name that no reader's glob finds. */
export const toDraftPath = (path: string): string => join(dirname(path), `.${basename(path)}.next`);

/**
 * Puts a file into the place of `to` at once; durable only after `syncFolder` of that folder. Where it has to be copied,
 * `from` stays, for whoever reads it there: it may be done again, any number of times.
 */
export function moveFile(disk: Disk, from: string, to: string): void {
  try {
    disk.rename(from, to);
  } catch (error) {
    if (!isCrossDeviceError(error)) throw error;
    const draft = toDraftPath(to);
    try {
      disk.write(draft, disk.read(from));
      disk.rename(draft, to);
    } catch (failed) {
      disk.remove(draft);
      throw failed;
    }
  }
}

/** Links a file, or copies it where that cannot be: false then. The copy is synced, its folder is not. */
export function linkOrCopy(disk: Disk, from: string, to: string): boolean {
  if (tryLink(disk, from, to)) return true;
  disk.write(to, disk.read(from));
  return false;
}

/** False where the two places share no file system, it knows no hard links, or the file has as many as it may. */
export function tryLink(disk: Disk, from: string, to: string): boolean {
  try {
    disk.link(from, to);
    return true;
  } catch (error) {
    if (linkFallbackCodes.has(toErrorCode(error))) return false;
    throw error;
  }
}

/** Whether a rename or a link failed because it leads from one file system to another. */
export const isCrossDeviceError = (error: unknown): boolean => toErrorCode(error) === 'EXDEV';

const linkFallbackCodes = new Set(['EXDEV', 'EPERM', 'ENOTSUP', 'EMLINK']);

const toErrorCode = (error: unknown): string =>
  (((error as Error).cause ?? error) as NodeJS.ErrnoException | undefined)?.code ?? '';

/** Bytes of a file system: those that we may still write, and all of them. */
export interface DiskSpace {
  readonly freeBytes: number;
  readonly totalBytes: number;
}

/** The file system that a path is on; null where it does not tell, as some network ones. */
export function readDiskSpace(path: string): DiskSpace | null {
  try {
    const { bavail, blocks, bsize } = statfsSync(path);
    return blocks > 0 ? { freeBytes: bavail * bsize, totalBytes: blocks * bsize } : null;
  } catch {
    return null;
  }
}
