import { hash } from 'node:crypto';
import { existsSync, readFileSync } from 'node:fs';
import { join, relative } from 'node:path';
import type { Manifest } from '../../../src/archive/manifest.ts';

/** Looks at each manifest that is put in its place: it goes on from the one before, whose hash it has. */
export function startChain(root: string): { readonly wrongs: string[]; onName(path: string): void; beginAnew(): void } {
  const wrongs: string[] = [];
  let before: { readonly generation: number; readonly sha256: string } | null = null;
  return {
    wrongs,
    onName(path) {
      if (relative(root, path) !== 'manifest.json' || !existsSync(path)) return;
      const text = readFileSync(join(root, 'manifest.json'));
      const { generation, previous_sha256 } = JSON.parse(text.toString()) as Manifest;
      const sha256 = hash('sha256', text);
      // Whoever finishes what was broken off puts the same one there again.
      if (before !== null && sha256 !== before.sha256) {
        if (generation !== before.generation + 1)
          wrongs.push(`manifest: generation ${generation} comes after ${before.generation}`);
        if (previous_sha256 !== before.sha256)
          wrongs.push(`manifest: generation ${generation} follows another one than ${before.generation}`);
      }
      before = { generation, sha256 };
    },
    beginAnew() {
      before = null;
    },
  };
}
