import { dirname, join } from 'node:path';
import { readRowGroups } from '../../state/file-metadata.ts';
import { sha256 } from '../disk/file-system.ts';
import type { Manifest, PublishedFile } from '../manifest.ts';
import type { Archive } from '../open-archive.ts';
import type { DatasetName } from '../parquet/schema.ts';
import { checkRootFiles, tryReadFile, type VerifyFinding } from '../verify/verify.ts';
import { findCopies } from './find-copies.ts';
import { salvageRowGroups } from './salvage-row-groups.ts';
import type { DamagedFile } from './types.ts';

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
