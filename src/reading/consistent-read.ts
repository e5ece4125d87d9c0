import type { Manifest } from '../archive/manifest.ts';
import type { Archive } from '../archive/open-archive.ts';
import { DamageError } from '../core/errors.ts';
import type { ManifestWatcher } from './manifest-watcher.ts';

/** Publishes that may come in between before what was read is taken as it is. */
const attemptsMax = 20;

/**
 * What is published and what is journaled, read as of one generation: `read` is called again where a publish came in
 * between, which moves rows from the journal to files and replaces files.
 * @throws DamageError where a file differs from the manifest and no publish is the reason
 */
export async function readConsistently<T>(
  archive: Archive,
  current: ManifestWatcher,
  read: (manifest: Manifest) => T | Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const manifest = current.getManifest();
    const isOver = (): boolean => attempt === attemptsMax || archive.state.generation() === manifest.generation;
    try {
      const found = await read(manifest);
      if (isOver()) return found;
    } catch (error) {
      if (!(error instanceof DamageError) || isOver()) throw error;
    }
  }
}
