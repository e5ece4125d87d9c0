import type { Archive } from '../archive/archive.ts';
import type { Manifest } from '../archive/manifest.ts';

/** What an archive is at the moment, for those who look often: read again only where something was written. */
export interface Current {
  manifest(): Manifest;
  /** A number that changes whenever another connection has written to the state: what was read under it still holds. */
  version(): number;
}

export function watchCurrent(archive: Archive): Current {
  // https://sqlite.org/pragma.html#pragma_data_version: it differs once another connection has committed.
  const version = (): number => archive.state.db.one<{ data_version: number }>('pragma data_version')!.data_version;
  let held: { readonly version: number; readonly manifest: Manifest } | undefined;
  return {
    version,
    manifest() {
      const now = version();
      if (held === undefined || held.version !== now) held = { version: now, manifest: archive.manifest() };
      return held.manifest;
    },
  };
}
