import { formatOwner, listManifestFiles, type Manifest, readOwner } from '../archive/format/manifest.ts';
import { type RemoteManifest, type StoredFile, toDataPath, toFileId } from './bucket-manifest.ts';
import type { ListedObject } from './object-store.ts';

// What a push does, as functions of values.

/** The archive's generation that is to be pushed. */
interface LocalGeneration {
  readonly manifest: Manifest;
  /** SHA-256 of its manifest.json. */
  readonly sha256: string;
  /** Whether the archive had the generation that is in the bucket; null if it does not know. See `hasHadGeneration`. */
  readonly hasHadRemote: boolean | null;
}

export type PushPlan =
  | { readonly kind: 'unchanged' }
  /** Another archive, or a generation that this one does not descend from; `reason` is a sentence. */
  | { readonly kind: 'refuse'; readonly reason: string }
  | {
      readonly kind: 'push';
      readonly sequence: number;
      /** Objects of the last manifest that stay, by file ID. */
      readonly kept: ReadonlyMap<string, StoredFile>;
    };

/**
 * Plans a push onto the manifest that is in the bucket; null if there is none.
 * @param restores whether an older generation may be pushed on top (`--force-restore`)
 */
export function planPush(remote: RemoteManifest | null, local: LocalGeneration, restores: boolean): PushPlan {
  if (remote === null) return { kind: 'push', sequence: 1, kept: new Map() };
  const { manifest, bucket } = remote;
  if (bucket.manifest_sha256 === local.sha256) return { kind: 'unchanged' };
  const foreign = describeForeign(manifest, local.manifest);
  if (foreign !== null) return { kind: 'refuse', reason: foreign };
  const older = describeNotDescending(remote, local);
  if (older !== null && !restores) return { kind: 'refuse', reason: older };
  const wanted = new Set(listManifestFiles(local.manifest).map(toFileId));
  const kept = remote.files.filter((file) => wanted.has(toFileId(file)));
  return { kind: 'push', sequence: bucket.sequence + 1, kept: new Map(kept.map((file) => [toFileId(file), file])) };
}

/** Why the bucket holds another archive; null if it does not. Sources may have been added since. */
function describeForeign(remote: Manifest, local: Manifest): string | null {
  const [theirs, ours] = [readOwner(remote), readOwner(local)];
  const isSameOwner =
    theirs.sources.length === 0
      ? ours.sources.length === 0 && ours.upstream === theirs.upstream
      : theirs.sources.every(({ name }) => ours.sources.some((one) => one.name === name));
  if (!isSameOwner)
    return `it has the archive of the ${formatOwner(theirs)}, and this one is of the ${formatOwner(ours)}. Use another prefix.`;
  return null;
}

/** Why the archive's generation is not a later one of the same history as the bucket's; null if it is. */
function describeNotDescending({ manifest: theirs, bucket }: RemoteManifest, local: LocalGeneration): string | null {
  const { manifest: ours, hasHadRemote } = local;
  if (ours.previous_sha256 === bucket.manifest_sha256) return null;
  const advice = 'To push this archive on top of it nevertheless: --force-restore.';
  if (ours.generation < theirs.generation)
    return `it has generation ${theirs.generation}, and this archive has generation ${ours.generation}. Was the archive restored from a backup, or is it a copy? To get the newer one: oddslake pull. ${advice}`;
  if (hasHadRemote ?? (ours.generation > theirs.generation && isContinuation(theirs, ours))) return null;
  return `its generation ${theirs.generation} is not one that this archive (generation ${ours.generation}) had: both were published to since they were one archive. To unite them: pull that one into a new folder, import this archive there, and push it. ${advice}`;
}

/**
 * Whether `later` is a continuation of `earlier`, judged by their files, for an archive whose record of its generations
 * does not reach back to `earlier`: what `later` has from that time is as it was then, and what it lacks was replaced or removed since.
 */
function isContinuation(earlier: Manifest, later: Manifest): boolean {
  const before = new Set(listManifestFiles(earlier).map(toFileId));
  const since = earlier.generation;
  const files = listManifestFiles(later);
  if (!files.every((file) => file.generation > since || before.has(toFileId(file)))) return false;
  const now = new Map(files.map((file) => [file.path, file]));
  const removed = new Set((later.removed ?? []).filter((one) => one.generation > since).map(({ path }) => path));
  return listManifestFiles(earlier).every(({ path, sha256 }) => {
    const file = now.get(path);
    return file === undefined ? removed.has(path) : file.sha256 === sha256 || file.generation > since;
  });
}

/** Where a file's object is to be, and whether an object is there that an earlier push left unfinished. */
export interface Placement {
  readonly path: string;
  /** The object that is there; null: it has to be uploaded. */
  readonly found: ListedObject | null;
}

/**
 * Chooses the object of a file that the last manifest does not have. An object that an interrupted push left is used
 * again while it is young: the retention of an earlier push, which may be at work at this moment, removes only objects older
 * than `keepMs`, and this push takes less than the other half. An older object is left alone, and the file gets one of
 * another name.
 * @param present the objects in data/ by path, listed after the last manifest was read
 * @param nowMs the server's time then; null if it is unknown
 * @param keepMs see `RetentionRules`
 */
export function placeFile(
  file: Pick<StoredFile, 'path' | 'sha256'>,
  sequence: number,
  present: ReadonlyMap<string, ListedObject>,
  nowMs: number | null,
  keepMs: number,
): Placement {
  const usual = toDataPath(file);
  const found = present.get(usual);
  if (found === undefined) return { path: usual, found: null };
  if (nowMs !== null && nowMs - found.modifiedAt < keepMs / 2) return { path: usual, found };
  // No earlier push can have listed this name: its sequence did not exist.
  const other = toDataPath(file, sequence);
  return { path: other, found: present.get(other) ?? null };
}

/** What to do after a refused swap: another push came first. */
type SwapVerdict = 'done' | 'replan';

/** Judges the manifest that is in the bucket after a refused swap. */
export const judgeRefusedSwap = (remote: RemoteManifest | null, ourText: string): SwapVerdict =>
  // Ours, by a request whose response was lost, or by another push of the same generation.
  remote !== null && remote.text === ourText ? 'done' : 'replan';
