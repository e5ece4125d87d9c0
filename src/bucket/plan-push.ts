import { formatOwner, listManifestFiles, type Manifest, readOwner } from '../archive/format/manifest.ts';
import { type RemoteManifest, type StoredFile, toFileId } from './bucket-manifest.ts';

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
