import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { type Column, type DatasetName, datasets } from '../../src/archive/format/datasets.ts';
import { formatChecksums, hasRows, type Manifest, type PublishedFile } from '../../src/archive/format/manifest.ts';
import {
  manifestHashKey,
  manifestPartsKey,
  openDatabase,
  rootTextsKey,
  setMeta,
  upgradedKey,
} from '../../src/archive/journal/database.ts';
import { toStateFilePath } from '../../src/archive/journal/state.ts';
import { decodeRows, encodeRows } from '../../src/archive/parquet/rows.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';

/** The datasets and files that each format added. */
const addedNames: Readonly<Record<number, readonly string[]>> = {
  2: ['orderbooks', 'candles_1h', 'candles_1d', 'views.sql'],
  4: ['quotes', 'quote_conflicts', 'trades', 'trade_conflicts'],
};

/**
 * Turns an archive, which nobody has open, back to an older format. It is no archive that an older oddslake wrote: it is one
 * of today with the datasets, columns, texts and tables taken away that came later, which is all that the formats differ by.
 * README.md is left as it is; nothing reads it. Returns the manifest's text. `keepsEmpty`: keeps the files without rows.
 */
export function turnedBack(root: string, format = 1, keepsEmpty = false): string {
  const added = Object.entries(addedNames).flatMap(([since, names]) => (Number(since) > format ? names : []));
  for (const name of added) rmSync(join(root, name), { recursive: true, force: true });
  const path = join(root, 'manifest.json');
  const manifest = JSON.parse(readFileSync(path, 'utf8')) as Manifest;
  const kept = Object.fromEntries(Object.entries(manifest.datasets).filter(([name]) => !added.includes(name)));
  for (const [name, listed] of Object.entries(kept) as [DatasetName, { files: PublishedFile[] }][]) {
    // Only format 4 has files without rows.
    const withRows = keepsEmpty ? listed.files : listed.files.filter(hasRows);
    for (const { path: unlisted } of listed.files)
      if (withRows.every((file) => file.path !== unlisted)) rmSync(join(root, unlisted));
    const isJoined = format < 4 && (name === 'coverage' || name === 'conflicts');
    const files = isJoined ? joinParts(root, name, withRows) : withRows;
    listed.files = files;
    const columns: readonly Column[] = datasets[name].columns;
    const older = columns.filter(({ since = 1 }) => since <= format);
    if (older.length === columns.length) continue;
    for (const file of files) {
      const bytes = encodeRows(older, decodeRows(older, readFileSync(join(root, file.path))));
      writeFileSync(join(root, file.path), bytes);
      Object.assign(file, { sha256: sha256(bytes), bytes: bytes.length });
    }
  }
  const { days, reached, ...rest } = manifest;
  const older = {
    ...rest,
    ...(format < 3 ? { days: withoutStates(days) } : { reached, days }),
    format_version: format,
    writer: 'oddslake 0.0.1',
    datasets: kept,
  } as unknown as Manifest;
  const text = `${JSON.stringify(older, null, 1)}\n`;
  writeFileSync(path, text);
  writeFileSync(join(root, 'SHA256SUMS'), formatChecksums(older));

  const db = openDatabase(toStateFilePath(join(root, '.oddslake')), 1000);
  db.run('delete from meta where key in (?, ?, ?)', manifestPartsKey, rootTextsKey, upgradedKey);
  setMeta(db, manifestHashKey, sha256(Buffer.from(text)));
  db.close();
  return text;
}

/** Joins the files of each day into one, as they were before format 4. */
function joinParts(root: string, name: 'coverage' | 'conflicts', files: readonly PublishedFile[]): PublishedFile[] {
  const { columns } = datasets[name];
  const order: readonly string[] = name === 'coverage' ? datasets[name].order : ['symbol', 't', 'seen_at', 'dropped'];
  const at = order.map((one) => columns.findIndex((column) => column.name === one));
  return [...Map.groupBy(files, ({ date }) => date!)].map(([date, ofDay]) => {
    const rows = ofDay.flatMap(({ path }) => decodeRows(columns, readFileSync(join(root, path))));
    rows.sort((a, b) =>
      at.reduce(
        (found, i) => found || (typeof a[i] === 'number' ? a[i] - (b[i] as number) : compareUtf8(`${a[i]}`, `${b[i]}`)),
        0,
      ),
    );
    for (const { path } of ofDay) rmSync(join(root, path));
    const path = `${name}/date=${date}/part-00.parquet`;
    const bytes = encodeRows(columns, rows);
    writeFileSync(join(root, path), bytes);
    return {
      path,
      date,
      rows: rows.length,
      bytes: bytes.length,
      sha256: sha256(bytes),
      t_min: Math.min(...ofDay.map(({ t_min }) => t_min!)),
      t_max: Math.max(...ofDay.map(({ t_max }) => t_max!)),
      symbols: ofDay.reduce((sum, { symbols }) => sum + symbols, 0),
      generation: Math.max(...ofDay.map(({ generation }) => generation)),
    };
  });
}

/** The days of a manifest as they were before format 3. */
const withoutStates = (days: Manifest['days']) =>
  Object.fromEntries(
    Object.entries(days).map(([day, { state, exceptions: _, ...rest }]) => [
      day,
      { complete: state === 'complete', ...rest },
    ]),
  );
