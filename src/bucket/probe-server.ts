import { sha256 } from '../archive/disk/file-system.ts';
import { hourMs } from '../base/window.ts';
import { probeFolder } from './bucket-manifest.ts';
import { type ObjectStore, StoreError, type WriteCondition } from './object-store.ts';

interface ProbeResult {
  /** Whether a write is refused if its condition does not hold. */
  readonly hasConditionalWrites: boolean;
  /** Whether the server keeps the SHA-256 of objects, so that it can be compared without a download. */
  readonly hasChecksums: boolean;
}

/** An ETag that no object has. */
const strangeEtag = '"00000000000000000000000000000000"';

/**
 * Tries what a push relies on, before the first one: an object can be created only once, and replaced if, and only if, it is the
 * expected one. Some servers accept such a write without checking the condition. Removes what earlier probes could not.
 * @param id random, so that two probes do not meet
 */
export async function probeServer(store: ObjectStore, id: string): Promise<ProbeResult> {
  const path = `${probeFolder}${id}`;
  const bytes = Buffer.from(`oddslake probe ${id}\n`);
  const hash = sha256(bytes);
  const isRefused = async (condition: WriteCondition): Promise<boolean> => {
    try {
      return (await store.put(path, bytes, hash, condition, 'text/plain')) === null;
    } catch (error) {
      // 501: the header is unknown.
      if (error instanceof StoreError && error.failure === 'unsupported') return false;
      throw error;
    }
  };
  try {
    await store.put(path, bytes, hash, 'always', 'text/plain');
    const { sha256: kept } = (await store.head(path)) ?? { sha256: null };
    let hasConditionalWrites = (await isRefused('absent')) && (await isRefused({ etag: strangeEtag }));
    // Where a proxy weakens ETags, the right one is refused too, and each later push would seem to lose a race.
    const right = (await store.head(path))?.etag;
    if (hasConditionalWrites && right !== undefined) hasConditionalWrites = !(await isRefused({ etag: right }));
    return { hasConditionalWrites, hasChecksums: kept === hash };
  } finally {
    // A policy may not permit it. The object is small and nothing reads it.
    await removeProbes(store, path).catch(() => {});
  }
}

/** Removes a probe, and those that were left an hour ago: others may be at work. */
async function removeProbes(store: ObjectStore, own: string): Promise<void> {
  const paths = [own];
  const before = (store.serverTimeMs() ?? 0) - hourMs;
  for await (const { path, modifiedAt } of store.list(probeFolder))
    if (modifiedAt < before && path !== own) paths.push(path);
  await store.remove(paths);
}
