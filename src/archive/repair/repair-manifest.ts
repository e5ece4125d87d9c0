import { join } from 'node:path';
import { DamageError } from '../../core/errors.ts';
import { getMeta, manifestHashKey, manifestTextKey } from '../../state/meta.ts';
import { sha256 } from '../disk/file-system.ts';
import { replace } from '../generation/commit.ts';
import type { Layout } from '../layout.ts';
import { allFiles, type Manifest, parseManifest } from '../manifest.ts';
import type { Archive } from '../open-archive.ts';
import { setAside } from './quarantine-file.ts';

const name = 'manifest.json';

/** What became of manifest.json. */
export interface MendedManifest {
  readonly what: 'missing' | 'differs';
  /** Where the other one is now, relative to the root; null where there was none. */
  readonly setAside: string | null;
}

/**
 * Puts the manifest of the last publish back, where manifest.json is another or missing. Holder of the write lock only,
 * with no intent open.
 * @throws DamageError where the state does not know its text, or the tree is that of another manifest
 */
export function mendManifest(archive: Archive): MendedManifest | null {
  const { state, disk, layout } = archive;
  const hash = getMeta(state.db, manifestHashKey);
  if (state.generation() === 0 || hash === undefined) return null;
  const found = disk.size(layout.manifest) === null ? null : Buffer.from(disk.read(layout.manifest)).toString('utf8');
  if (found !== null && sha256(Buffer.from(found)) === hash) return null;
  const known = getMeta(state.db, manifestTextKey);
  const isKnown = known !== undefined && sha256(Buffer.from(known)) === hash;
  if (!isKnown)
    throw cannotMend(layout, found, 'the state does not know its text, an older oddslake having written it');
  if (found !== null && isOfAnotherTree(archive, found, known)) throw cannotMend(layout, found, 'files are as it says');
  const kept = found === null ? null : setAside(archive, state.generation(), name);
  const isStillLast = state.db.transaction(() => {
    if (getMeta(state.db, manifestHashKey) !== hash) return false;
    replace(archive, name, known);
    disk.syncFolder(layout.root);
    return true;
  });
  if (!isStillLast) return null;
  return { what: found === null ? 'missing' : 'differs', setAside: kept };
}

/** What to do where a repair can do nothing; `why` is a clause. */
const cannotMend = (layout: Layout, found: string | null, why: string): DamageError =>
  new DamageError(
    found === null
      ? `${layout.manifest} is missing, and ${why}: put the one of the last publish back from a backup or a snapshot.`
      : `${layout.manifest} is not the one that the last publish wrote, and ${why}. Where the whole tree was restored from a backup, remove ${layout.private} to start from what is there; else put the manifest of the last publish back from a backup or a snapshot.`,
  );

/**
 * Whether files are as this manifest says and not as ours does: then the tree was restored from a backup, and to mend it
 * by what the state knows would take good files for bad ones.
 */
function isOfAnotherTree({ disk, layout }: Archive, text: string, ours: string): boolean {
  let found: Manifest;
  try {
    found = parseManifest(text, layout.manifest);
  } catch {
    return false;
  }
  const known = new Map(allFiles(parseManifest(ours, 'the state database')).map((file) => [file.path, file.sha256]));
  return allFiles(found)
    .filter((file) => known.get(file.path) !== file.sha256)
    .some((file) => {
      const at = join(layout.root, file.path);
      return disk.isFile(at) && disk.size(at) === file.bytes && sha256(disk.read(at)) === file.sha256;
    });
}
