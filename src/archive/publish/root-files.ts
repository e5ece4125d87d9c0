import { sha256 } from '../disk/file-system.ts';
import { formatChecksums, type Manifest } from '../format/manifest.ts';
import { type Database, getMeta, rootTextsKey, setMeta } from '../journal/database.ts';
import { formatReadme } from './readme.ts';
import { formatViewsFile } from './views-sql.ts';

/** The texts at the archive's root beside manifest.json, by name: all of them follow from the manifest. */
export const formatRootFiles = (manifest: Manifest): Readonly<Record<string, string>> => ({
  SHA256SUMS: formatChecksums(manifest),
  'README.md': formatReadme(manifest),
  'views.sql': formatViewsFile(manifest),
});

/** Notes the texts that were written: what another build of this program would write of the same manifest is no proof. */
export function recordRootFileHashes(db: Database, texts: Readonly<Record<string, string>>): void {
  const hashes = Object.entries(texts).map(([name, text]) => [name, sha256(Buffer.from(text))]);
  setMeta(db, rootTextsKey, JSON.stringify(Object.fromEntries(hashes)));
}

/** The sha256 of each text as it was written, by name; undefined where an older state, or a rebuilt one, knows none. */
export function readRootFileHashes(db: Database): Readonly<Record<string, string>> | undefined {
  const noted = getMeta(db, rootTextsKey);
  return noted === undefined ? undefined : (JSON.parse(noted) as Record<string, string>);
}
