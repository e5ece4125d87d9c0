import { createHash } from 'node:crypto';
import { constants, fstatSync, statSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import { LRUCache } from 'lru-cache';
import { DamageError } from '../../base/errors.ts';
import type { PublishedFile } from '../format/manifest.ts';
import { type Archive, locateFile, readPublishedFile } from '../open-archive.ts';

/** Files of the archive whose sha256 was checked, the latest used of them kept in memory. */
export interface VerifiedFiles {
  /**
   * The bytes of a file as the manifest that `file` is from lists it.
   * @throws DamageError where they differ: it is damaged, or was replaced by a later generation
   */
  readBytes(file: PublishedFile): Uint8Array;
  /** What is in memory at the moment. */
  getCacheSize(): { readonly files: number; readonly bytes: number };
  /**
   * The same, to be sent: from memory where it fits, else from one open descriptor, so that a file that is replaced by a
   * rename stays what it was. It is checked before this returns, in pieces, by one of those that ask at the same time.
   * @throws DamageError as `bytes`
   */
  open(file: FileEntry): Promise<OpenedFile>;
}

/** To be closed, once or more often. */
export interface OpenedFile {
  /** When it was written, epoch milliseconds; null where that is not known for sure. */
  readonly modifiedMs: number | null;
  /** All of it, where it is in memory. */
  readonly bytes: Uint8Array | null;
  /** Reads from `at` on; resolves with how many bytes, at least one. @throws DamageError where it was written to meanwhile */
  read(into: Uint8Array, at: number): Promise<number>;
  close(): void;
}

/** A file that takes more than this share of the memory is not kept in it. */
const fileShareMax = 1 / 4;

/** Files that are checked at once. */
const checksConcurrentMax = 2;

/** Verdicts on files that are too large for the memory. */
const checkedFilesMax = 10_000;

/** @param bytesMax what is kept in memory, and again what slow readers may hold of what was thrown out; at least 0 */
export function openVerifiedFiles(archive: Archive, bytesMax: number): VerifiedFiles {
  // What a file is, is its hash: a replaced one is another, and falls out by itself.
  const kept = new LRUCache<string, FileBytes>({
    maxSize: Math.max(1, bytesMax),
    sizeCalculation: ({ bytes }) => bytes.length || 1,
  });
  const lent = createByteBudget(bytesMax);
  const verdicts = new LRUCache<string, true>({ max: checkedFilesMax });
  const checked: LimitConcurrency = createConcurrencyLimiter(checksConcurrentMax);
  const loading = new Map<string, Promise<FileBytes>>();
  const judging = new Map<string, Promise<void>>();

  async function load(file: FileEntry): Promise<FileBytes> {
    const held = await checked(() => readOnDisk(archive, file));
    kept.set(file.sha256, held);
    return held;
  }

  async function fromMemory(file: FileEntry): Promise<OpenedFile> {
    const held = kept.get(file.sha256) ?? (await shareInFlight(loading, file.sha256, () => load(file)));
    return toOpenedFile(held, lent.acquire(file.sha256, held.bytes.length));
  }

  async function fromDisk(file: FileEntry): Promise<OpenedFile> {
    const opened = await openOnDisk(archive, file);
    try {
      await judged(file, opened);
    } catch (error) {
      await opened.handle.close();
      throw error;
    }
    let isOpen = true;
    return {
      modifiedMs: opened.modifiedMs,
      bytes: null,
      read: (into, at) => readAt(opened, file, into, at),
      close() {
        // It waits for a read that is under way.
        if (isOpen) void opened.handle.close();
        isOpen = false;
      },
    };
  }

  async function judged(file: FileEntry, opened: OpenFileHandle): Promise<void> {
    const key = `${file.sha256} ${opened.identity}`;
    if (verdicts.has(key)) return;
    await shareInFlight(judging, key, () => checked(() => hashOnDisk(opened, file)));
    // Each on its own descriptor: it was the same file when the hash was begun, and has to be still.
    requireUnmodified(opened, file);
    verdicts.set(key, true);
  }

  return {
    readBytes(file) {
      const held = kept.get(file.sha256);
      if (held !== undefined) return held.bytes;
      const before = readModifiedMs(archive, file);
      const bytes = readPublishedFile(archive, file);
      const modifiedMs = readModifiedMs(archive, file);
      kept.set(file.sha256, { bytes, modifiedMs: before === modifiedMs ? modifiedMs : null });
      return bytes;
    },
    getCacheSize: () => ({ files: kept.size, bytes: kept.calculatedSize }),
    open: (file) =>
      file.bytes <= bytesMax * fileShareMax && lent.hasRoom(file.sha256, file.bytes)
        ? fromMemory(file)
        : fromDisk(file),
  };
}

/** What is in memory as an open file. */
export const toOpenedFile = ({ bytes, modifiedMs }: FileBytes, close = (): void => {}): OpenedFile => ({
  bytes,
  modifiedMs,
  close,
  async read(into, at) {
    into.set(bytes.subarray(at, at + into.length));
    return Math.min(into.length, bytes.length - at);
  },
});

const readModifiedMs = (archive: Archive, file: FileEntry): number | null =>
  statSync(locateFile(archive, file.path), { throwIfNoEntry: false })?.mtimeMs ?? null;

/** What is being done under this key already, or else `work`. */
async function shareInFlight<T>(under: Map<string, Promise<T>>, key: string, work: () => Promise<T>): Promise<T> {
  const started = under.get(key);
  if (started !== undefined) return await started;
  const promise = work();
  under.set(key, promise);
  try {
    return await promise;
  } finally {
    under.delete(key);
  }
}

/** What is known of a file that ought to be there; its path is relative to the archive's root. */
export type FileEntry = Pick<PublishedFile, 'path' | 'bytes' | 'sha256'>;

/** A file in memory, as it was when it was written at `modifiedMs` (null: that is not sure). */
export interface FileBytes {
  readonly bytes: Uint8Array;
  readonly modifiedMs: number | null;
}

/** An open file of the size that it ought to have; nothing is known yet of its bytes. */
export interface OpenFileHandle {
  readonly handle: FileHandle;
  /** Differs once the file is another one, or was written to. */
  readonly identity: string;
  /** Differs once it was written to; links, which change `identity`, do not. */
  readonly modificationStamp: string;
  readonly modifiedMs: number;
}

/** Bytes that are hashed at once: under a millisecond. */
const hashChunkBytes = 512 * 1024;

const createDamageError = (file: FileEntry): DamageError =>
  new DamageError(`${file.path} is damaged: its sha256 differs from what it was written with.`);

/** @throws DamageError where it is missing or of another size */
export async function openOnDisk(archive: Archive, file: FileEntry): Promise<OpenFileHandle> {
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

/** A pipe is opened at once, and found not to be the file. */
const flags = constants.O_RDONLY | constants.O_NONBLOCK;

/** Codes of errors that tell that there is no file. */
const missingErrorCodes = new Set(['ENOENT', 'ENOTDIR', 'ELOOP']);

async function openAt(archive: Archive, path: string): Promise<FileHandle> {
  for (;;) {
    const at = locateFile(archive, path);
    try {
      return await open(at, flags);
    } catch (error) {
      if (!missingErrorCodes.has((error as NodeJS.ErrnoException).code ?? '')) throw error;
    }
    // A publish may have moved it from the stage to its place just now: only there can it be missing.
    if (at === join(archive.layout.root, path)) throw new DamageError(`${path} is missing, though it is listed.`);
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

/** @throws DamageError where it was written to since it was opened */
export function requireUnmodified({ handle, modificationStamp }: OpenFileHandle, file: FileEntry): void {
  if (readFileIdentity(handle).modificationStamp !== modificationStamp) throw createDamageError(file);
}

/** The whole of it, its hash checked. */
export async function readOnDisk(archive: Archive, file: FileEntry): Promise<FileBytes> {
  const opened = await openOnDisk(archive, file);
  try {
    const bytes = Buffer.allocUnsafeSlow(file.bytes);
    await hashContent(opened, file, (at, length) => bytes.subarray(at, at + length));
    return { bytes, modifiedMs: opened.modifiedMs };
  } finally {
    await opened.handle.close();
  }
}

/** Throws DamageError where its bytes have another hash. */
export async function hashOnDisk(opened: OpenFileHandle, file: FileEntry): Promise<void> {
  const piece = Buffer.allocUnsafeSlow(Math.min(hashChunkBytes, file.bytes));
  await hashContent(opened, file, (_at, length) => piece.subarray(0, length));
}

async function hashContent(
  opened: OpenFileHandle,
  file: FileEntry,
  room: (at: number, length: number) => Buffer,
): Promise<void> {
  const sum = createHash('sha256');
  for (let at = 0; at < file.bytes; ) {
    const into = room(at, Math.min(hashChunkBytes, file.bytes - at));
    const { bytesRead } = await opened.handle.read(into, 0, into.length, at);
    if (bytesRead === 0) throw createDamageError(file);
    sum.update(into.subarray(0, bytesRead));
    at += bytesRead;
  }
  if (sum.digest('hex') !== file.sha256) throw createDamageError(file);
  requireUnmodified(opened, file);
}

/**
 * Reads from `at` on into a buffer; returns how many bytes, at least one. Whoever writes into the file in place breaks off
 * what is being sent: a short answer is seen, a mixture is not.
 */
export async function readAt(opened: OpenFileHandle, file: FileEntry, into: Uint8Array, at: number): Promise<number> {
  const { bytesRead } = await opened.handle.read(into, 0, into.length, at);
  requireUnmodified(opened, file);
  if (bytesRead === 0) throw createDamageError(file);
  return bytesRead;
}

/** What readers hold of the memory: thrown out of it, bytes live on until the slowest reader is done. */
export interface ByteBudget {
  /** Whether `bytes` more may be lent, or these are already. */
  hasRoom(key: string, bytes: number): boolean;
  /** Returns what gives it back, to be called once or more often. */
  acquire(key: string, bytes: number): () => void;
}

/** @param bytesMax what may be lent together, each key counted once */
export function createByteBudget(bytesMax: number): ByteBudget {
  const readers = new Map<string, number>();
  let lent = 0;
  const giveBack = (key: string, bytes: number): void => {
    const left = readers.get(key)! - 1;
    if (left > 0) return void readers.set(key, left);
    readers.delete(key);
    lent -= bytes;
  };
  return {
    hasRoom: (key, bytes) => readers.has(key) || lent + bytes <= bytesMax,
    acquire(key, bytes) {
      const count = readers.get(key) ?? 0;
      readers.set(key, count + 1);
      if (count === 0) lent += bytes;
      let isOut = true;
      return () => {
        if (isOut) giveBack(key, bytes);
        isOut = false;
      };
    },
  };
}

/** Runs work, the rest waiting in the order in which it came. */
export type LimitConcurrency = <T>(work: () => Promise<T>) => Promise<T>;

/** At most `max` at once. */
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
