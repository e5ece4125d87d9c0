import { join } from 'node:path';
import type { DamageKind, FileDamage } from '../../state/damage.ts';
import { listManifestFiles, type PublishedFile } from '../manifest.ts';
import { type Archive, locateFile } from '../open-archive.ts';
import type { VerifyFinding } from './verify.ts';

/**
 * Which published files are missing or of another size than published. It reads no byte of them, so that every run can
 * afford it. Where a publish goes on meanwhile, it looks again at the new generation.
 */
export function checkFileSizes(archive: Archive): FileDamage[] {
  for (;;) {
    const { generation, datasets } = archive.readManifest();
    const damage = Object.values(datasets).flatMap(({ files }) =>
      files.flatMap((file) => checkFileSize(archive, file)),
    );
    if (damage.length === 0 || archive.readManifest().generation === generation) return damage;
  }
}

function checkFileSize(archive: Archive, file: PublishedFile): FileDamage[] {
  const { disk, layout } = archive;
  const at = join(layout.root, file.path);
  if (disk.size(at) === file.bytes) return [];
  // A publish that is being carried out moves it from the stage to its place, if not at this moment.
  const staged = locateFile(archive, file.path);
  if (staged !== at && disk.size(staged) === file.bytes) return [];
  const size = disk.size(at);
  if (size === file.bytes) return [];
  return [{ path: file.path, kind: size === null ? 'missing' : 'size differs' }];
}

/** A finding in the words in which it is remembered. */
export function classifyFinding(archive: Archive, { path, what }: VerifyFinding): DamageKind {
  const { disk, layout } = archive;
  if (what === 'missing') return 'missing';
  if (what === 'not in the manifest') return 'orphan';
  const published = findFilesAt(archive, new Set([path]))[0];
  const size = disk.isFile(join(layout.root, path)) ? disk.size(join(layout.root, path)) : null;
  return published !== undefined && size !== published.bytes ? 'size differs' : 'checksum mismatch';
}

/** The files of the current manifest that are at these paths. */
export const findFilesAt = (archive: Archive, paths: ReadonlySet<string>): PublishedFile[] =>
  paths.size === 0 ? [] : listManifestFiles(archive.readManifest()).filter(({ path }) => paths.has(path));
