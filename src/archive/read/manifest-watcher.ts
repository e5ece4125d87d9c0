import { DamageError } from '../../base/errors.ts';
import { type Archive, readCheckedManifest } from '../archive.ts';
import { listManifestFiles, type Manifest } from '../format/manifest.ts';
import { type CommitState, isLastCommit, readCommitState } from '../journal/intent.ts';

/** The published files of a generation. */
export interface CurrentFiles {
  readonly generation: number;
  /** Their SHA-256, in hexadecimal. */
  readonly hashes: ReadonlySet<string>;
}

/** Caches the current manifest. Reads it again only after a write to the state database. */
export type ManifestWatcher = ReturnType<typeof watchManifest>;

/**
 * Watches an archive that this and other processes write. Commits are compared rather than numbers of generations: a pull
 * may bring another generation of the same number.
 */
export function watchManifest(archive: Archive) {
  // https://sqlite.org/pragma.html#pragma_data_version increases with commits of other connections; total_changes()
  // counts the writes of this one. Two statements: the table pragma_data_version compiles the pragma for every query.
  const { db } = archive.state;
  const version = (): number =>
    db.one<{ data_version: number }>('pragma data_version')!.data_version +
    db.one<{ changes: number }>('select total_changes() as changes')!.changes;
  let cached: { version: number; readonly commit: CommitState; readonly manifest: Manifest } | undefined;
  const listeners: ((current: CurrentFiles) => void)[] = [];
  const notify = (manifest: Manifest): void => {
    if (listeners.length === 0) return;
    const hashes = new Set(listManifestFiles(manifest).map(({ sha256 }) => sha256));
    for (const listener of listeners) listener({ generation: manifest.generation, hashes });
  };
  return {
    /** A number that increases with every write to the state database. Data read at the same version is still current. */
    getVersion: version,
    /**
     * Calls `listener` whenever `getManifest` has read the manifest of another commit, so that caches can drop what it
     * replaced. Such an entry is never read again and would only wait to be evicted: a service that runs for days would fill
     * its caches with them.
     */
    onNewGeneration: (listener: (current: CurrentFiles) => void) => void listeners.push(listener),
    getManifest(): Manifest {
      const currentVersion = version();
      if (cached !== undefined && cached.version !== currentVersion && isLastCommit(db, cached.commit))
        cached.version = currentVersion;
      if (cached === undefined || cached.version !== currentVersion) {
        const isFirst = cached === undefined;
        // Read before the manifest: after a commit in between, the manifest is read again.
        const commit = readCommitState(db);
        cached = { version: currentVersion, commit, manifest: readCheckedManifest(archive) };
        if (!isFirst) notify(cached.manifest);
      }
      return cached.manifest;
    },
  };
}

/** Maximum number of attempts if publishes intervene. After that, the result of the last read is used. */
const attemptsMax = 20;

/**
 * Reads published files and the journal at one generation. Calls `read` again if a publish intervened, because a
 * publish moves rows from the journal to files and replaces files.
 * @throws DamageError if a file differs from the manifest for another reason than a publish
 */
export async function readConsistently<T>(
  archive: Archive,
  watcher: ManifestWatcher,
  read: (manifest: Manifest) => T | Promise<T>,
): Promise<T> {
  for (let attempt = 1; ; attempt++) {
    const commit = readCommitState(archive.state.db);
    const manifest = watcher.getManifest();
    const isFinal = (): boolean => attempt === attemptsMax || isLastCommit(archive.state.db, commit);
    try {
      const result = await read(manifest);
      if (isFinal()) return result;
    } catch (error) {
      if (!(error instanceof DamageError) || isFinal()) throw error;
    }
  }
}
