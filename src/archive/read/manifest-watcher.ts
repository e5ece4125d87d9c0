import { DamageError } from '../../base/errors.ts';
import type { Manifest } from '../format/manifest.ts';
import { type Archive, readCheckedManifest } from '../open-archive.ts';

/** What an archive is at the moment, for those who look often: read again only where something was written. */
export interface ManifestWatcher {
  getManifest(): Manifest;
  /** A number that grows whenever something was written to the state: what was read under it still holds. */
  getVersion(): number;
}

/** Watches an archive that this or any other process writes. */
export function watchManifest(archive: Archive): ManifestWatcher {
  // https://sqlite.org/pragma.html#pragma_data_version: it grows once another connection has committed; what this one
  // wrote itself is counted beside it.
  const sql = 'select data_version + total_changes() as version from pragma_data_version';
  const version = (): number => archive.state.db.one<{ version: number }>(sql)!.version;
  let held: { version: number; readonly manifest: Manifest } | undefined;
  return {
    getVersion: version,
    getManifest() {
      const now = version();
      if (held !== undefined && held.version !== now && held.manifest.generation === archive.state.generation())
        held.version = now;
      if (held === undefined || held.version !== now) held = { version: now, manifest: readCheckedManifest(archive) };
      return held.manifest;
    },
  };
}

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
