import { sha256 } from '../archive/disk/file-system.ts';
import { UsageError } from '../base/errors.ts';
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
 * Tries what a push relies on, before the first one: an object can be created only once, and replaced only if it is the
 * expected one. Some servers accept such a write without checking the condition.
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
    const hasConditionalWrites = (await isRefused('absent')) && (await isRefused({ etag: strangeEtag }));
    return { hasConditionalWrites, hasChecksums: kept === hash };
  } finally {
    // A policy may not permit it. The object is small and nothing reads it.
    await store.remove([path]).catch(() => {});
  }
}

/** @throws UsageError if a push by several machines at once could lose one of them */
export function requireConditionalWrites(store: ObjectStore, isSupported: boolean, isSingleWriter: boolean): void {
  if (isSupported || isSingleWriter) return;
  throw new UsageError(
    `${store.url} is on a server without conditional writes: of two pushes at once, one could be lost. If only this machine pushes there, set bucket.single_writer to true.`,
  );
}
