import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { listQuarantineFiles, toDamagedJournalPath, toQuarantinePath } from '../format/layout.ts';
import {
  type DamagedRow,
  dropJournalDamage,
  findJournalDamage,
  hasJournalDamage,
  rebuildJournalIndices,
} from '../journal/journal-check.ts';
import { hasRejected, readRejected } from '../journal/journal-rejected.ts';
import type { Archive } from '../open-archive.ts';
import { type Stage, stageBytes } from './staging.ts';

/**
 * Writes what was rejected, as received, one JSON object a line, compressed. Where all of the quarantine is longer than
 * `bytesMax` then, its oldest files go.
 */
export function stageRejectedRows(archive: Archive, stage: Stage, end: number, bytesMax: number): boolean {
  const { db } = archive.state;
  if (!hasRejected(db, end)) return false;
  const path = toQuarantinePath(stage.generation);
  const staged = stageBytes(archive, stage, path, gzipJsonLines(readRejected(db, end)));
  let left = bytesMax - (archive.disk.size(staged) ?? 0);
  for (const older of listQuarantineFiles(archive).toReversed()) {
    if (older === path) continue;
    left -= archive.disk.size(join(archive.layout.root, older)) ?? 0;
    if (left < 0) stage.moves.push({ from: null, to: older });
  }
  return true;
}

/** Some thousand lines at a time, each lot a member of the gzip file: there may be more than memory holds. */
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

/** What was taken out of a damaged journal. */
export interface JournalQuarantine {
  readonly rows: number;
  /** Windows that were journaled as covered and are to be asked for again. */
  readonly windows: number;
  /** Where the rows are now, relative to the root; null where none is there any more. */
  readonly path: string | null;
}

/**
 * Moves what is damaged of the journal to the quarantine, and what it may have covered with it, so that it is asked for
 * again. Holder of the write lock only. Null where only an index was damaged, which is rebuilt.
 */
export function quarantineDamagedJournal(archive: Archive): JournalQuarantine | null {
  const { state, disk, layout } = archive;
  const { db } = state;
  return db.transaction(() => {
    // A row that differs from an index cannot be deleted.
    rebuildJournalIndices(db);
    const found = findJournalDamage(db);
    if (!hasJournalDamage(found)) return null;
    let path: string | null = null;
    if (found.rows.length > 0) {
      path = toDamagedJournalPath(state.generation() + 1, archive.createCommitId());
      const at = join(layout.root, path);
      disk.makeFolder(join(at, '..'));
      disk.write(at, formatDamagedRows(found.rows));
      disk.syncFolder(join(at, '..'));
    }
    return { rows: found.rows.length, windows: dropJournalDamage(db, found), path };
  });
}

/** One JSON object a line, bytes in base64. */
function* formatDamagedRows(rows: readonly DamagedRow[]): Generator<Uint8Array> {
  const plain = (value: unknown): unknown =>
    value instanceof Uint8Array ? Buffer.from(value).toString('base64') : value;
  for (const { values, ...row } of rows) {
    const columns = Object.fromEntries(Object.entries(values).map(([name, value]) => [name, plain(value)]));
    yield Buffer.from(`${JSON.stringify({ ...row, values: columns })}\n`);
  }
}
