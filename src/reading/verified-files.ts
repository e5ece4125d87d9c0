import { LRUCache } from 'lru-cache';
import { type Archive, readPublished } from '../archive/archive.ts';
import type { PublishedFile } from '../archive/manifest.ts';

/** Published files whose sha256 was checked, the latest used of them kept in memory. */
export interface VerifiedFiles {
  /**
   * The bytes of a file as the manifest that `file` is from lists it.
   * @throws DamageError where they differ: it is damaged, or was replaced by a later generation
   */
  bytes(file: PublishedFile): Uint8Array;
  /** What is in memory at the moment. */
  kept(): { readonly files: number; readonly bytes: number };
}

/** @param bytesMax what is kept in memory; at least 0 */
export function openVerifiedFiles(archive: Archive, bytesMax: number): VerifiedFiles {
  // What a file is, is its hash: a replaced one is another, and falls out by itself.
  const kept = new LRUCache<string, Uint8Array>({
    maxSize: Math.max(1, bytesMax),
    sizeCalculation: (b) => b.length || 1,
  });
  return {
    bytes(file) {
      const held = kept.get(file.sha256);
      if (held !== undefined) return held;
      const bytes = readPublished(archive, file);
      kept.set(file.sha256, bytes);
      return bytes;
    },
    kept: () => ({ files: kept.size, bytes: kept.calculatedSize }),
  };
}
