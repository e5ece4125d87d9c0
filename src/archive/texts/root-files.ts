import type { Database } from '../../state/database.ts';
import { getMeta, rootTextsKey, setMeta } from '../../state/meta.ts';
import { sha256 } from '../disk/file-system.ts';
import { checksumsText, type Manifest } from '../manifest.ts';
import { readmeText } from './readme.ts';
import { viewsText } from './views-file.ts';

/** The texts at the archive's root beside manifest.json, by name: all of them follow from the manifest. */
export const rootTexts = (manifest: Manifest): Readonly<Record<string, string>> => ({
  SHA256SUMS: checksumsText(manifest),
  'README.md': readmeText(manifest),
  'views.sql': viewsText(manifest),
});

/** Notes the texts that were written: what another build of this program would write of the same manifest is no proof. */
export function noteRootTexts(db: Database, texts: Readonly<Record<string, string>>): void {
  const hashes = Object.entries(texts).map(([name, text]) => [name, sha256(Buffer.from(text))]);
  setMeta(db, rootTextsKey, JSON.stringify(Object.fromEntries(hashes)));
}

/** The sha256 of each text as it was written, by name; undefined where an older state, or a rebuilt one, knows none. */
export function notedRootTexts(db: Database): Readonly<Record<string, string>> | undefined {
  const noted = getMeta(db, rootTextsKey);
  return noted === undefined ? undefined : (JSON.parse(noted) as Record<string, string>);
}
