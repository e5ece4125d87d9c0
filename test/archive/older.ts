import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sha256 } from '../../src/archive/disk/disk.ts';
import { checksumsText, type Manifest } from '../../src/archive/manifest.ts';
import { openDatabase } from '../../src/state/database.ts';
import { schemaVersions } from '../../src/state/schema.ts';
import { manifestHashKey, manifestTextKey, rootTextsKey, setMeta, stateFile } from '../../src/state/state.ts';

/** What format 2 added: an archive of format 1 has none of it. */
const added = ['orderbooks', 'candles_1h', 'candles_1d', 'views.sql'];

/**
 * Turns an archive, which nobody has open, back to format 1. It is no archive that the first oddslake wrote: it is one
 * of today with the datasets, texts and tables taken away that came later, which is all that the two formats differ by.
 * README.md is left as it is; nothing reads it. Returns the manifest's text.
 */
export function turnedBack(root: string): string {
  for (const name of added) rmSync(join(root, name), { recursive: true, force: true });
  const path = join(root, 'manifest.json');
  const manifest = JSON.parse(readFileSync(path, 'utf8')) as Manifest;
  const datasets = Object.fromEntries(Object.entries(manifest.datasets).filter(([name]) => !added.includes(name)));
  const older = { ...manifest, format_version: 1, writer: 'oddslake 0.0.1', datasets } as Manifest;
  const text = `${JSON.stringify(older, null, 1)}\n`;
  writeFileSync(path, text);
  writeFileSync(join(root, 'SHA256SUMS'), checksumsText(older));

  const db = openDatabase(stateFile(join(root, '.oddslake')), 1000);
  const later = schemaVersions.slice(1).join('\n');
  for (const [, table] of later.matchAll(/create table (\w+)/g)) db.script(`drop table ${table}`);
  for (const [, table, column] of later.matchAll(/alter table (runs|symbols) add column (\w+)/g))
    db.script(`alter table ${table} drop column ${column}`);
  db.run('delete from meta where key in (?, ?)', manifestTextKey, rootTextsKey);
  setMeta(db, 'schema_version', '1');
  setMeta(db, manifestHashKey, sha256(Buffer.from(text)));
  db.close();
  return text;
}
