import { allFiles, type Manifest } from '../archive/manifest.ts';
import type { Archive } from '../archive/open-archive.ts';
import { verifiedThrough } from '../core/verified.ts';
import { knownDamage } from '../state/damage.ts';
import { readHashTimes } from '../state/hash-times.ts';

const listMax = 20;

/** What is remembered of damage, and since when every published byte has been hashed; times are epoch ms. */
export function readDamage({ state }: Archive, manifest: Manifest) {
  const damage = knownDamage(state.db);
  const hashedAt = readHashTimes(state.db);
  return {
    /** Null where some were never hashed, as far as is known, or nothing is published. */
    verified_through: verifiedThrough(
      allFiles(manifest).map((file) => ({ bytes: file.bytes, hashedAt: hashedAt(file) })),
    ),
    damaged: damage.slice(0, listMax).map(({ path, kind, foundAt }) => ({ path, kind, found_at: foundAt })),
    damaged_count: damage.length,
  };
}
