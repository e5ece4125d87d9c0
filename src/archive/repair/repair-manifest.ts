import { join } from 'node:path';
import { DamageError } from '../../core/errors.ts';
import { getMeta, manifestHashKey, manifestTextKey } from '../../state/meta.ts';
import { sha256 } from '../disk/file-system.ts';
import { replaceRootFile } from '../generation/commit.ts';
import type { ArchiveLayout } from '../layout.ts';
import { listManifestFiles, type Manifest, parseManifest } from '../manifest.ts';
import type { Archive } from '../open-archive.ts';
import { quarantineCopy } from './quarantine-file.ts';

const manifestName = 'manifest.json';

/** What became of manifest.json. */
export interface ManifestRepair {
  readonly what: 'missing' | 'differs';
  /** Where the other one is now, relative to the root; null where there was none. */
  readonly setAside: string | null;
}

/**
 * Puts the manifest of the last publish back, where manifest.json is another or missing. Holder of the write lock only,
 * with no intent open.
 * @throws DamageError where the state does not know its text, or the tree is that of another manifest
 */
export function repairManifest(archive: Archive): ManifestRepair | null {
  const { state, disk, layout } = archive;
  const hash = getMeta(state.db, manifestHashKey);
  if (state.generation() === 0 || hash === undefined) return null;
  const found =
    disk.size(layout.manifestPath) === null ? null : Buffer.from(disk.read(layout.manifestPath)).toString('utf8');
  if (found !== null && sha256(Buffer.from(found)) === hash) return null;
  const known = getMeta(state.db, manifestTextKey);
  const isKnown = known !== undefined && sha256(Buffer.from(known)) === hash;
  if (!isKnown)
    throw createUnrepairableError(
      layout,
      found,
      'the state does not know its text, an older oddslake having written it',
    );
  if (found !== null && isFromAnotherTree(archive, found, known))
    throw createUnrepairableError(layout, found, 'files are as it says');
  const kept = found === null ? null : quarantineCopy(archive, state.generation(), manifestName);
  const isStillLast = state.db.transaction(() => {
    if (getMeta(state.db, manifestHashKey) !== hash) return false;
    replaceRootFile(archive, manifestName, known);
    disk.syncFolder(layout.root);
    return true;
  });
  if (!isStillLast) return null;
  return { what: found === null ? 'missing' : 'differs', setAside: kept };
}

/** What to do where a repair can do nothing; `why` is a clause. */
const createUnrepairableError = (layout: ArchiveLayout, found: string | null, why: string): DamageError =>
  new DamageError(
    found === null
      ? `${layout.manifestPath} is missing, and ${why}: put the one of the last publish back from a backup or a snapshot.`
      : `${layout.manifestPath} is not the one that the last publish wrote, and ${why}. Where the whole tree was restored from a backup, remove ${layout.privateFolder} to start from what is there; else put the manifest of the last publish back from a backup or a snapshot.`,
  );

/**
 * Whether files are as this manifest says and not as ours does: then the tree was restored from a backup, and to mend it
 * by what the state knows would take good files for bad ones.
 */
function isFromAnotherTree({ disk, layout }: Archive, text: string, ours: string): boolean {
  let found: Manifest;
  try {
    found = parseManifest(text, layout.manifestPath);
  } catch {
    return false;
  }
  const known = new Map(
    listManifestFiles(parseManifest(ours, 'the state database')).map((file) => [file.path, file.sha256]),
  );
  return listManifestFiles(found)
    .filter((file) => known.get(file.path) !== file.sha256)
    .some((file) => {
      const at = join(layout.root, file.path);
      return disk.isFile(at) && disk.size(at) === file.bytes && sha256(disk.read(at)) === file.sha256;
    });
}
