import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import type { Archive } from '../../src/archive/archive.ts';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { listManifestFiles } from '../../src/archive/format/manifest.ts';
import { dayMs } from '../../src/base/window.ts';
import { parseRemoteManifest, remoteManifestPath } from '../../src/bucket/bucket-manifest.ts';
import type { ObjectStore } from '../../src/bucket/object-store.ts';
import { type PushOptions, type PushResult, pushArchive } from '../../src/bucket/push.ts';
import { answer, append, day0, opened, publishNow } from '../archive/scratch.ts';
import { silent } from '../harness/job-context.ts';

// Small archives, and pushes of them.

let pushes = 0;

export const pushNow = (
  archive: Archive,
  store: ObjectStore,
  options: Partial<PushOptions> = {},
): Promise<PushResult> =>
  pushArchive(archive, store, {
    retention: { keepGenerations: 30, keepMs: 7 * dayMs },
    isSingleWriter: false,
    restores: false,
    id: `test${++pushes}`,
    log: silent,
    ...options,
  });

/** An archive with a published generation of one day. */
export async function publishedArchive(root?: string): Promise<Archive> {
  const archive = opened({ parts: 1, ...(root !== undefined && { root }) });
  await publishMore(archive, 0);
  return archive;
}

/** Publishes another generation, whose ticks are of day `n`. */
export async function publishMore(archive: Archive, n: number, price = 0.5): Promise<void> {
  append(archive, answer('AAA', [[day0 + n * dayMs, price]]), answer('BBB', [[day0 + n * dayMs + 1, price]]));
  await publishNow(archive, day0 + (n + 3) * dayMs);
}

/** The hash of each file of the local generation, by path: what a reader of the whole generation gets. */
export const hashesOf = (archive: Archive): Record<string, string> =>
  Object.fromEntries(listManifestFiles(archive.readManifest()).map(({ path, sha256: hash }) => [path, hash]));

/** Reads a whole generation as a reader does: the manifest once, then its objects. Null before the first push. */
export async function readGeneration(store: ObjectStore): Promise<Record<string, string> | null> {
  const found = await store.get(remoteManifestPath);
  if (found === null) return null;
  const { files } = parseRemoteManifest(Buffer.from(found.bytes).toString('utf8'), store.url);
  const entries = await Promise.all(
    files.map(
      async ({ path, key }) => [path, sha256((await store.get(key))?.bytes ?? Buffer.from('missing'))] as const,
    ),
  );
  return Object.fromEntries(entries);
}

export const readRoot = (archive: Archive, name: string): string =>
  readFileSync(join(archive.layout.root, name), 'utf8');
