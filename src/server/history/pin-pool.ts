import { createHash } from 'node:crypto';
import { dirname, join } from 'node:path';
import { LRUCache } from 'lru-cache';
import type { Archive } from '../../archive/archive.ts';
import { linkOrCopy, sha256 } from '../../archive/disk/file-system.ts';
import { listManifestFiles, type Manifest, type PublishedFile } from '../../archive/format/manifest.ts';
import { acquireScratchFolder } from '../../archive/read/pin-generation.ts';
import { locateFile } from '../../archive/read-published-file.ts';
import { entriesMax } from '../../base/entries-max.ts';
import { DamageError } from '../../base/errors.ts';

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

/**
 * Pins of published files: hard links whose bytes were verified against their hash. The files of one manifest therefore
 * stay consistent while they are read, even if a publish intervenes.
 */
export class PinPool {
  /** The folder that contains all links. */
  readonly folder: string;
  readonly close: () => void;
  private readonly archive: Archive;
  private readonly links = new Map<string, Promise<PinLink>>();
  private readonly checked = new LRUCache<string, true>(entriesMax(checkedMax));
  private readonly idle = new LRUCache<string, PinLink>({
    max: idleMax,
    dispose: (link, key, reason) => {
      if (reason !== 'delete') this.drop(key, link);
    },
  });
  private linkCount = 0;
  private smallFilesHashed = 0;
  private currentCommit: string | undefined;
  private listed: ReadonlySet<string> | undefined;

  /** @param id distinguishes the pools of one process */
  constructor(archive: Archive, id: string) {
    const { folder, release } = acquireScratchFolder(archive, id);
    this.archive = archive;
    this.folder = folder;
    this.close = release;
  }

  /** Removes pins of files that are only in generations before this one. */
  releaseStale(manifest: Manifest): void {
    // A pull may bring another generation of the same number.
    const commit = `${manifest.generation} ${manifest.commit_id ?? ''}`;
    if (commit === this.currentCommit) return;
    this.currentCommit = commit;
    this.listed = new Set(listManifestFiles(manifest).map(toLinkKey));
    for (const [key, link] of [...this.idle.entries()]) {
      if (this.listed.has(key)) continue;
      this.idle.delete(key);
      this.drop(key, link);
    }
  }

  private async createLink(file: PublishedFile, signal: AbortSignal): Promise<PinLink> {
    const path = join(this.folder, String(this.linkCount++), file.path);
    try {
      const from = locateFile(this.archive, file.path);
      // Link only regular files: a folder cannot be linked, and a pipe must not be read.
      if (!this.archive.disk.isFile(from)) throw new ReplacedError(file.path);
      this.archive.disk.makeVolatileFolder(dirname(path));
      linkOrCopy(this.archive.disk, from, path);
      const stamp = this.archive.disk.stamp(path) ?? '';
      const key = `${file.sha256} ${stamp}`;
      if (!this.checked.has(key)) {
        if ((await this.hashLink(path, file, signal)) !== file.sha256) throw this.toMismatchError(file);
        this.checked.set(key, true);
      }
      return { path, stamp, users: 0, isDropped: false };
    } catch (error) {
      this.archive.disk.remove(toLinkRoot(this.folder, path));
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw new ReplacedError(file.path);
      throw error;
    }
  }

  private async hashLink(path: string, file: PublishedFile, signal: AbortSignal): Promise<string> {
    // A damaged file may be larger than listed.
    if (file.bytes > smallFileBytesMax || this.archive.disk.size(path) !== file.bytes)
      return await hashChunks(this.archive.disk.readStream(path), signal);
    if (++this.smallFilesHashed % smallFilesPerTurn === 0) await new Promise((resolve) => setImmediate(resolve));
    return sha256(this.archive.disk.read(path));
  }

  private toMismatchError(file: PublishedFile): Error {
    return isListed(this.archive.readManifest(), file)
      ? new DamageError(`${file.path} is damaged: its sha256 differs from the manifest's. Run oddslake verify.`)
      : new ReplacedError(file.path);
  }

  /**
   * Pins a file; call `release` on the result.
   * @throws ReplacedError if a later generation has replaced the file, or is about to; DamageError if the file is not as
   * published
   */
  async acquire(file: PublishedFile, signal: AbortSignal): Promise<PooledPin> {
    const key = toLinkKey(file);
    for (;;) {
      const existing = this.links.get(key);
      const pending = existing ?? this.createLink(file, signal);
      if (existing === undefined) this.links.set(key, pending);
      const link = await pending.catch((error: unknown) => {
        if (this.links.get(key) === pending) this.links.delete(key);
        // Another reader was aborted, not this one: try again.
        if (existing !== undefined && !signal.aborted && !(error instanceof ReplacedError)) return undefined;
        throw error;
      });
      if (link === undefined || link.isDropped) continue;
      this.idle.delete(key);
      if (this.archive.disk.stamp(link.path) === link.stamp) {
        link.users++;
        const isSame = (): boolean => this.archive.disk.stamp(link.path) === link.stamp;
        return { path: link.path, isUnmodified: isSame, release: () => this.releasePin(key, link) };
      }
      // The file was modified: pin the file that is published now.
      this.links.delete(key);
      link.isDropped = true;
      if (link.users === 0) this.remove(link);
    }
  }

  private drop(key: string, link: PinLink): void {
    this.links.delete(key);
    link.isDropped = true;
    this.remove(link);
  }

  private releasePin(key: string, link: PinLink): void {
    link.users--;
    if (link.users > 0) return;
    if (link.isDropped) this.remove(link);
    else if (this.listed === undefined || this.listed.has(key)) this.idle.set(key, link);
    else this.drop(key, link);
  }

  private remove(link: PinLink): void {
    this.archive.disk.remove(toLinkRoot(this.folder, link.path));
  }
}

const toLinkKey = (file: PublishedFile): string => `${file.sha256} ${file.path}`;

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
