import { createHash } from 'node:crypto';
import { basename, dirname, extname, join, sep } from 'node:path';
import { UsageError } from '../../base/errors.ts';
import type { Disk } from '../disk/file-system.ts';
import type { Column, DatasetName } from '../format/datasets.ts';
import type { PublishedFile } from '../format/manifest.ts';
import { type RowChunk, streamArrow, streamParquet } from '../parquet/streaming-writer.ts';
import { chooseTimeEncoding } from '../parquet/ticks-arrow.ts';
import { type GenerationPin, requireFileBytes } from './pin-generation.ts';

export const exportFormats = ['parquet', 'csv', 'ndjson', 'arrow'] as const;
export type ExportFormat = (typeof exportFormats)[number];

const formatsByExtension: Readonly<Record<string, ExportFormat>> = {
  '.parquet': 'parquet',
  '.csv': 'csv',
  '.ndjson': 'ndjson',
  '.jsonl': 'ndjson',
  '.arrow': 'arrow',
  '.feather': 'arrow',
};

/** The format that a file's name tells. Throws UsageError where it tells none. */
export function inferExportFormat(path: string): ExportFormat {
  const format = formatsByExtension[extname(path).toLowerCase()];
  if (format !== undefined) return format;
  throw new UsageError(
    `--out ${path} does not tell the format by its ending (${Object.keys(formatsByExtension).join(' ')}): say --format ${exportFormats.join('|')}.`,
  );
}

/** The absolute path of a file that may be written or replaced. Throws UsageError for one that may not. */
export function requireWritableTarget(disk: Disk, root: string, path: string): string {
  const target = disk.realPath(path);
  if (isInside(disk, target, root))
    throw new UsageError(`--out ${path} is inside the archive ${root}: its readers would take it for a part of it.`);
  if (disk.size(target) !== null && !disk.isFile(target))
    throw new UsageError(`--out ${path} is there and is no file that could be replaced.`);
  if (!disk.isFolder(dirname(target)))
    throw new UsageError(`--out ${path}: there is no folder ${dirname(target)}. Make it first.`);
  return target;
}

/** Throws DamageError where a pinned file is not as published: neither DuckDB nor anything after it would notice. */
export const requireFileIntact = (disk: Disk, pinned: GenerationPin, file: PublishedFile): void =>
  requireFileBytes(disk.read(`${pinned.root}/${file.path}`), file);

/** A slice's rows in one of the columnar formats, with the archive's own types. */
export const encodeColumnar = (
  dataset: DatasetName,
  columns: readonly Column[],
  chunks: AsyncIterable<RowChunk>,
  format: 'parquet' | 'arrow' | 'arrow_stream',
): AsyncGenerator<Uint8Array> =>
  format !== 'parquet'
    ? streamArrow(columns, chunks, format === 'arrow' ? 'file' : 'stream')
    : streamParquet(columns, chunks, (first) =>
        dataset === 'ticks' ? chooseTimeEncoding(Float64Array.from(first[1] as number[])) : { deltaColumns: [] },
      );

/**
 * Writes `target` so that nobody sees half of it: beside it, synced, and renamed; one that was there is replaced, and
 * where it fails, stays. `id` tells drafts of one process apart.
 */
export async function writeFileAtomically(
  disk: Disk,
  target: string,
  id: string,
  pieces: AsyncIterable<Uint8Array>,
): Promise<{ bytes: number; sha256: string }> {
  removeAbandonedDrafts(disk, target);
  const draft = openDraft(target, id);
  const hash = createHash('sha256');
  let bytes = 0;
  async function* counted() {
    for await (const piece of pieces) {
      hash.update(piece);
      bytes += piece.length;
      yield piece;
    }
  }
  try {
    await disk.writeStream(draft, counted());
    disk.rename(draft, target);
  } catch (error) {
    disk.remove(draft);
    throw error;
  } finally {
    closeDraft(draft);
  }
  disk.syncFolder(dirname(target));
  return { bytes, sha256: hash.digest('hex') };
}

// What is made for a place outside of the archive comes into being beside that place, under a name that tells whose it
// is, and is renamed at the end: nobody sees half of it.

const toDraftPrefix = (target: string): string => `.${basename(target)}.oddslake-`;

/** Where `target` is made until `closeDraft`; `id` tells drafts of one process apart. */
export function openDraft(target: string, id: string): string {
  const draft = join(dirname(target), `${toDraftPrefix(target)}${process.pid}-${id}`);
  ownDrafts.add(draft);
  return draft;
}

/** It is in its place, or removed. */
export const closeDraft = (draft: string): void => void ownDrafts.delete(draft);

/** Drafts that this process is at. */
const ownDrafts = new Set<string>();

/** Removes what killed processes left of drafts of this target. */
export function removeAbandonedDrafts(disk: Disk, target: string): void {
  const prefix = toDraftPrefix(target);
  for (const name of disk.list(dirname(target))) {
    const draft = join(dirname(target), name);
    if (!name.startsWith(prefix) || ownDrafts.has(draft)) continue;
    const pid = Number.parseInt(name.slice(prefix.length), 10);
    // In a container every process may have our number: what has it and was not begun here is a dead one's.
    if (pid === process.pid || isProcessGone(pid)) disk.remove(draft);
  }
}

/** Whether a process has ended; one that belongs to somebody else counts as there. */
function isProcessGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

/** Whether a path, given without symbolic links, is the archive's root or below it. */
export function isInside(disk: Disk, target: string, root: string): boolean {
  const home = disk.realPath(root);
  return target === home || target.startsWith(home + sep);
}
