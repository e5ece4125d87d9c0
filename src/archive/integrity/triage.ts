import { dirname, join } from 'node:path';
import { type Disk, sha256 } from '../disk/file-system.ts';
import type { DatasetName } from '../format/datasets.ts';
import type { Manifest, PublishedFile } from '../format/manifest.ts';
import { readRowGroups } from '../journal/published-files.ts';
import type { Archive } from '../open-archive.ts';
import { damagedFilesFolder } from './quarantine-file.ts';
import { type DamagedFile, salvageRowGroups } from './salvage-row-groups.ts';
import { checkRootFiles, isUnreadableError, tryReadFile, type VerifyFinding } from './verify.ts';

/** What is to be done about the findings of a verification. */
export interface RepairTriage {
  /** Files that can be had again to the byte. */
  readonly restorable: readonly { readonly finding: VerifyFinding; bytes(): Uint8Array }[];
  readonly damaged: readonly (DamagedFile & { readonly finding: VerifyFinding })[];
  /** Files that no manifest names. */
  readonly orphans: readonly VerifyFinding[];
  /** Texts at the root. */
  readonly texts: readonly VerifyFinding[];
}

/** Looks at what was found once more: a publish may have replaced some of it meanwhile. Changes nothing. */
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
  const isThere = ({ path }: VerifyFinding): boolean => {
    const at = join(layout.root, path);
    // A link to nowhere is there too.
    return disk.stamp(at) !== null || disk.isLink(at);
  };
  const rest = findings.filter(({ path }) => dirname(path) !== '.');
  const orphans = rest.filter((finding) => !byPath.has(finding.path) && isThere(finding));
  const damaged = rest.flatMap((finding) => {
    const published = byPath.get(finding.path);
    if (published === undefined) return [];
    const bytes = tryReadFile(archive, finding.path);
    return bytes && sha256(bytes) === published.file.sha256 ? [] : [{ finding, ...published }];
  });
  const wanted = damaged.map(({ file }) => file);
  const places = [...damaged.map(({ finding }) => finding), ...orphans].filter(isThere).map(({ path }) => path);
  const found = findCopies(archive, wanted, places);
  const whole: RepairTriage['restorable'][number][] = [];
  const broken: RepairTriage['damaged'][number][] = [];
  for (const { finding, file, dataset } of damaged) {
    const elsewhere = found.get(file.sha256);
    const record = readRowGroups(state.db, file.path, file.sha256);
    const salvaged = () => salvageRowGroups(tryReadFile(archive, file.path) ?? null, record, file.rows);
    if (elsewhere !== undefined) whole.push({ finding, bytes: () => disk.read(join(layout.root, elsewhere)) });
    else if (salvaged().wholeFile !== null) whole.push({ finding, bytes: () => salvaged().wholeFile! });
    else broken.push({ finding, file, dataset, salvage: salvaged });
  }
  return { restorable: whole, damaged: broken, orphans, texts: checkRootFiles(archive, base) };
}

/**
 * Looks for the bytes of published files in other places: under the name of another file, as one that no manifest names,
 * or among what was set aside before. Reads only files that have the size of one that is wanted.
 * @param places paths below the root to look at, besides those that were set aside
 * @returns where the bytes of a sha256 are, below the root
 */
export function findCopies(
  archive: Archive,
  wanted: readonly PublishedFile[],
  places: readonly string[],
): ReadonlyMap<string, string> {
  const { disk, layout } = archive;
  const sizes = new Set(wanted.map((file) => file.bytes));
  const hashes = new Set(wanted.map((file) => file.sha256));
  const found = new Map<string, string>();
  for (const path of [...places, ...walkFiles(archive, damagedFilesFolder)]) {
    if (found.size === hashes.size) break;
    const at = join(layout.root, path);
    if (!disk.isFile(at) || !sizes.has(disk.size(at)!)) continue;
    const hash = tryHashFile(disk, at);
    if (hash !== null && hashes.has(hash)) found.set(hash, path);
  }
  return found;
}

/** Null where the bytes cannot be had: the damaged file itself may be one that the device does not give. */
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
