import { join } from 'node:path';
import { DamageError, OddslakeError } from '../base/errors.ts';
import type { Archive } from './archive.ts';
import { sha256 } from './disk/file-system.ts';
import type { PublishedFile } from './format/manifest.ts';
import { readOpenIntent } from './journal/intent.ts';

/**
 * The absolute path at which a published file can be read now: in staging while the moves of its publish are pending,
 * else at its published path.
 */
export function locateFile(archive: Archive, path: string): string {
  const staged = readOpenIntent(archive.state.db)?.moves.find((move) => move.to === path);
  if (staged !== undefined && staged.from !== null) {
    const at = join(archive.layout.root, staged.from);
    if (archive.disk.size(at) !== null) return at;
  }
  return join(archive.layout.root, path);
}

/** The current bytes of a published file; null if it is missing or not a regular file. */
export function readFileNow(archive: Archive, path: string): Uint8Array | null {
  for (;;) {
    const at = locateFile(archive, path);
    try {
      // Reading a folder fails, and reading a pipe blocks.
      if (archive.disk.isFile(at)) return archive.disk.read(at);
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
    }
    // A publish may just have moved the file out of staging. It is missing only if the published path is empty.
    if (at === join(archive.layout.root, path)) return null;
  }
}

/**
 * Reads a published file and checks its hash.
 * @throws DamageError if it is missing or differs; the file stays in place
 */
export function readPublishedFile(archive: Archive, file: PublishedFile): Uint8Array {
  const bytes = readFileNow(archive, file.path);
  if (bytes !== null && sha256(bytes) === file.sha256) return bytes;
  archive.refusedPaths.add(file.path);
  throw new DamageError(
    bytes === null
      ? `${file.path} is missing, although the manifest lists it.`
      : `${file.path} is damaged: its sha256 differs from the manifest's.`,
  );
}

/**
 * Decodes a published file whose hash is the manifest's. Only a bug can make that fail, and no other reader is tried.
 * @throws DamageError that names the file; an OddslakeError as it is
 */
export function decodePublished<T>(path: string, decode: () => T): T {
  try {
    return decode();
  } catch (error) {
    if (error instanceof OddslakeError) throw error;
    throw new DamageError(
      `${path} cannot be decoded, although its sha256 is the manifest's: ${(error as Error).message}`,
      { cause: error },
    );
  }
}
