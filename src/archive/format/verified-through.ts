import { dayMs } from '../../base/window.ts';

// Which published files are hashed again by a run, so that all of them are within some days.

/** A published file, and when it was last hashed and found as published (epoch ms); undefined where that is not known. */
export interface HashableFile {
  readonly bytes: number;
  readonly hashedAt: number | undefined;
}

export interface HashShare<File> {
  /** The files to be hashed now, in this order. */
  readonly files: readonly File[];
  /** The moment up to which the share is done once `n` of them are hashed, epoch ms. */
  hashedTo(n: number): number;
}

/**
 * The share of the files that is due, the longest unhashed first. A run owes the part of all bytes that the time since
 * the last share is of `intervalMs`: whatever the schedule, every file is hashed again within `intervalMs` of runs. A file that
 * is greater than what is due waits until as much is.
 * @param hashedTo up to when the share was done, epoch ms; null before the first one, which is that of a day
 */
export function chooseHashShare<File extends HashableFile>(
  files: readonly File[],
  hashedTo: number | null,
  nowMs: number,
  everyMs: number,
): HashShare<File> {
  // More than all is never due; a clock that was ahead owes nothing.
  const from = Math.min(nowMs, Math.max(hashedTo ?? nowMs - Math.min(dayMs, everyMs), nowMs - everyMs));
  const bytes = files.reduce((sum, file) => sum + file.bytes, 0);
  if (bytes === 0) return { files: [], hashedTo: () => nowMs };
  const oldest = [...files].sort((a, b) => toHashTime(a) - toHashTime(b));
  const due = (bytes * (nowMs - from)) / everyMs;
  const chosen: File[] = [];
  const ends: number[] = [from];
  for (let sum = 0, i = 0; i < oldest.length; i++) {
    sum += oldest[i]!.bytes;
    if (sum > due) break;
    chosen.push(oldest[i]!);
    ends.push(Math.ceil(from + (sum / bytes) * everyMs));
  }
  return { files: chosen, hashedTo: (n) => Math.min(nowMs, ends[n]!) };
}

const toHashTime = ({ hashedAt }: HashableFile): number => hashedAt ?? Number.NEGATIVE_INFINITY;

/** Since when every byte has been hashed, epoch ms; null where some never were, or there are none. */
export function computeVerifiedThrough(files: Iterable<HashableFile>): number | null {
  let least: number | null = null;
  for (const { hashedAt } of files) {
    if (hashedAt === undefined) return null;
    least = Math.min(least ?? hashedAt, hashedAt);
  }
  return least;
}
