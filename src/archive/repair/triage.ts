import { dirname, join } from 'node:path';
import { rowGroupsOf } from '../../state/file-metadata.ts';
import { sha256 } from '../disk/file-system.ts';
import type { Manifest, PublishedFile } from '../manifest.ts';
import type { Archive } from '../open-archive.ts';
import type { DatasetName } from '../parquet/schema.ts';
import { bytesNow, type Finding, rootFindings } from '../verify/verify.ts';
import { lookElsewhere } from './find-copies.ts';
import { salvage } from './salvage-row-groups.ts';
import type { Broken } from './types.ts';

/** What is to be done about the findings of a verification. */
export interface Examined {
  /** Files that can be had again to the byte. */
  readonly whole: readonly { readonly finding: Finding; bytes(): Uint8Array }[];
  readonly broken: readonly (Broken & { readonly finding: Finding })[];
  /** Files that no manifest names. */
  readonly orphans: readonly Finding[];
  /** Texts at the root. */
  readonly texts: readonly Finding[];
}

/** Looks at what was found once more: a publish may have replaced some of it meanwhile. Changes nothing. */
export function examine(archive: Archive, base: Manifest, findings: readonly Finding[]): Examined {
  const { disk, layout, state } = archive;
  const byPath = new Map(
    Object.entries(base.datasets).flatMap(([dataset, { files }]) =>
      files.map((file): [string, { dataset: DatasetName; file: PublishedFile }] => [
        file.path,
        { dataset: dataset as DatasetName, file },
      ]),
    ),
  );
  const isThere = ({ path }: Finding): boolean => {
    const at = join(layout.root, path);
    // A link to nowhere is there too.
    return disk.stamp(at) !== null || disk.isLink(at);
  };
  const rest = findings.filter(({ path }) => dirname(path) !== '.');
  const orphans = rest.filter((finding) => !byPath.has(finding.path) && isThere(finding));
  const damaged = rest.flatMap((finding) => {
    const published = byPath.get(finding.path);
    if (published === undefined) return [];
    const bytes = bytesNow(archive, finding.path);
    return bytes && sha256(bytes) === published.file.sha256 ? [] : [{ finding, ...published }];
  });
  const wanted = damaged.map(({ file }) => file);
  const places = [...damaged.map(({ finding }) => finding), ...orphans].filter(isThere).map(({ path }) => path);
  const found = lookElsewhere(archive, wanted, places);
  const whole: Examined['whole'][number][] = [];
  const broken: Examined['broken'][number][] = [];
  for (const { finding, file, dataset } of damaged) {
    const elsewhere = found.get(file.sha256);
    const record = rowGroupsOf(state.db, file.path, file.sha256);
    const salvaged = () => salvage(bytesNow(archive, file.path) ?? null, record, file.rows);
    if (elsewhere !== undefined) whole.push({ finding, bytes: () => disk.read(join(layout.root, elsewhere)) });
    else if (salvaged().whole !== null) whole.push({ finding, bytes: () => salvaged().whole! });
    else broken.push({ finding, file, dataset, salvaged });
  }
  return { whole, broken, orphans, texts: rootFindings(archive, base) };
}
