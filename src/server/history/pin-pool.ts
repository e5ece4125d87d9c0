import { createHash } from 'node:crypto';
import { dirname, join } from 'node:path';
import { LRUCache } from 'lru-cache';
import type { Archive } from '../../archive/archive.ts';
import { linkOrCopy, sha256 } from '../../archive/disk/file-system.ts';
import { listManifestFiles, type Manifest, type PublishedFile } from '../../archive/format/manifest.ts';
import { acquireScratchFolder } from '../../archive/read/pin-generation.ts';
import { locateFile } from '../../archive/read-published-file.ts';
import { DamageError } from '../../base/errors.ts';

/**
 * Pins of published files: hard links whose bytes were verified against their hash. The files of one manifest therefore
 * stay consistent while they are read, even if a publish intervenes.
 */
export interface PinPool {
  /** The folder that contains all links. */
  readonly folder: string;
  /**
   * Pins a file; call `release` on the result.
   * @throws ReplacedError if a later generation has replaced the file, or is about to; DamageError if the file is not as
   * published
   */
  acquire(file: PublishedFile, signal: AbortSignal): Promise<PooledPin>;
  /** Removes pins of files that are only in generations before this one. */
  releaseStale(manifest: Manifest): void;
  close(): void;
}

export interface PooledPin {
  /** Absolute; ends with the published path. */
  readonly path: string;
  /** Whether the file has not been modified since it was verified. */
  isUnmodified(): boolean;
  release(): void;
}

/** A file that the manifest lists has been replaced: read a newer manifest. */
export class ReplacedError extends Error {
  constructor(path: string) {
    super(`${path} was replaced by a later generation`);
    this.name = 'ReplacedError';
  }
}

interface PinLink {
  readonly path: string;
  readonly stamp: string;
  users: number;
  /** Whether new readers must use another link; this one is removed when its last user releases it. */
  isDropped: boolean;
}

/**
 * Files up to this size, in bytes, are read and hashed at once, in less than a millisecond. An asynchronous read takes
 * several turns of the event loop. Under load a turn takes tens of milliseconds, in which the reader holds its permit.
 */
export const smallFileBytesMax = 256 * 1024;

/** Number of small files to hash before yielding. */
const smallFilesPerTurn = 8;

/** Maximum number of unused links kept for later readers. */
const idleMax = 2048;

/** Maximum number of files remembered as verified. */
const checkedMax = 100_000;

/** @param id distinguishes the pools of one process */
export function openPinPool(archive: Archive, id: string): PinPool {
  const { disk } = archive;
  const { folder, release } = acquireScratchFolder(archive, id);
  const links = new Map<string, Promise<PinLink>>();
  const checked = new LRUCache<string, true>({ max: checkedMax });
  let linkCount = 0;
  let smallFilesHashed = 0;
  let currentCommit: string | undefined;
  let listed: ReadonlySet<string> | undefined;

  const remove = (link: PinLink): void => disk.remove(toLinkRoot(folder, link.path));
  const keyOf = (file: PublishedFile): string => `${file.sha256} ${file.path}`;
  const idle = new LRUCache<string, PinLink>({
    max: idleMax,
    dispose(link, key, reason) {
      if (reason !== 'delete') drop(key, link);
    },
  });

  async function createLink(file: PublishedFile, signal: AbortSignal): Promise<PinLink> {
    const path = join(folder, String(linkCount++), file.path);
    try {
      const from = locateFile(archive, file.path);
      // Link only regular files: a folder cannot be linked, and a pipe must not be read.
      if (!disk.isFile(from)) throw new ReplacedError(file.path);
      disk.makeVolatileFolder(dirname(path));
      linkOrCopy(disk, from, path);
      const stamp = disk.stamp(path) ?? '';
      const key = `${file.sha256} ${stamp}`;
      if (!checked.has(key)) {
        if ((await hashLink(path, file, signal)) !== file.sha256) throw toMismatchError(file);
        checked.set(key, true);
      }
      return { path, stamp, users: 0, isDropped: false };
    } catch (error) {
      disk.remove(toLinkRoot(folder, path));
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw new ReplacedError(file.path);
      throw error;
    }
  }

  async function hashLink(path: string, file: PublishedFile, signal: AbortSignal): Promise<string> {
    // A damaged file may be larger than listed.
    if (file.bytes > smallFileBytesMax || disk.size(path) !== file.bytes)
      return await hashChunks(disk.readStream(path), signal);
    if (++smallFilesHashed % smallFilesPerTurn === 0) await new Promise((resolve) => setImmediate(resolve));
    return sha256(disk.read(path));
  }

  const toMismatchError = (file: PublishedFile): Error =>
    isListed(archive.readManifest(), file)
      ? new DamageError(`${file.path} is damaged: its sha256 differs from the manifest's. Run oddslake verify.`)
      : new ReplacedError(file.path);

  async function acquirePin(file: PublishedFile, signal: AbortSignal): Promise<PooledPin> {
    const key = keyOf(file);
    for (;;) {
      const existing = links.get(key);
      const pending = existing ?? createLink(file, signal);
      if (existing === undefined) links.set(key, pending);
      const link = await pending.catch((error: unknown) => {
        if (links.get(key) === pending) links.delete(key);
        // Another reader was aborted, not this one: try again.
        if (existing !== undefined && !signal.aborted && !(error instanceof ReplacedError)) return undefined;
        throw error;
      });
      if (link === undefined || link.isDropped) continue;
      idle.delete(key);
      if (disk.stamp(link.path) === link.stamp) {
        link.users++;
        const isSame = (): boolean => disk.stamp(link.path) === link.stamp;
        return { path: link.path, isUnmodified: isSame, release: () => releasePin(key, link) };
      }
      // The file was modified: pin the file that is published now.
      links.delete(key);
      link.isDropped = true;
      if (link.users === 0) remove(link);
    }
  }

  function drop(key: string, link: PinLink): void {
    links.delete(key);
    link.isDropped = true;
    remove(link);
  }

  function releasePin(key: string, link: PinLink): void {
    link.users--;
    if (link.users > 0) return;
    if (link.isDropped) remove(link);
    else if (listed === undefined || listed.has(key)) idle.set(key, link);
    else drop(key, link);
  }

  return {
    folder,
    acquire: acquirePin,
    releaseStale(manifest) {
      // A pull may bring another generation of the same number.
      const commit = `${manifest.generation} ${manifest.commit_id ?? ''}`;
      if (commit === currentCommit) return;
      currentCommit = commit;
      listed = new Set(listManifestFiles(manifest).map(keyOf));
      for (const [key, link] of [...idle.entries()]) {
        if (listed.has(key)) continue;
        idle.delete(key);
        drop(key, link);
      }
    },
    close: release,
  };
}

/** Whether a manifest lists a file with the same hash. */
export const isListed = (manifest: Manifest, { path, sha256 }: PublishedFile): boolean =>
  listManifestFiles(manifest).some((file) => file.path === path && file.sha256 === sha256);

/** The folder of one link, below that of the pool. */
const toLinkRoot = (folder: string, path: string): string =>
  join(folder, path.slice(folder.length + 1).split(/[\\/]/)[0]!);

async function hashChunks(chunks: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  for await (const chunk of chunks) {
    signal.throwIfAborted();
    hash.update(chunk);
  }
  return hash.digest('hex');
}
