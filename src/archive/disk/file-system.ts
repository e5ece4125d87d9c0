import { createHash } from 'node:crypto';
import { createReadStream, lstatSync, readdirSync, readFileSync, realpathSync, type Stats, statSync } from 'node:fs';
import { basename, dirname, join, resolve } from 'node:path';
import { DiskFullError, exitCodes, OddslakeError } from '../../core/errors.ts';
import { type FileCalls, systemCalls } from './syscalls.ts';

/** Everything the archive does to a file system. What it writes is durable when a call returns, unless said otherwise. */
export interface Disk {
  read(path: string): Uint8Array;
  /** Null where there is no such file. */
  size(path: string): number | null;
  /** Differs once a file at this path is another one, or was written to; null where there is none. */
  stamp(path: string): string | null;
  /** A file from its beginning to its end, some hundred kilobytes at a time. */
  pieces(path: string): AsyncIterable<Uint8Array>;
  isFolder(path: string): boolean;
  /** A regular file, that is: no folder, device or pipe. */
  isFile(path: string): boolean;
  /** Names in a folder, sorted; none where it is missing, or no folder. */
  list(path: string): string[];
  isLink(path: string): boolean;
  /** Creates or replaces a file, whole or piece by piece, and syncs it; not its folder. */
  write(path: string, bytes: Uint8Array | Iterable<Uint8Array>): void;
  /** The same for pieces that come as they are ready. */
  writeAll(path: string, pieces: AsyncIterable<Uint8Array>): Promise<void>;
  /** Makes a folder and those above it, each synced into its parent. */
  makeFolder(path: string): void;
  /** Makes a folder that need not outlive a crash. */
  makeScratch(path: string): void;
  /** Replaces `to` at once; durable only after `syncFolder` of both folders. */
  rename(from: string, to: string): void;
  link(from: string, to: string): void;
  /** The path without symbolic links in it, as far as it is there; absolute. */
  realPath(path: string): string;
  syncFolder(path: string): void;
  /** Removes a file or a folder with all that is in it; nothing where it is missing. */
  remove(path: string): void;
}

const pieceBytes = 512 * 1024;

/** A disk whose every change is one of these calls, in the order in which it is made. */
export function diskOver(calls: FileCalls): Disk {
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
      requireTarget(path);
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
    ...looking,
    write: (path, bytes) =>
      explain('write', path, () => {
        const file = calls.create(path);
        try {
          for (const piece of bytes instanceof Uint8Array ? [bytes] : bytes) writeWhole(file, piece);
          calls.sync(file);
        } finally {
          calls.close(file);
        }
      }),
    async writeAll(path, pieces) {
      const file = explain('write', path, () => calls.create(path));
      try {
        for await (const piece of pieces) explain('write', path, () => writeWhole(file, piece));
        explain('write', path, () => calls.sync(file));
      } finally {
        calls.close(file);
      }
    },
    makeFolder: (path) => explain('make', path, () => makeFolder(path)),
    makeScratch: (path) => explain('make', path, () => makeScratch(path)),
    rename: (from, to) => explain('rename', from, () => calls.rename(from, to)),
    link: (from, to) => explain('link', from, () => calls.link(from, to)),
    syncFolder: (path) => explain('sync', path, () => syncFolder(path)),
    remove: (path) => explain('remove', path, () => remove(path)),
  };
}

type Looking = 'read' | 'size' | 'stamp' | 'pieces' | 'isFolder' | 'isFile' | 'list' | 'isLink' | 'realPath';

const looking: Pick<Disk, Looking> = {
  read: (path) => explain('read', path, () => readFileSync(path)),
  size: (path) => explain('look at', path, () => statsAt(path)?.size ?? null),
  stamp: (path) =>
    explain('look at', path, () => {
      if (statsAt(path) === undefined) return null;
      const found = statSync(path, { throwIfNoEntry: false, bigint: true });
      return found === undefined ? null : `${found.dev}:${found.ino}:${found.size}:${found.mtimeNs}`;
    }),
  pieces: (path) => createReadStream(path, { highWaterMark: pieceBytes }),
  isFolder: (path) => explain('look at', path, () => statsAt(path)?.isDirectory() ?? false),
  isFile: (path) => explain('look at', path, () => statsAt(path)?.isFile() ?? false),
  list: (path) => explain('list', path, () => (statsAt(path)?.isDirectory() ? readdirSync(path).sort() : [])),
  isLink: (path) =>
    explain('look at', path, () => lstatSync(path, { throwIfNoEntry: false })?.isSymbolicLink() ?? false),
  realPath,
};

/** Undefined also for a link that leads round in a circle: there is nothing. */
function statsAt(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ELOOP') return undefined;
    throw error;
  }
}

/** A folder that is there and cannot be looked into is a link to what is not there, a disk that is not mounted perhaps. */
function requireTarget(path: string): void {
  if (statsAt(path) !== undefined || lstatSync(path, { throwIfNoEntry: false }) === undefined) return;
  throw new OddslakeError(
    exitCodes.unexpected,
    `${path} is a link to a place that is not there. Put that place back (is its disk mounted?), and run again; nothing that was accepted is lost.`,
  );
}

/** The machine's own. */
export const systemDisk: Disk = diskOver(systemCalls);

function realPath(path: string): string {
  const absolute = resolve(path);
  if (statSync(absolute, { throwIfNoEntry: false }) !== undefined) return realpathSync(absolute);
  return join(realPath(dirname(absolute)), basename(absolute));
}

function explain<T>(doing: string, path: string, work: () => T): T {
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
