import { join } from 'node:path';
import { Readable } from 'node:stream';
import { createGunzip } from 'node:zlib';
import type { Disk } from '../../archive/disk/file-system.ts';
import { listQuarantineFiles } from '../../archive/format/layout.ts';
import { countJournaledReasons } from '../../archive/journal/journal-rejected.ts';
import type { Archive } from '../../archive/open-archive.ts';

/** Input that was set aside, by why. */
export interface QuarantineFacts {
  readonly count: number;
  /** The most frequent first; at most so many. */
  readonly reasons: readonly QuarantineReason[];
  readonly reasonsCount: number;
  /** Whether there was more than is read for a report: the newest is counted. */
  readonly isTruncated: boolean;
}

export interface QuarantineReason {
  readonly reason: string;
  readonly count: number;
  /** One that it was of; null where it was no symbol's. */
  readonly symbol: string | null;
  readonly lastAt: number | null;
}

/** Bytes that are read, the newest files first. */
const bytesMax = 32 * 2 ** 20;
/** About how many bytes one byte of a compressed file holds. */
const compressionFactorMax = 8;
const reasonsMax = 15;
/** Reasons that are told apart while counting. */
const distinctMax = 1000;

type ReasonCount = { reason: string; count: number; symbol: string | null; lastAt: number | null };

/** What was set aside since a moment (epoch ms), published or not. */
export async function readQuarantineFacts(archive: Archive, sinceMs: number): Promise<QuarantineFacts> {
  const { disk, layout, state } = archive;
  const counts = new Map<string, ReasonCount>();
  for (const { reason, count, symbol } of countJournaledReasons(state.db, sinceMs))
    counts.set(reason, { reason, count, symbol, lastAt: null });
  let left = bytesMax;
  let isCut = false;
  for (const name of listQuarantineFiles(archive).toReversed()) {
    const path = join(layout.root, name);
    if (!disk.isFile(path)) continue;
    left -= (disk.size(path) ?? 0) * (name.endsWith('.gz') ? compressionFactorMax : 1);
    isCut = left < 0;
    if (isCut) break;
    // The files are in the order of their time.
    if (!(await countFile(disk, path, sinceMs, counts))) break;
  }
  const all = [...counts.values()].sort((a, b) => b.count - a.count || (a.reason < b.reason ? -1 : 1));
  return {
    count: all.reduce((sum, { count }) => sum + count, 0),
    reasons: all.slice(0, reasonsMax),
    reasonsCount: all.length,
    isTruncated: isCut,
  };
}

/** False where nothing of the file is as young as that. */
async function countFile(
  disk: Disk,
  path: string,
  sinceMs: number,
  counts: Map<string, ReasonCount>,
): Promise<boolean> {
  let isYoung = false;
  for await (const line of readLines(disk, path)) {
    const row = parseLine(line);
    if (row === null || row.at < sinceMs) continue;
    isYoung = true;
    const reason = counts.size < distinctMax || counts.has(row.reason) ? row.reason : 'other reasons';
    const known = counts.get(reason);
    if (known === undefined) counts.set(reason, { reason, count: 1, symbol: row.symbol, lastAt: row.at });
    else {
      known.count++;
      known.lastAt = Math.max(known.lastAt ?? row.at, row.at);
    }
  }
  return isYoung;
}

async function* readLines(disk: Disk, path: string): AsyncGenerator<string> {
  const decoder = new TextDecoder();
  let rest = '';
  const pieces = path.endsWith('.gz')
    ? Readable.from(disk.readStream(path)).compose(createGunzip())
    : disk.readStream(path);
  for await (const piece of pieces as AsyncIterable<Uint8Array>) {
    const lines = (rest + decoder.decode(piece, { stream: true })).split('\n');
    rest = lines.pop()!;
    yield* lines;
  }
  if (rest !== '') yield rest;
}

/** What a line says; null for one that is not ours. */
function parseLine(line: string): { at: number; reason: string; symbol: string | null } | null {
  try {
    const { at, reason, symbol } = JSON.parse(line) as { at?: unknown; reason?: unknown; symbol?: unknown };
    if (typeof at !== 'number' || typeof reason !== 'string') return null;
    return { at, reason, symbol: typeof symbol === 'string' ? symbol : null };
  } catch {
    return null;
  }
}
