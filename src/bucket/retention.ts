import { dataFolder, manifestsFolder, type RemoteManifest, type StoredFile, toManifestPath } from './bucket-manifest.ts';
import { type ListedObject, type ObjectStore, StoreError } from './object-store.ts';
import { listCandidates, type RetentionRules, splitManifests } from './plan-retention.ts';

export interface RemovalResult {
  readonly removed: number;
  readonly warnings: readonly string[];
}

const nothing: RemovalResult = { removed: 0, warnings: [] };

/** Lists the objects in data/, by path. */
export async function listDataObjects(store: ObjectStore): Promise<Map<string, ListedObject>> {
  const present = new Map<string, ListedObject>();
  for await (const object of store.list(dataFolder)) present.set(object.path, object);
  return present;
}

/**
 * Removes objects that no held manifest names, and manifests that are no longer held: the manifests first, so that each
 * manifest that can be read has all its objects, wherever this is interrupted. Does nothing if the server does not state
 * the time, or a held manifest cannot be read.
 * @param data the objects in data/, listed before the current manifest was swapped in
 */
export async function removeExpired(
  store: ObjectStore,
  current: RemoteManifest,
  data: ReadonlyMap<string, ListedObject>,
  rules: RetentionRules,
): Promise<RemovalResult> {
  const nowMs = store.serverTimeMs();
  if (nowMs === null) return nothing;
  const { sequence } = current.bucket;
  const candidates = new Set(listCandidates(data.values(), new Set(current.files.map(({ key }) => key)), nowMs, rules));
  if (candidates.size === 0 && sequence <= rules.keepGenerations) return nothing;
  try {
    const listed: ListedObject[] = [];
    for await (const object of store.list(manifestsFolder)) listed.push(object);
    const { held, expired } = splitManifests(listed, sequence, nowMs, rules);
    const currentPath = toManifestPath(sequence, current.text);
    for (const path of held) {
      if (candidates.size === 0) break;
      if (path === currentPath) continue;
      const keys = await readNamedKeys(store, path);
      if (keys === null) return { removed: 0, warnings: [`nothing was removed: ${path} cannot be read`] };
      for (const key of keys) candidates.delete(key);
    }
    await store.remove(expired);
    await store.remove([...candidates]);
    return { removed: candidates.size, warnings: [] };
  } catch (error) {
    if (!(error instanceof StoreError) || error.failure !== 'credential') throw error;
    return { removed: 0, warnings: ['nothing was removed: the policy of this credential does not permit it'] };
  }
}

/** The keys that a kept manifest names; null if it cannot be read. */
async function readNamedKeys(store: ObjectStore, path: string): Promise<string[] | null> {
  const found = await store.get(path);
  if (found === null) return null;
  try {
    const { datasets } = JSON.parse(Buffer.from(found.bytes).toString('utf8')) as {
      datasets: Record<string, { files: StoredFile[] }>;
    };
    return Object.values(datasets).flatMap(({ files }) => files.map(({ key }) => key));
  } catch {
    return null;
  }
}
