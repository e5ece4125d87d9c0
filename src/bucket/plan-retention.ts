import { dayMs } from '../base/window.ts';
import { isDataPath, parseManifestSequence, parseTableMarker, type TableMarker } from './bucket-manifest.ts';
import type { ListedObject } from './object-store.ts';

// What retention may remove, as functions of values. All times are the server's: the clock of this machine may be wrong.

export interface RetentionRules {
  /** Manifests that are kept however old they are; at least one. */
  readonly keepGenerations: number;
  /** How long an object is kept after the manifest that dropped it, in ms. */
  readonly keepMs: number;
}

export const toRetentionRules = (settings: { keepGenerations: number; keepDays: number }): RetentionRules => ({
  keepGenerations: settings.keepGenerations,
  keepMs: settings.keepDays * dayMs,
});

interface KeptManifests {
  /** Paths whose objects must stay, newest first. */
  readonly held: readonly string[];
  /** Paths of manifests that may be removed. */
  readonly expired: readonly string[];
}

/**
 * Splits the manifests of a bucket into those whose objects must stay and the others. A manifest is held if it is among
 * the last, or if it was replaced less than `keepMs` ago: somebody may still be reading it. Manifests of pushes that
 * lost a race have the sequence of the winner and are held as long.
 * @param current sequence of the manifest that was swapped in last; later ones are not in force yet and are held
 */
export function splitManifests(
  listed: readonly ListedObject[],
  current: number,
  nowMs: number,
  { keepGenerations, keepMs }: RetentionRules,
): KeptManifests {
  const held: string[] = [];
  const expired: string[] = [];
  const bySequence = new Map<number, ListedObject[]>();
  for (const object of listed) {
    const sequence = parseManifestSequence(object.path);
    if (sequence !== null) bySequence.set(sequence, [...(bySequence.get(sequence) ?? []), object]);
  }
  const sequences = [...bySequence.keys()].sort((a, b) => b - a);
  let replacedAt = Number.POSITIVE_INFINITY;
  for (const sequence of sequences) {
    const objects = bySequence.get(sequence)!;
    const isHeld = sequence > current - keepGenerations || nowMs - replacedAt < keepMs;
    for (const { path } of objects) (isHeld ? held : expired).push(path);
    // A time that lies ahead of the others must not shorten how long an earlier manifest is held.
    replacedAt = sequence > current ? replacedAt : Math.max(...objects.map(({ modifiedAt }) => modifiedAt));
  }
  return { held, expired };
}

/** What tables need beyond the held manifests. */
interface TableNeeds {
  /** Paths of manifests that may be removed. */
  readonly expired: readonly string[];
  /** The markers whose manifest is not held. Its objects of the marker's dataset must stay, and the manifest itself. */
  readonly markers: readonly TableMarker[];
}

/**
 * Excepts the manifests that tables name from those that may be removed. A table that does not follow each push may name
 * objects of a manifest that is much older than the held ones.
 * @param tables the paths in tables/, listed after the current manifest was swapped in
 */
export function keepForTables({ held, expired }: KeptManifests, tables: readonly string[]): TableNeeds {
  const declared = tables.map(parseTableMarker).filter((marker) => marker !== null);
  const named = new Set(declared.map(({ manifest }) => manifest));
  return {
    expired: expired.filter((path) => !named.has(path)),
    markers: declared.filter(({ manifest }) => !held.includes(manifest)),
  };
}

/**
 * Lists the objects that retention may remove unless a held manifest names them: those of our form that have been there
 * for `keepMs`. Younger ones may belong to a push that has not swapped its manifest yet.
 * @param named paths that the current manifest names
 */
export const listCandidates = (
  data: Iterable<ListedObject>,
  named: ReadonlySet<string>,
  nowMs: number,
  { keepMs }: RetentionRules,
): string[] =>
  [...data]
    .filter(({ path, modifiedAt }) => isDataPath(path) && !named.has(path) && nowMs - modifiedAt >= keepMs)
    .map(({ path }) => path);
