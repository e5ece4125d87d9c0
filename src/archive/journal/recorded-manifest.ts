import { sha256 } from '../disk/file-system.ts';
import { type Database, getMeta, manifestHashKey, manifestPartsKey, setMeta } from './database.ts';

/**
 * The text of the last published manifest.json, which the state keeps to finish an interrupted publish and to repair the
 * file. It is kept as a list of parts, each named by its SHA-256 and never changed: the days of a month, the files of a
 * dataset and month, and the market lists of a month. A publish stores only the parts that it changes, so what it writes here
 * does not grow with the archive.
 */

/** Where a month begins: in days, files of a dataset, or market lists. Files without a day begin with their dataset. */
const partStart =
  /^ *(?:\{\n *"(?:path|date)": "([^"/]*\/(?:date=\d{4}-\d{2})?|\d{4}-\d{2})|"(\d{4}-\d{2})-\d{2}": \{)/gm;

/** Splits the text of a manifest into parts, whose concatenation is the text. */
export function splitManifestText(text: string): string[] {
  const parts: string[] = [];
  let from = 0;
  let current = '';
  for (const { index, 1: ofFiles, 2: ofDays } of text.matchAll(partStart)) {
    const next = ofFiles ?? ofDays!;
    if (next === current) continue;
    current = next;
    if (index > from) parts.push(text.slice(from, index));
    from = index;
  }
  parts.push(text.slice(from));
  return parts;
}

/** Records the text and hash of the current manifest.json. Part of a transaction. @param hash its SHA-256 */
export function recordManifest(db: Database, text: string, hash: string): void {
  const listed = splitManifestText(text).map((part) => [sha256(Buffer.from(part)), part] as const);
  const parts = new Map(listed);
  const stored = new Set(db.all<{ sha256: string }>('select sha256 from manifest_parts').map((row) => row.sha256));
  for (const [name, part] of parts)
    if (!stored.has(name)) db.run('insert into manifest_parts values (?, ?)', name, part);
  for (const name of stored) if (!parts.has(name)) db.run('delete from manifest_parts where sha256 = ?', name);
  setMeta(db, manifestPartsKey, JSON.stringify(listed.map(([name]) => name)));
  setMeta(db, manifestHashKey, hash);
}

/** The recorded text; undefined if only its hash is recorded, as in a rebuilt state, or a part is missing. */
export function readRecordedManifestText(db: Database): string | undefined {
  const listed = getMeta(db, manifestPartsKey);
  if (listed === undefined) return undefined;
  const parts = (JSON.parse(listed) as string[]).map(
    (name) => db.one<{ text: string }>('select text from manifest_parts where sha256 = ?', name)?.text,
  );
  return parts.includes(undefined) ? undefined : parts.join('');
}
