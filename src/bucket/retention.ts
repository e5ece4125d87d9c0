import {
  dataFolder,
  manifestsFolder,
  type RemoteManifest,
  type StoredFile,
  tablesFolder,
  toManifestPath,
} from './bucket-manifest.ts';
import { type ListedObject, type ObjectStore, StoreError } from './object-store.ts';
import { keepForTables, listCandidates, type RetentionRules, splitManifests } from './plan-retention.ts';

interface RemovalResult {
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
 * Removes objects that no held manifest and no table names, and manifests that are no longer held: the manifests first, so
 * that each manifest that can be read has all its objects, wherever this is interrupted. Does nothing if the server does not
 * state the time, or a held manifest cannot be read.
 *
 * The markers of tables are listed after the current manifest was swapped in. A table's maintainer creates its marker and
 * then checks that the manifest of the marker is still the current one, so either the marker is listed here, or the manifest
 * is the current one or a later one, whose objects are not removed.
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
    const kept = splitManifests(await list(store, manifestsFolder), sequence, nowMs, rules);
    const tables = (await list(store, tablesFolder)).map(({ path }) => path);
    const { expired, markers } = keepForTables(kept, tables);
    const currentPath = toManifestPath(sequence, current.text);
    const needs = [
      ...kept.held.filter((path) => path !== currentPath).map((manifest) => ({ manifest, folder: dataFolder })),
      ...markers.map(({ dataset, manifest }) => ({ manifest, folder: `${dataFolder}${dataset}/` })),
    ];
    for (const { manifest, folder } of needs) {
      if (candidates.size === 0) break;
      const keys = await readNamedKeys(store, manifest);
      if (keys === null) return { removed: 0, warnings: [`nothing was removed: ${manifest} cannot be read`] };
      for (const key of keys) if (key.startsWith(folder)) candidates.delete(key);
    }
    await store.remove(expired);
    await store.remove([...candidates]);
    return { removed: candidates.size, warnings: [] };
  } catch (error) {
    if (!(error instanceof StoreError) || error.failure !== 'credential') throw error;
    return { removed: 0, warnings: ['nothing was removed: the policy of this credential does not permit it'] };
  }
}

async function list(store: ObjectStore, folder: string): Promise<ListedObject[]> {
  const listed: ListedObject[] = [];
  for await (const object of store.list(folder)) listed.push(object);
  return listed;
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
