import { sha256 } from '../archive/disk/file-system.ts';
import { exitCodes, OddslakeError } from '../base/errors.ts';
import {
  formatRemoteManifest,
  type RemoteManifest,
  readRemoteManifest,
  restoreArchiveText,
  toFileId,
  toManifestPath,
} from './bucket-manifest.ts';
import { createFencedError } from './lease.ts';
import type { ObjectStore } from './object-store.ts';
import { createObject, swapManifest } from './push.ts';

const lostRacesMax = 5;

/**
 * Writes a fencing token into the manifest of a bucket, which otherwise stays as it is. From then on a push with an older token is
 * refused, also one that is uploading at this moment: its swap finds another manifest. Returns the manifest with the token; null if
 * nothing was pushed there yet.
 * @throws OddslakeError if the manifest has a newer token, or pushes kept coming first
 */
export async function fenceBucket(store: ObjectStore, token: number): Promise<RemoteManifest | null> {
  for (let attempt = 1; attempt <= lostRacesMax; attempt++) {
    const remote = await readRemoteManifest(store);
    if (remote === null) return null;
    const { sequence, conditional_writes: isConditional, fence = 0 } = remote.bucket;
    if (fence > token) throw createFencedError(store.url);
    if (fence === token) return remote;
    const next = {
      ...remote.bucket,
      sequence: sequence + 1,
      previous: toManifestPath(sequence, remote.text),
      fence: token,
    };
    const objects = new Map(remote.files.map((file) => [toFileId(file), file]));
    const text = formatRemoteManifest(restoreArchiveText(remote.text), next, objects);
    const bytes = Buffer.from(text);
    await createObject(
      store,
      toManifestPath(next.sequence, text),
      bytes,
      sha256(bytes),
      'application/json',
      isConditional,
    );
    // Read again, whether it was swapped or another push came first.
    await swapManifest(store, remote, text, isConditional);
  }
  throw new OddslakeError(
    exitCodes.busy,
    `Pushes to ${store.url} came first ${lostRacesMax} times, so its manifest could not be fenced. Try again.`,
  );
}
