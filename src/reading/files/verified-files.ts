import { statSync } from 'node:fs';
import { LRUCache } from 'lru-cache';
import type { PublishedFile } from '../../archive/manifest.ts';
import { type Archive, locateFile, readPublishedFile } from '../../archive/open-archive.ts';
import { createConcurrencyLimiter, type LimitConcurrency } from './lru-bytes.ts';
import {
  type FileBytes,
  type FileEntry,
  hashOnDisk,
  type OpenFileHandle,
  openOnDisk,
  readAt,
  readOnDisk,
  requireUnmodified,
} from './open-file.ts';
import { createByteBudget } from './ref-counted.ts';

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
