import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import type { Archive } from '../archive.ts';
import { listQuarantineFiles, toDamagedJournalPath, toQuarantinePath } from '../format/layout.ts';
import {
  type DamagedRow,
  dropJournalDamage,
  findJournalDamage,
  hasJournalDamage,
  rebuildJournalIndices,
} from '../journal/journal-check.ts';
import { hasRejected, readRejected } from '../journal/journal-rejected.ts';
import { type Stage, stageBytes } from './staging.ts';

/** Maximum size of the quarantine in bytes, compressed. */
const bytesMaxDefault = 256 * 1024 * 1024;

/**
 * Stages the rejected rows as received, as gzipped NDJSON. Removes the oldest quarantine files beyond `bytesMax` in
 * total.
 * @returns whether there were rejected rows
 */
export function stageRejectedRows(archive: Archive, stage: Stage, end: number, bytesMax = bytesMaxDefault): boolean {
  const { db } = archive.state;
  if (!hasRejected(db, end)) return false;
  const path = toQuarantinePath(stage.generation);
  const staged = stageBytes(archive, stage, path, gzipJsonLines(readRejected(db, end)));
  let bytesLeft = bytesMax - (archive.disk.size(staged) ?? 0);
  for (const older of listQuarantineFiles(archive).toReversed()) {
    if (older === path) continue;
    bytesLeft -= archive.disk.size(join(archive.layout.root, older)) ?? 0;
    if (bytesLeft < 0) stage.moves.push({ from: null, to: older });
  }
  return true;
}

/** Compresses a few thousand lines at a time, each batch as one gzip member, to bound memory. */
function* gzipJsonLines(rows: Iterable<object>): Generator<Uint8Array> {
  let lines: string[] = [];
  for (const row of rows) {
    lines.push(`${JSON.stringify(row)}\n`);
    if (lines.length < 4096) continue;
    yield gzipSync(lines.join(''));
    lines = [];
  }
  yield gzipSync(lines.join(''));
}

/** Rows that were moved from a damaged journal to the quarantine. */
export interface JournalQuarantine {
  readonly rows: number;
  /** Journaled coverage windows that were dropped and will be fetched again. */
  readonly windows: number;
  /** The quarantine file, relative to the root; null if no damaged row could be read. */
  readonly path: string | null;
}

/**
 * Moves damaged journal rows to the quarantine and drops the coverage that may depend on them, so that those windows
 * are fetched again. Requires the write lock. Returns null if only an index was damaged; indexes are rebuilt.
 */
export function quarantineDamagedJournal(archive: Archive): JournalQuarantine | null {
  const { state, disk, layout } = archive;
  const { db } = state;
  return db.transaction(() => {
    // SQLite cannot delete a row that differs from an index entry.
    rebuildJournalIndices(db);
    const damage = findJournalDamage(db);
    if (!hasJournalDamage(damage)) return null;
    let path: string | null = null;
    if (damage.rows.length > 0) {
      path = toDamagedJournalPath(state.generation() + 1, archive.createCommitId());
      const at = join(layout.root, path);
      disk.makeFolder(join(at, '..'));
      disk.write(at, formatDamagedRows(damage.rows));
      disk.syncFolder(join(at, '..'));
    }
    return { rows: damage.rows.length, windows: dropJournalDamage(db, damage), path };
  });
}

/** One JSON object per line, with bytes in base64. */
function* formatDamagedRows(rows: readonly DamagedRow[]): Generator<Uint8Array> {
  const toPlain = (value: unknown): unknown =>
    value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value;
  for (const { values, ...row } of rows) {
    const columns = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, toPlain(value)]));
    yield Buffer.from(`${JSON.stringify({ ...row, values: columns })}\n`);
  }
}
