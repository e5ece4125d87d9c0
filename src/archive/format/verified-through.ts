import { dayMs } from '../../base/window.ts';

// Chooses which published files a run hashes again, so that every file is hashed within a configured number of days.

/** A published file, and when it was last hashed and matched its checksum, epoch ms; undefined if not known. */
export interface HashableFile {
  readonly bytes: number;
  readonly hashedAt: number | undefined;
}

export interface HashShare<File> {
  /** The files to hash now, in this order. */
  readonly files: readonly File[];
  /** The time up to which the share is done once `n` files are hashed, epoch ms. */
  hashedTo(n: number): number;
}

/**
 * Chooses the files that are due, those hashed longest ago first. A run owes the fraction of all bytes that the time
 * since the last share is of `intervalMs`. So on any schedule, every file is hashed again within `intervalMs`. A file
 * larger than the due bytes waits until they suffice.
 * @param hashedTo up to when the share was done, epoch ms; null before the first share, which is that of one day
 */
export function chooseHashShare<File extends HashableFile>(
  files: readonly File[],
  hashedTo: number | null,
  nowMs: number,
  intervalMs: number,
): HashShare<File> {
  // No more than all files are due. If the clock was ahead, nothing is due.
  const from = Math.min(nowMs, Math.max(hashedTo ?? nowMs - Math.min(dayMs, intervalMs), nowMs - intervalMs));
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  if (bytes === 0) return { files: [], hashedTo: () => nowMs };
  const oldestFirst = [...files].sort((a, b) => toHashTime(a) - toHashTime(b));
  const due = (bytes * (nowMs - from)) / intervalMs;
  const chosen: File[] = [];
  const ends: number[] = [from];
  for (let sum = 0, i = 0; i < oldestFirst.length; i++) {
    sum += oldestFirst[i]!.bytes;
    if (sum > due) break;
    chosen.push(oldestFirst[i]!);
    ends.push(Math.ceil(from + (sum / bytes) * intervalMs));
  }
  return { files: chosen, hashedTo: (n) => Math.min(nowMs, ends[n]!) };
}

const toHashTime = ({ hashedAt }: HashableFile): number => hashedAt ?? Number.NEGATIVE_INFINITY;

/**
 * Computes the time since when every byte has been hashed, epoch ms; null if some never were, or if there are no files.
 */
export function computeVerifiedThrough(files: Iterable<HashableFile>): number | null {
  let oldestMs: number | null = null;
  for (const { hashedAt } of files) {
    if (hashedAt === undefined) return null;
    oldestMs = Math.min(oldestMs ?? hashedAt, hashedAt);
  }
  return oldestMs;
}
