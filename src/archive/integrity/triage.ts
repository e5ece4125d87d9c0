import { dirname, join } from 'node:path';
import type { Archive } from '../archive.ts';
import { type Disk, sha256 } from '../disk/file-system.ts';
import type { DatasetName } from '../format/datasets.ts';
import { damagedFilesFolder } from '../format/layout.ts';
import type { Manifest, PublishedFile } from '../format/manifest.ts';
import { readRowGroups } from '../journal/published-files.ts';
import { type DamagedFile, salvageRowGroups } from './salvage-row-groups.ts';
import { checkRootFiles, isUnreadableError, tryReadFile, type VerifyFinding } from './verify.ts';

/** The findings of a verification, grouped by how they are repaired. */
export interface RepairTriage {
  /** Files that can be restored byte for byte. */
  readonly restorable: readonly { readonly finding: VerifyFinding; bytes(): Uint8Array }[];
  readonly damaged: readonly (DamagedFile & { readonly finding: VerifyFinding })[];
  /** Files that the manifest does not list. */
  readonly orphans: readonly VerifyFinding[];
  /** Damaged or missing root files. */
  readonly texts: readonly VerifyFinding[];
}

/**
 * Checks the findings again, because a publish may have replaced some of the files, and groups them. Changes nothing.
 */
export function triageFindings(archive: Archive, base: Manifest, findings: readonly VerifyFinding[]): RepairTriage {
  const { disk, layout, state } = archive;
  const byPath = new Map(
    Object.entries(base.datasets).flatMap(([dataset, { files }]) =>
      files.map((file): [string, { dataset: DatasetName; file: PublishedFile }] => [
        file.path,
        { dataset: dataset as DatasetName, file },
      ]),
    ),
  );
  const exists = ({ path }: VerifyFinding): boolean => {
    const at = join(layout.root, path);
    // A broken link counts as existing.
    return disk.stamp(at) !== null || disk.isLink(at);
  };
  const rest = findings.filter(({ path }) => dirname(path) !== '.');
  const orphans = rest.filter((finding) => !byPath.has(finding.path) && exists(finding));
  const damaged = rest.flatMap((finding) => {
    const published = byPath.get(finding.path);
    if (published === undefined) return [];
    const bytes = tryReadFile(archive, finding.path);
    return bytes && sha256(bytes) === published.file.sha256 ? [] : [{ finding, ...published }];
  });
  const damagedFiles = damaged.map(({ file }) => file);
  const searchPaths = [...damaged.map(({ finding }) => finding), ...orphans].filter(exists).map(({ path }) => path);
  const copies = findCopies(archive, damagedFiles, searchPaths);
  const restorable: RepairTriage['restorable'][number][] = [];
  const unrestorable: RepairTriage['damaged'][number][] = [];
  for (const { finding, file, dataset } of damaged) {
    const copy = copies.get(file.sha256);
    const record = readRowGroups(state.db, file.path, file.sha256);
    const salvage = () => salvageRowGroups(tryReadFile(archive, file.path) ?? null, record, file.rows);
    if (copy !== undefined) restorable.push({ finding, bytes: () => disk.read(join(layout.root, copy)) });
    else if (salvage().wholeFile !== null) restorable.push({ finding, bytes: () => salvage().wholeFile! });
    else unrestorable.push({ finding, file, dataset, salvage });
  }
  return { restorable, damaged: unrestorable, orphans, texts: checkRootFiles(archive, base) };
}

/**
 * Searches for intact copies of published files: under the path of another damaged file, among orphans, or in the
 * quarantine. Reads only files whose size matches one of `damagedFiles`.
 * @param searchPaths paths to search besides the quarantine, relative to the root
 * @returns paths of the copies by sha256, relative to the root
 */
export function findCopies(
  archive: Archive,
  damagedFiles: readonly PublishedFile[],
  searchPaths: readonly string[],
): ReadonlyMap<string, string> {
  const { disk, layout } = archive;
  const sizes = new Set(damagedFiles.map((file) => file.bytes));
  const hashes = new Set(damagedFiles.map((file) => file.sha256));
  const copies = new Map<string, string>();
  for (const path of [...searchPaths, ...walkFiles(archive, damagedFilesFolder)]) {
    if (copies.size === hashes.size) break;
    const at = join(layout.root, path);
    if (!disk.isFile(at) || !sizes.has(disk.size(at)!)) continue;
    const hash = tryHashFile(disk, at);
    if (hash !== null && hashes.has(hash)) copies.set(hash, path);
  }
  return copies;
}

/** The hash of a file; null if the device cannot read it. */
function tryHashFile(disk: Disk, at: string): string | null {
  try {
    return sha256(disk.read(at));
  } catch (error) {
    if (isUnreadableError(error)) return null;
    throw error;
  }
}

function* walkFiles(archive: Archive, folder: string): Generator<string> {
  const { disk, layout } = archive;
  for (const name of disk.list(join(layout.root, folder))) {
    const path = `${folder}/${name}`;
    if (disk.isFolder(join(layout.root, path))) yield* walkFiles(archive, path);
    else yield path;
  }
}
