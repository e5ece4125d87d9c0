import { dayMs } from '../base/window.ts';
import {
  type BucketSection,
  type EarlierManifest,
  parseDataPath,
  parseManifestSequence,
  parseTableMarker,
  type ReadManifest,
  type RemoteManifest,
  type TableMarker,
  toManifestPath,
} from './bucket-manifest.ts';
import type { ListedObject } from './object-store.ts';

// What retention may remove, as functions of values. All times are the server's: the clock of this machine may be wrong.
// An object is named by the manifests from the sequence in its name to the last that named it, without a break. So the
// current manifest, which says of each object that is held when it was dropped, decides alone; no other one is read.

export interface RetentionRules {
  /** Manifests that are kept however old they are; at least one. */
  readonly keepGenerations: number;
  /** How long an object is kept after the manifest that dropped it, in ms; more than 0. */
  readonly keepMs: number;
}

export const toRetentionRules = (settings: { keepGenerations: number; keepDays: number }): RetentionRules => ({
  keepGenerations: settings.keepGenerations,
  keepMs: settings.keepDays * dayMs,
});

/** What the current manifest states, with what has been learned since it was written. */
export type BucketState = Pick<BucketSection, 'listed' | 'tables' | 'earlier'>;

/** @param objects all objects, if they were listed since the manifest was read */
export function updateState(
  { bucket, modifiedAt }: ReadManifest,
  objects: ReadonlyMap<string, ListedObject> | null,
): BucketState {
  const { earlier, sequence } = bucket;
  const listed = objects === null ? bucket.listed : sequence;
  const tables =
    objects === null ? bucket.tables : [...objects.keys()].filter((path) => parseTableMarker(path) !== null);
  const dated = earlier.map((one, i) => (i === earlier.length - 1 ? { ...one, replaced_at: modifiedAt } : one));
  return { listed, tables, earlier: dated };
}

/** The earlier manifests that the next one has to list: those that stay, and the current one. */
export const addReplaced = (
  staying: readonly EarlierManifest[],
  { bucket, text, files }: RemoteManifest,
  keys: ReadonlySet<string>,
): EarlierManifest[] => [
  ...staying,
  {
    manifest: toManifestPath(bucket.sequence, text),
    replaced_at: null,
    dropped: files.map(({ key }) => key).filter((key) => !keys.has(key)),
  },
];

/**
 * Plans what may be removed once the manifest `next` has been swapped in. An earlier manifest is held if it is among the last,
 * or if it was replaced less than `keepMs` ago: somebody may still be reading it. The objects of a table's dataset are held as
 * those of a held manifest are, and so is the manifest of its marker.
 *
 * A table's maintainer creates its marker, and then checks that the manifest of the marker is still the current one. So the
 * markers of manifests before the one that was the current one at a listing were listed, and nothing later is removed.
 * @param next sequence of the manifest
 * @returns the paths, manifests first, so that each manifest that can be read has all its objects, and what stays
 */
export function planRemoval(
  { listed, tables, earlier }: BucketState,
  next: number,
  nowMs: number,
  { keepGenerations, keepMs }: RetentionRules,
): { readonly expired: readonly string[]; readonly earlier: readonly EarlierManifest[] } {
  const markers = parseMarkers(tables);
  const expired: string[] = [];
  const staying: EarlierManifest[] = [];
  const objects: string[] = [];
  let heldBefore = 0;
  for (const entry of earlier) {
    const { manifest, replaced_at: replacedAt, dropped } = entry;
    const last = parseManifestSequence(manifest)!;
    const isYoung = replacedAt === null || nowMs - replacedAt < keepMs;
    if (isYoung || last > next - keepGenerations || last >= listed) {
      staying.push(entry);
      heldBefore = last;
      continue;
    }
    const isNeeded = (key: string): boolean =>
      parseDataPath(key)!.sequence <= heldBefore || isMarked(key, last, markers);
    const needed = dropped.filter(isNeeded);
    objects.push(...dropped.filter((key) => !isNeeded(key)));
    const isNamed = markers.some((marker) => marker.manifest === manifest);
    if (!isNamed) expired.push(manifest);
    if (isNamed || needed.length > 0) staying.push({ ...entry, dropped: needed });
  }
  return { expired: [...expired, ...objects], earlier: staying };
}

const parseMarkers = (tables: readonly string[]): TableMarker[] =>
  tables.map(parseTableMarker).filter((marker) => marker !== null);

/** Whether the manifest of a marker names an object, which `last` was the last one to name. */
function isMarked(key: string, last: number, markers: readonly TableMarker[]): boolean {
  const { dataset, sequence } = parseDataPath(key) ?? { dataset: '', sequence: 0 };
  return markers.some((marker) => {
    const at = parseManifestSequence(marker.manifest)!;
    return marker.dataset === dataset && sequence <= at && at <= last;
  });
}

/**
 * Lists the objects that pushes left which were killed or came second, and what a removal has not removed: those of our form
 * that are in no manifest, and that have been there for `keepMs`. A younger one may be of a push that was overtaken and goes
 * on with it. Those of a later sequence are of a push that is under way, or was interrupted: the next one uses them.
 * @param objects all objects, listed after the manifest was read
 */
export function listLeftovers(
  objects: Iterable<ListedObject>,
  { bucket, text, files }: RemoteManifest,
  tables: readonly string[],
  nowMs: number,
  { keepMs }: RetentionRules,
): string[] {
  const { sequence: current, earlier } = bucket;
  const known = new Set([toManifestPath(current, text), ...files.map(({ key }) => key)]);
  for (const { manifest, dropped } of earlier) for (const path of [manifest, ...dropped]) known.add(path);
  const markers = parseMarkers(tables);
  for (const { manifest } of markers) known.add(manifest);
  const isLeft = (path: string): boolean => {
    const sequence = parseManifestSequence(path) ?? parseDataPath(path)?.sequence ?? Number.POSITIVE_INFINITY;
    return sequence <= current && !known.has(path) && !isMarked(path, current, markers);
  };
  const left = [...objects].filter(({ path, modifiedAt }) => nowMs - modifiedAt >= keepMs && isLeft(path));
  // Manifests first.
  return left.map(({ path }) => path).sort((a, b) => (a < b ? 1 : -1));
}

/** Pushes after which all objects are listed again. Fewer than the manifests that are kept, so that their markers are known. */
export const countPushesPerListing = ({ keepGenerations }: RetentionRules): number =>
  Math.min(Math.max(1, keepGenerations >> 1), 100);

/** Whether a page of a listing, of 1,000 objects, has all of them, as far as the manifest knows. */
export const isSmallBucket = ({ files, bucket: { earlier } }: RemoteManifest): boolean =>
  earlier.reduce((sum, { dropped }) => sum + 1 + dropped.length, files.length) < 990;
