import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { datasets } from '../../src/archive/format/datasets.ts';
import { formatChecksums, type Manifest } from '../../src/archive/format/manifest.ts';
import {
  type Database,
  manifestHashKey,
  manifestTextKey,
  openDatabase,
  rootTextsKey,
  setMeta,
} from '../../src/archive/journal/database.ts';
import { schemaVersions } from '../../src/archive/journal/schema.ts';
import { toStateFilePath } from '../../src/archive/journal/state.ts';
import { decodeRows, encodeRows } from '../../src/archive/parquet/rows.ts';

/** What format 2 added: an archive of format 1 has none of it. */
const added = ['orderbooks', 'candles_1h', 'candles_1d', 'views.sql'];

/**
 * Turns an archive, which nobody has open, back to format 1. It is no archive that the first oddslake wrote: it is one
 * of today with the datasets, columns, texts and tables taken away that came later, which is all that the formats differ by.
 * README.md is left as it is; nothing reads it. Returns the manifest's text.
 */
export function turnedBack(root: string): string {
  for (const name of added) rmSync(join(root, name), { recursive: true, force: true });
  const path = join(root, 'manifest.json');
  const manifest = JSON.parse(readFileSync(path, 'utf8')) as Manifest;
  for (const file of manifest.datasets.coverage.files) {
    const bytes = withoutEvidence(readFileSync(join(root, file.path)));
    writeFileSync(join(root, file.path), bytes);
    Object.assign(file, { sha256: sha256(bytes), bytes: bytes.length });
  }
  const kept = Object.fromEntries(Object.entries(manifest.datasets).filter(([name]) => !added.includes(name)));
  const days = Object.fromEntries(
    Object.entries(manifest.days).map(([day, { state, exceptions: _, ...rest }]) => [
      day,
      { complete: state === 'complete', ...rest },
    ]),
  );
  const { reached: __, ...withoutReached } = manifest;
  const older = {
    ...withoutReached,
    days,
    format_version: 1,
    writer: 'oddslake 0.0.1',
    datasets: kept,
  } as unknown as Manifest;
  const text = `${JSON.stringify(older, null, 1)}\n`;
  writeFileSync(path, text);
  writeFileSync(join(root, 'SHA256SUMS'), formatChecksums(older));

  const db = openDatabase(toStateFilePath(join(root, '.oddslake')), 1000);
  turnStateBack(db, 1);
  db.run('delete from meta where key in (?, ?)', manifestTextKey, rootTextsKey);
  setMeta(db, manifestHashKey, sha256(Buffer.from(text)));
  db.close();
  return text;
}

/** A file of coverage with the columns that it had before format 3. */
function withoutEvidence(bytes: Uint8Array): Uint8Array {
  const older = datasets.coverage.columns.filter(({ name }) => name !== 'evidence' && name !== 'grain_ms');
  return encodeRows(older, decodeRows(older, bytes));
}

/** Takes away from a state whatever came after a version of its schema, and gives back what was dropped, empty. */
export function turnStateBack(db: Database, version: number): void {
  const earlier = schemaVersions.slice(0, version).join('\n');
  const later = schemaVersions.slice(version).join('\n');
  const tablesIn = (script: string): string[] => [...script.matchAll(/create table (\w+)/g)].map(([, table]) => table!);
  const kept = new Set(tablesIn(earlier));
  for (const table of tablesIn(later)) db.script(`drop table if exists ${table}`);
  for (const [, table, column] of later.matchAll(/alter table (\w+) add column (\w+)/g))
    if (kept.has(table!)) db.script(`alter table ${table} drop column ${column}`);
  for (const [, table, column] of later.matchAll(/alter table (\w+) drop column (\w+)/g))
    db.script(`alter table ${table} add column ${column} integer`);
  if (version < 6)
    db.script(`${earlier.match(/create table contested[^;]*;/)![0]}
      ${earlier.match(/create table imported[^;]*;/)?.[0] ?? ''}
      create table segments_1 (
      symbol text not null, t_from integer not null, t_to integer not null, fetched_at integer not null,
      origin text not null, primary key (symbol, t_from)) without rowid;
      insert into segments_1 select symbol, t_from, t_to, fetched_at, origin from segments;
      drop table segments;
      alter table segments_1 rename to segments;`);
  setMeta(db, 'schema_version', String(version));
}
