import type { Manifest } from '../archive/manifest.ts';
import { type Archive, readCheckedManifest } from '../archive/open-archive.ts';

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
