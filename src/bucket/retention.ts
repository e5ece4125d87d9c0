import type { ReadManifest } from './bucket-manifest.ts';
import type { ListedObject, ObjectStore } from './object-store.ts';
import {
  type BucketState,
  countPushesPerListing,
  isSmallBucket,
  listLeftovers,
  planRemoval,
  type RetentionRules,
  updateState,
} from './plan-retention.ts';

/** Lists all objects below the prefix, by path. */
async function listObjects(store: ObjectStore): Promise<Map<string, ListedObject>> {
  const present = new Map<string, ListedObject>();
  for await (const object of store.list('')) present.set(object.path, object);
  return present;
}

/** What a push has to know of a bucket before it adds a manifest. */
export interface BucketSurvey {
  /** All objects, listed after the manifest was read; null if they were not. */
  readonly objects: ReadonlyMap<string, ListedObject> | null;
  /** As the next manifest has to state it, but for the current one. */
  readonly state: BucketState;
  /** Paths of what may be removed once the next manifest has been swapped in. */
  readonly removable: readonly string[];
}

/**
 * Plans the retention of a push. It lists all objects if that was long ago, or if a page has them all and nothing is due. A push
 * that lists because it is time removes nothing, and the next one does: so neither needs more than five requests beyond its
 * files, and those of the listing beyond a page.
 * @param next sequence of the manifest after whose swap the retention runs
 * @param mayHaveLeft whether a push from here may have left objects, which it lists too
 */
export async function surveyBucket(
  store: ObjectStore,
  remote: ReadManifest | null,
  next: number,
  mayHaveLeft: boolean,
  rules: RetentionRules,
): Promise<BucketSurvey> {
  if (remote === null)
    return { objects: await listObjects(store), state: { listed: 0, tables: [], earlier: [] }, removable: [] };
  const nowMs = store.serverTimeMs();
  const plan = (state: BucketState): BucketSurvey => {
    const { expired, earlier } = nowMs === null ? { expired: [], ...state } : planRemoval(state, next, nowMs, rules);
    return { objects: null, state: { ...state, earlier }, removable: expired };
  };
  const known = plan(updateState(remote, null));
  const pushesPerListing = countPushesPerListing(rules);
  const isTime = next - remote.bucket.listed > pushesPerListing;
  if (!mayHaveLeft && !isTime && !(isSmallBucket(remote) && known.removable.length === 0)) return known;
  const objects = await listObjects(store);
  const state = updateState(remote, objects);
  const left = nowMs === null ? [] : listLeftovers(objects.values(), remote, state.tables, nowMs, rules);
  if (!mayHaveLeft && isTime && pushesPerListing > 1 && left.length === 0) return { objects, state, removable: [] };
  const { removable, ...survey } = plan(state);
  return { ...survey, objects, removable: [...removable, ...left] };
}
