import { hash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Manifest } from '../../../src/archive/format/manifest.ts';

/** Checks each new manifest: it follows the previous one and has its hash. */
export function startChain(root: string): { readonly wrongs: string[]; onName(path: string): void; reset(): void } {
  const wrongs: string[] = [];
  let before: { readonly manifest: Manifest; readonly sha256: string } | null = null;
  return {
    wrongs,
    onName(path) {
      if (relative(root, path) !== 'manifest.json' || !existsSync(path)) return;
      const text = readFileSync(join(root, 'manifest.json'));
      const manifest = JSON.parse(text.toString()) as Manifest;
      const sha256 = hash('sha256', text);
      // Finishing an interrupted publish writes the same manifest again; a repair that restores bytes changes its ID.
      if (before !== null && sha256 !== before.sha256 && !isSameGeneration(before.manifest, manifest)) {
        const { generation, previous_sha256 } = manifest;
        if (generation !== before.manifest.generation + 1)
          wrongs.push(`manifest: generation ${generation} comes after ${before.manifest.generation}`);
        if (previous_sha256 !== before.sha256)
          wrongs.push(
            `manifest: generation ${generation} follows a different manifest than ${before.manifest.generation}`,
          );
      }
      before = { manifest, sha256 };
    },
    reset() {
      before = null;
    },
  };
}

/** Whether two manifests differ only in the ID of their commit. */
const isSameGeneration = (a: Manifest, b: Manifest): boolean => textWithoutId(a) === textWithoutId(b);

const textWithoutId = ({ commit_id: _, ...rest }: Manifest): string => JSON.stringify(rest);
