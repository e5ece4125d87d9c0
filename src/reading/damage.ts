import { listManifestFiles, type Manifest } from '../archive/manifest.ts';
import type { Archive } from '../archive/open-archive.ts';
import { computeVerifiedThrough } from '../core/verified.ts';
import { readRecordedDamage } from '../state/damage.ts';
import { readHashTimes } from '../state/hash-times.ts';

const listedMax = 20;

/** What is remembered of damage, and since when every published byte has been hashed; times are epoch ms. */
export function readDamageStatus({ state }: Archive, manifest: Manifest) {
  const damage = readRecordedDamage(state.db);
  const hashedAt = readHashTimes(state.db);
  return {
    /** Null where some were never hashed, as far as is known, or nothing is published. */
    verified_through: computeVerifiedThrough(
      listManifestFiles(manifest).map((file) => ({ bytes: file.bytes, hashedAt: hashedAt(file) })),
    ),
    damaged: damage.slice(0, listedMax).map(({ path, kind, foundAt }) => ({ path, kind, found_at: foundAt })),
    damaged_count: damage.length,
  };
}
