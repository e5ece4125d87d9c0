import { createHash } from 'node:crypto';
import { constants, fstatSync } from 'node:fs';
import { type FileHandle, open } from 'node:fs/promises';
import { join } from 'node:path';
import type { PublishedFile } from '../../archive/manifest.ts';
import { type Archive, locateFile } from '../../archive/open-archive.ts';
import { DamageError } from '../../core/errors.ts';

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
