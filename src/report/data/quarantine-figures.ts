import { join } from 'node:path';
import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { Archive } from '../../archive/archive.ts';
import type { Disk } from '../../archive/disk/file-system.ts';
import { listQuarantineFiles } from '../../archive/format/layout.ts';
import { countJournaledReasons } from '../../archive/journal/journal-rejected.ts';

/** Quarantined input by reason. */
export interface QuarantineFacts {
  readonly count: number;
  /** Most frequent first, at most `reasonsMax`. */
  readonly reasons: readonly QuarantineReason[];
  readonly reasonsCount: number;
  /** Whether only the newest files were counted, because of `bytesMax`. */
  readonly isTruncated: boolean;
}

export interface QuarantineReason {
  readonly reason: string;
  readonly count: number;
  /** Symbol of one row; null if the row has none. */
  readonly symbol: string | null;
  readonly lastAt: number | null;
}

/** Maximum number of bytes read, newest files first. */
const bytesMax = 32 * 2 ** 20;
/** Estimated compression factor. */
const compressionFactorMax = 8;
const reasonsMax = 15;
/** Maximum number of distinct reasons while counting. */
const distinctMax = 1000;

type ReasonCount = { reason: string; count: number; symbol: string | null; lastAt: number | null };

/** Counts the rows quarantined since `sinceMs` (epoch ms), published or journaled. */
export async function readQuarantineFacts(archive: Archive, sinceMs: number): Promise<QuarantineFacts> {
  const { disk, layout, state } = archive;
  const counts = new Map<string, ReasonCount>();
  for (const { reason, count, symbol } of countJournaledReasons(state.db, sinceMs))
    counts.set(reason, { reason, count, symbol, lastAt: null });
  let bytesLeft = bytesMax;
  let isTruncated = false;
  for (const name of listQuarantineFiles(archive).toReversed()) {
    const path = join(layout.root, name);
    if (!disk.isFile(path)) continue;
    bytesLeft -= (disk.size(path) ?? 0) * compressionFactorMax;
    isTruncated = bytesLeft < 0;
    if (isTruncated) break;
    // Files are sorted by time: all earlier files are older.
    if (!(await countFile(disk, path, sinceMs, counts))) break;
  }
  const all = [...counts.values()].sort((a, b) => b.count - a.count || (a.reason < b.reason ? -1 : 1));
  return {
    count: all.reduce((sum, { count }) => sum + count, 0),
    reasons: all.slice(0, reasonsMax),
    reasonsCount: all.length,
    isTruncated: isTruncated,
  };
}

/** Counts the rows of a file since `sinceMs`. Returns false if there are none. */
async function countFile(
  disk: Disk,
  path: string,
  sinceMs: number,
  counts: Map<string, ReasonCount>,
): Promise<boolean> {
  let hasRecent = false;
  for await (const line of readLines(disk, path)) {
    const row = parseLine(line);
    if (row === null || row.at < sinceMs) continue;
    hasRecent = true;
    const reason = counts.size < distinctMax || counts.has(row.reason) ? row.reason : 'other reasons';
    const reasonCount = counts.get(reason);
    if (reasonCount === undefined) counts.set(reason, { reason, count: 1, symbol: row.symbol, lastAt: row.at });
    else {
      reasonCount.count++;
      reasonCount.lastAt = Math.max(reasonCount.lastAt ?? row.at, row.at);
    }
  }
  return hasRecent;
}

async function* readLines(disk: Disk, path: string): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let remainder = '';
  const chunks = Readable.from(disk.readStream(path)).compose(createGunzip());
  for await (const chunk of chunks as AsyncIterable<Uint8Array>) {
    const lines = (remainder + decoder.decode(chunk, { stream: true })).split('\n');
    remainder = lines.pop()!;
    yield* lines;
  }
  if (remainder !== '') yield remainder;
}

/** Parses a line; null if it is not a quarantine record. */
function parseLine(line: string): { at: number; reason: string; symbol: string | null } | null {
  try {
    const { at, reason, symbol } = JSON.parse(line) as { at?: unknown; reason?: unknown; symbol?: unknown };
    if (typeof at !== 'number' || typeof reason !== 'string') return null;
    return { at, reason, symbol: typeof symbol === 'string' ? symbol : null };
  } catch {
    return null;
  }
}
