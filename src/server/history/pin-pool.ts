import { createHash } from 'node:crypto';
import { dirname, join } from 'node:path';
import { LRUCache } from 'lru-cache';
import { linkOrCopy } from '../../archive/disk/file-system.ts';
import { listManifestFiles, type Manifest, type PublishedFile } from '../../archive/format/manifest.ts';
import { type Archive, locateFile } from '../../archive/open-archive.ts';
import { acquireScratchFolder } from '../../archive/read/pin-generation.ts';
import { DamageError } from '../../base/errors.ts';

/**
 * Published files that stay as they are while they are read: hard links whose bytes were checked against their hash, so
 * that files of one manifest are of one generation, whatever is published meanwhile.
 */
export interface PinPool {
  /** The folder that all links are in. */
  readonly folder: string;
  /**
   * Takes a file down, to be given back.
   * @throws ReplacedError where a later generation has replaced it, or is about to; DamageError where it is not as
   * published
   */
  acquire(file: PublishedFile, signal: AbortSignal): Promise<PooledPin>;
  /** Lets go of what only generations before this one had. */
  releaseStale(manifest: Manifest): void;
  close(): void;
}

export interface PooledPin {
  /** Absolute; it ends as the published path does. */
  readonly path: string;
  /** Whether nobody wrote into it since it was checked. */
  isUnmodified(): boolean;
  release(): void;
}

/** A file is not there any more as a manifest lists it: a newer manifest is to be read. */
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
  /** Whether the next reader gets another: it goes with its last user. */
  isDropped: boolean;
}

/** Links that nobody reads and that are kept for the next one. */
const idleMax = 2048;

/** Files of which it is remembered that they were checked. */
const checkedMax = 100_000;

/** @param id tells shelves of one process apart */
export function openPinPool(archive: Archive, id: string): PinPool {
  const { disk } = archive;
  const { folder, release } = acquireScratchFolder(archive, id);
  const links = new Map<string, Promise<PinLink>>();
  const checked = new LRUCache<string, true>({ max: checkedMax });
  let placed = 0;
  let settled = -1;
  let listed: ReadonlySet<string> | undefined;

  const remove = (link: PinLink): void => disk.remove(toLinkRoot(folder, link.path));
  const keyOf = (file: PublishedFile): string => `${file.sha256} ${file.path}`;
  const idle = new LRUCache<string, PinLink>({
    max: idleMax,
    dispose(link, key, reason) {
      if (reason !== 'delete') drop(key, link);
    },
  });

  async function place(file: PublishedFile, signal: AbortSignal): Promise<PinLink> {
    const path = join(folder, String(placed++), file.path);
    try {
      const from = locateFile(archive, file.path);
      // A folder cannot be linked, and a pipe is not to be read.
      if (!disk.isFile(from)) throw new ReplacedError(file.path);
      disk.makeVolatileFolder(dirname(path));
      linkOrCopy(disk, from, path);
      const stamp = disk.stamp(path) ?? '';
      const key = `${file.sha256} ${stamp}`;
      if (!checked.has(key)) {
        if ((await hashPieces(disk.readStream(path), signal)) !== file.sha256) throw asAnother(file);
        checked.set(key, true);
      }
      return { path, stamp, users: 0, isDropped: false };
    } catch (error) {
      disk.remove(toLinkRoot(folder, path));
      if ((error as NodeJS.ErrnoException).code === 'ENOENT') throw new ReplacedError(file.path);
      throw error;
    }
  }

  const asAnother = (file: PublishedFile): Error =>
    isListed(archive.readManifest(), file)
      ? new DamageError(`${file.path} is damaged: its sha256 differs from the manifest's. Run oddslake verify.`)
      : new ReplacedError(file.path);

  async function take(file: PublishedFile, signal: AbortSignal): Promise<PooledPin> {
    const key = keyOf(file);
    for (;;) {
      const known = links.get(key);
      const coming = known ?? place(file, signal);
      if (known === undefined) links.set(key, coming);
      const link = await coming.catch((error: unknown) => {
        if (links.get(key) === coming) links.delete(key);
        // It was another reader that was stopped, not this one.
        if (known !== undefined && !signal.aborted && !(error instanceof ReplacedError)) return undefined;
        throw error;
      });
      if (link === undefined || link.isDropped) continue;
      idle.delete(key);
      if (disk.stamp(link.path) === link.stamp) {
        link.users++;
        const isSame = (): boolean => disk.stamp(link.path) === link.stamp;
        return { path: link.path, isUnmodified: isSame, release: () => give(key, link) };
      }
      // Somebody wrote into it: what is at its place now is to be looked at.
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

  function give(key: string, link: PinLink): void {
    link.users--;
    if (link.users > 0) return;
    if (link.isDropped) remove(link);
    else if (listed === undefined || listed.has(key)) idle.set(key, link);
    else drop(key, link);
  }

  return {
    folder,
    acquire: take,
    releaseStale(manifest) {
      if (manifest.generation === settled) return;
      settled = manifest.generation;
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

const isListed = (manifest: Manifest, { path, sha256 }: PublishedFile): boolean =>
  listManifestFiles(manifest).some((file) => file.path === path && file.sha256 === sha256);

/** The folder of one link, below the shelf's. */
const toLinkRoot = (folder: string, path: string): string =>
  join(folder, path.slice(folder.length + 1).split(/[\\/]/)[0]!);

async function hashPieces(pieces: AsyncIterable<Uint8Array>, signal: AbortSignal): Promise<string> {
  const hash = createHash('sha256');
  for await (const piece of pieces) {
    signal.throwIfAborted();
    hash.update(piece);
  }
  return hash.digest('hex');
}
