import { createHash } from 'node:crypto';
import { constants, fstatSync, statSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { LRUCache } from 'lru-cache';
import { entriesMax } from '../../base/entries-max.ts';
import { DamageError } from '../../base/errors.ts';
import type { Archive } from '../archive.ts';
import type { PublishedFile } from '../format/manifest.ts';
import { locateFile, readPublishedFile } from '../read-published-file.ts';
import { dropReplaced } from './drop-replaced.ts';

/** Must be closed; `close` is idempotent. */
export interface OpenedFile {
  /** Modification time, epoch milliseconds; null if it is uncertain. */
  readonly modifiedMs: number | null;
  /** The whole file if it is in memory, else null. */
  readonly bytes: Uint8Array | null;
  /**
   * Reads from offset `at`. Resolves to the number of bytes, at least 1.
   * @throws DamageError if the file was written to meanwhile
   */
  read(buffer: Uint8Array, at: number): Promise<number>;
  close(): void;
}

/** Files above this share of the cache are not cached. */
const fileShareMax = 1 / 4;

const checksConcurrentMax = 2;

/** Maximum remembered checks of files that are too large for the cache. */
const checkedFilesMax = 10_000;

/** Reads archive files with their sha256 checked. Caches recently used files in memory. */
export type VerifiedFiles = ReturnType<typeof openVerifiedFiles>;

/** @param bytesMax size of the cache in bytes, at least 0. Slow readers may hold the same amount of evicted files. */
export function openVerifiedFiles(archive: Archive, bytesMax: number) {
  // Keyed by file hash.
  const cache = new LRUCache<string, FileBytes>({
    maxSize: Math.max(1, bytesMax),
    sizeCalculation: ({ bytes }) => bytes.length || 1,
  });
  const lentBytes = createByteBudget(bytesMax);
  const checkedFiles = new LRUCache<string, true>(entriesMax(checkedFilesMax));
  const limitChecks: LimitConcurrency = createConcurrencyLimiter(checksConcurrentMax);
  const loading = new Map<string, Promise<FileBytes>>();
  const checking = new Map<string, Promise<void>>();

  async function load(file: FileEntry): Promise<FileBytes> {
    const cached = await limitChecks(() => readOnDisk(archive, file));
    cache.set(file.sha256, cached);
    return cached;
  }

  async function openFromMemory(file: FileEntry): Promise<OpenedFile> {
    const cached = cache.get(file.sha256) ?? (await shareInFlight(loading, file.sha256, () => load(file)));
    return toOpenedFile(cached, lentBytes.acquire(file.sha256, cached.bytes.length));
  }

  async function openFromDisk(file: FileEntry): Promise<OpenedFile> {
    const opened = await openOnDisk(archive, file);
    try {
      await requireChecked(file, opened);
    } catch (error) {
      await opened.handle.close();
      throw error;
    }
    let isOpen = true;
    return {
      modifiedMs: opened.modifiedMs,
      bytes: null,
      read: (buffer, at) => readAt(opened, file, buffer, at),
      close() {
        // `close` waits for a running read.
        if (isOpen) void opened.handle.close();
        isOpen = false;
      },
    };
  }

  async function requireChecked(file: FileEntry, opened: OpenFileHandle): Promise<void> {
    const key = `${file.sha256} ${opened.identity}`;
    if (checkedFiles.has(key)) return;
    await shareInFlight(checking, key, () => limitChecks(() => hashOnDisk(opened, file)));
    // Each caller has its own descriptor. The file was the same when hashing began, and must still be.
    requireUnmodified(opened, file);
    checkedFiles.set(key, true);
  }

  return {
    /**
     * Reads a file as listed in a manifest.
     * @throws DamageError if its bytes differ: it is damaged, or a later generation replaced it
     */
    readBytes(file: PublishedFile): Uint8Array {
      const cached = cache.get(file.sha256);
      if (cached !== undefined) return cached.bytes;
      const before = readModifiedMs(archive, file);
      const bytes = readPublishedFile(archive, file);
      const modifiedMs = readModifiedMs(archive, file);
      cache.set(file.sha256, { bytes, modifiedMs: before === modifiedMs ? modifiedMs : null });
      return bytes;
    },
    /** Forgets the files that are not among these, by their SHA-256. */
    dropReplaced: (hashes: ReadonlySet<string>) => dropReplaced(cache, hashes),
    /** Files and bytes in the cache. */
    getCacheSize: () => ({ files: cache.size, bytes: cache.calculatedSize }),
    /**
     * Opens a file for sending: from memory if it fits, else from an open descriptor, so that a rename does not change
     * what is sent. Checks the hash before it returns, in chunks. Concurrent calls for the same file share one check.
     * @throws DamageError as `readBytes` does
     */
    open: (file: FileEntry): Promise<OpenedFile> =>
      file.bytes <= bytesMax * fileShareMax && lentBytes.hasRoom(file.sha256, file.bytes)
        ? openFromMemory(file)
        : openFromDisk(file),
  };
}

/** Wraps a file in memory as an open file. */
export const toOpenedFile = ({ bytes, modifiedMs }: FileBytes, close = (): void => {}): OpenedFile => ({
  bytes,
  modifiedMs,
  close,
  async read(buffer, at) {
    buffer.set(bytes.subarray(at, at + buffer.length));
    return Math.min(buffer.length, bytes.length - at);
  },
});

const readModifiedMs = (archive: Archive, file: FileEntry): number | null =>
  statSync(locateFile(archive, file.path), { throwIfNoEntry: false })?.mtimeMs ?? null;

/** Runs `work`, or joins the run that is in flight under the same key. */
export async function shareInFlight<T>(
  inFlight: Map<string, Promise<T>>,
  key: string,
  work: () => Promise<T>,
): Promise<T> {
  const started = inFlight.get(key);
  if (started !== undefined) return await started;
  const promise = work();
  inFlight.set(key, promise);
  try {
    return await promise;
  } finally {
    inFlight.delete(key);
  }
}

/** The expected size and hash of a file; its path is relative to the archive's root. */
export type FileEntry = Pick<PublishedFile, 'path' | 'bytes' | 'sha256'>;

/** A file in memory, with its modification time; null if that is uncertain. */
interface FileBytes {
  readonly bytes: Uint8Array;
  readonly modifiedMs: number | null;
}

/** An open file with the expected size. Its hash is not checked yet. */
interface OpenFileHandle {
  readonly handle: FileHandle;
  /** Changes if the file is replaced or written to. */
  readonly identity: string;
  /** Changes if the file is written to, but not if it is linked, which changes `identity`. */
  readonly modificationStamp: string;
  readonly modifiedMs: number;
}

/** Number of bytes to hash before yielding. Hashing them takes less than a millisecond. */
const hashChunkBytes = 512 * 1024;

const createDamageError = (file: FileEntry): DamageError =>
  new DamageError(`${file.path} is damaged: its sha256 differs from the recorded one.`);

/** @throws DamageError if the file is missing or has another size */
async function openOnDisk(archive: Archive, file: FileEntry): Promise<OpenFileHandle> {
  const handle = await openAt(archive, file.path);
  try {
    const { size, ...rest } = readFileIdentity(handle);
    if (size !== file.bytes) throw createDamageError(file);
    return { handle, ...rest };
  } catch (error) {
    await handle.close();
    throw error;
  }
}

/** Opening a pipe does not block, and its size then differs. */
const flags = constants.O_RDONLY | constants.O_NONBLOCK;

const missingErrorCodes = new Set(['ENOENT', 'ENOTDIR', 'ELOOP']);

async function openAt(archive: Archive, path: string): Promise<FileHandle> {
  for (;;) {
    const at = locateFile(archive, path);
    try {
      return await open(at, flags);
    } catch (error) {
      if (!missingErrorCodes.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
    }
    // A publish may just have moved the file out of staging. It is missing only if the published path is empty.
    if (at === join(archive.layout.root, path)) throw new DamageError(`${path} is missing, although it is listed.`);
  }
}

function readFileIdentity({ fd }: FileHandle): Omit<OpenFileHandle, 'handle'> & { readonly size: number } {
  const { dev, ino, size, mtimeNs, ctimeNs, mtimeMs } = fstatSync(fd, { bigint: true });
  return {
    size: Number(size),
    identity: [dev, ino, size, mtimeNs, ctimeNs].join(' '),
    modificationStamp: [size, mtimeNs].join(' '),
    modifiedMs: Number(mtimeMs),
  };
}

/** @throws DamageError if the file was written to since it was opened */
function requireUnmodified({ handle, modificationStamp }: OpenFileHandle, file: FileEntry): void {
  if (readFileIdentity(handle).modificationStamp !== modificationStamp) throw createDamageError(file);
}

/** Reads a whole file and checks its hash. @throws DamageError if it differs */
async function readOnDisk(archive: Archive, file: FileEntry): Promise<FileBytes> {
  const opened = await openOnDisk(archive, file);
  try {
    const bytes = Buffer.allocUnsafeSlow(file.bytes);
    await hashContent(opened, file, (at, length) => bytes.subarray(at, at + length));
    return { bytes, modifiedMs: opened.modifiedMs };
  } finally {
    await opened.handle.close();
  }
}

/** @throws DamageError if the hash differs */
async function hashOnDisk(opened: OpenFileHandle, file: FileEntry): Promise<void> {
  const buffer = Buffer.allocUnsafeSlow(Math.min(hashChunkBytes, file.bytes));
  await hashContent(opened, file, (_at, length) => buffer.subarray(0, length));
}

async function hashContent(
  opened: OpenFileHandle,
  file: FileEntry,
  getBuffer: (at: number, length: number) => Buffer,
): Promise<void> {
  const sum = createHash('sha256');
  for (let at = 0; at < file.bytes; ) {
    const buffer = getBuffer(at, Math.min(hashChunkBytes, file.bytes - at));
    const { bytesRead } = await opened.handle.read(buffer, 0, buffer.length, at);
    if (bytesRead === 0) throw createDamageError(file);
    sum.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
  if (sum.digest('hex') !== file.sha256) throw createDamageError(file);
  requireUnmodified(opened, file);
}

/**
 * Reads from offset `at` into a buffer. Returns the number of bytes, at least 1.
 * @throws DamageError if the file was modified in place. The response is then aborted, because the client would not
 *   detect mixed contents.
 */
async function readAt(opened: OpenFileHandle, file: FileEntry, buffer: Uint8Array, at: number): Promise<number> {
  const { bytesRead } = await opened.handle.read(buffer, 0, buffer.length, at);
  requireUnmodified(opened, file);
  if (bytesRead === 0) throw createDamageError(file);
  return bytesRead;
}

/**
 * Tracks memory that readers hold: evicted bytes stay allocated until the slowest reader is done.
 * @param bytesMax total budget in bytes; each key counts once
 */
function createByteBudget(bytesMax: number) {
  const readers = new Map<string, number>();
  let lentBytes = 0;
  const release = (key: string, bytes: number): void => {
    const readersLeft = readers.get(key)! - 1;
    if (readersLeft > 0) return void readers.set(key, readersLeft);
    readers.delete(key);
    lentBytes -= bytes;
  };
  return {
    /** Whether `bytes` more fit, or this key is already counted. */
    hasRoom: (key: string, bytes: number): boolean => readers.has(key) || lentBytes + bytes <= bytesMax,
    /** Returns a release function, which is idempotent. */
    acquire(key: string, bytes: number): () => void {
      const count = readers.get(key) ?? 0;
      readers.set(key, count + 1);
      if (count === 0) lentBytes += bytes;
      let isHeld = true;
      return () => {
        if (isHeld) release(key, bytes);
        isHeld = false;
      };
    },
  };
}

/** Runs work when a slot is free, in FIFO order. */
type LimitConcurrency = <T>(work: () => Promise<T>) => Promise<T>;

/** @param max maximum concurrent work */
export function createConcurrencyLimiter(max: number): LimitConcurrency {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (work) => {
    if (running < max) running++;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}
