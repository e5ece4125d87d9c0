import { sha256 } from '../disk/file-system.ts';
import { formatChecksums, type Manifest } from '../format/manifest.ts';
import { type Database, getMeta, rootTextsKey, setMeta } from '../journal/database.ts';
import { formatReadme } from './readme.ts';
import { formatViewsFile } from './views-sql.ts';

/** The root files besides manifest.json, by name. All are derived from the manifest. */
export const formatRootFiles = (manifest: Manifest): Readonly<Record<string, string>> => ({
  SHA256SUMS: formatChecksums(manifest),
  'README.md': formatReadme(manifest),
  'views.sql': formatViewsFile(manifest),
});

/** Records the hashes of the root files as written. Another build may derive other texts from the same manifest. */
export function recordRootFileHashes(db: Database, texts: Readonly<Record<string, string>>): void {
  const hashes = Object.entries(texts).map(([name, text]) => [name, sha256(Buffer.from(text))]);
  setMeta(db, rootTextsKey, JSON.stringify(Object.fromEntries(hashes)));
}

/** The sha256 of each root file as written, by name; undefined in a state database that is older or rebuilt. */
export function readRootFileHashes(db: Database): Readonly<Record<string, string>> | undefined {
  const recorded = getMeta(db, rootTextsKey);
  return recorded === undefined ? undefined : (JSON.parse(recorded) as Record<string, string>);
}
