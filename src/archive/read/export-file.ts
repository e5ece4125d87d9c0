import { createHash } from 'node:crypto';
import { basename, dirname, extname, join, sep } from 'node:path';
import { Readable } from 'node:stream';
import { pipeline } from 'node:stream/promises';
import { createGzip, createZstdCompress } from 'node:zlib';
import { UsageError } from '../../base/errors.ts';
import type { Disk } from '../disk/file-system.ts';
import type { Column, DatasetName } from '../format/datasets.ts';
import type { PublishedFile } from '../format/manifest.ts';
import type { RowChunk } from '../parquet/streaming-writer.ts';
import { type GenerationPin, requireFileBytes } from './pin-generation.ts';

const exportFormats = ['parquet', 'csv', 'ndjson', 'arrow'] as const;
export type ExportFormat = (typeof exportFormats)[number];

const formatsByExtension: Readonly<Record<string, ExportFormat>> = {
  '.parquet': 'parquet',
  '.csv': 'csv',
  '.ndjson': 'ndjson',
  '.jsonl': 'ndjson',
  '.arrow': 'arrow',
  '.feather': 'arrow',
};

export type ExportCompression = 'none' | 'gzip' | 'zstd';

const compressionsByExtension: Readonly<Record<string, ExportCompression>> = { '.gz': 'gzip', '.zst': 'zstd' };

/**
 * Infers the format and the compression of an export from the extensions of a file, such as `.csv.gz`.
 * @param format the format, if it is given
 * @throws UsageError for an unknown extension, or the compression of a format that is compressed inside
 */
export function inferExportFormat(
  path: string,
  format?: ExportFormat,
): { readonly format: ExportFormat; readonly compression: ExportCompression } {
  const outer = extname(path).toLowerCase();
  const compression = compressionsByExtension[outer] ?? 'none';
  const inner = compression === 'none' ? path : path.slice(0, -outer.length);
  const found = format ?? formatsByExtension[extname(inner).toLowerCase()];
  if (found === undefined)
    throw new UsageError(
      `--out ${path} has none of the known extensions (${Object.keys(formatsByExtension).join(' ')}, and .csv.gz and the like). Set --format ${exportFormats.join('|')}.`,
    );
  if (compression === 'none' || found === 'csv' || found === 'ndjson') return { format: found, compression };
  throw new UsageError(`--out ${path}: ${found} is compressed inside. Leave out ${outer}.`);
}

/** Compresses a file while it is written. Equal input gives equal bytes. */
export async function* compressChunks(
  chunks: AsyncIterable<Uint8Array>,
  compression: ExportCompression,
): AsyncGenerator<Uint8Array> {
  if (compression === 'none') {
    yield* chunks;
    return;
  }
  const compressor = compression === 'gzip' ? createGzip() : createZstdCompress();
  // Its error is thrown when the compressor is read, too.
  const done = pipeline(Readable.from(chunks, { objectMode: false }), compressor).catch(() => {});
  try {
    yield* compressor as AsyncIterable<Uint8Array>;
  } finally {
    compressor.destroy();
    await done;
  }
}

/** Resolves the path of a file that may be created or replaced. @throws UsageError, which names `flag`, if it may not */
export function requireWritableTarget(disk: Disk, root: string, path: string, flag = '--out'): string {
  const target = disk.realPath(path);
  if (isInside(disk, target, root))
    throw new UsageError(`${flag} ${path} is inside the archive ${root}: readers would treat it as archive data.`);
  if (disk.size(target) !== null && !disk.isFile(target))
    throw new UsageError(`${flag} ${path} exists and is not a regular file.`);
  // The folder is created with the file.
  for (let parent = dirname(target); !disk.isFolder(parent); parent = dirname(parent))
    if (disk.size(parent) !== null) throw new UsageError(`${flag} ${path}: ${parent} is not a folder.`);
  return target;
}

/** Throws DamageError if a pinned file differs from the manifest, because DuckDB does not detect this. */
export const requireFileIntact = (disk: Disk, pinned: GenerationPin, file: PublishedFile): void =>
  requireFileBytes(disk.read(`${pinned.root}/${file.path}`), file);

/** Encodes rows in a columnar format, with the column types of the dataset. */
export async function* encodeColumnar(
  dataset: DatasetName,
  columns: readonly Column[],
  chunks: AsyncIterable<RowChunk>,
  format: 'parquet' | 'arrow' | 'arrow_stream',
): AsyncGenerator<Uint8Array> {
  // Loads Arrow, which most callers of this module do not need.
  const { chooseTimeEncoding, streamArrow, streamParquet } = await import('../parquet/streaming-writer.ts');
  if (format === 'parquet')
    yield* streamParquet(columns, chunks, (first) =>
      dataset === 'ticks' ? chooseTimeEncoding(Float64Array.from(first[1] as number[])) : { deltaColumns: [] },
    );
  else yield* streamArrow(columns, chunks, format === 'arrow' ? 'file' : 'stream');
}

/**
 * Writes `target` atomically: to a draft in the same folder, which is synced and renamed. A missing folder is created. Replaces an
 * existing file, and keeps it on failure. `id` distinguishes drafts of one process.
 */
export async function writeFileAtomically(
  disk: Disk,
  target: string,
  id: string,
  chunks: AsyncIterable<Uint8Array>,
): Promise<{ bytes: number; sha256: string }> {
  if (!disk.isFolder(dirname(target))) disk.makeFolder(dirname(target));
  removeAbandonedDrafts(disk, target);
  const draft = openDraft(target, id);
  const hash = createHash('sha256');
  let bytes = 0;
  async function* counted() {
    for await (const chunk of chunks) {
      hash.update(chunk);
      bytes += chunk.length;
      yield chunk;
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

// Files and folders outside the archive are created as a draft next to their target and then renamed, so that nobody
// sees them incomplete. The draft's name contains the process ID.

const toDraftPrefix = (target: string): string => `.${basename(target)}.oddslake-`;

/** Registers and returns the draft path of `target`, until `closeDraft`. `id` distinguishes drafts of one process. */
export function openDraft(target: string, id: string): string {
  const draft = join(dirname(target), `${toDraftPrefix(target)}${process.pid}-${id}`);
  ownDrafts.add(draft);
  return draft;
}

/** Unregisters a draft after it was renamed or removed. */
export const closeDraft = (draft: string): void => void ownDrafts.delete(draft);

/** Drafts that this process is writing. */
const ownDrafts = new Set<string>();

/** Removes drafts of this target that killed processes left behind. */
export function removeAbandonedDrafts(disk: Disk, target: string): void {
  const prefix = toDraftPrefix(target);
  for (const name of disk.list(dirname(target))) {
    const draft = join(dirname(target), name);
    if (!name.startsWith(prefix) || ownDrafts.has(draft)) continue;
    const pid = Number.parseInt(name.slice(prefix.length), 10);
    // In containers process IDs repeat: a draft with our ID that is not ours belongs to a dead process.
    if (pid === process.pid || isProcessGone(pid)) disk.remove(draft);
  }
}

/** Whether a process has ended. False for a running process of another user. */
function isProcessGone(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return false;
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'ESRCH';
  }
}

/** Whether a path is the archive's root or inside it. `target` must have no symbolic links. */
export function isInside(disk: Disk, target: string, root: string): boolean {
  const archiveRoot = disk.realPath(root);
  return target === archiveRoot || target.startsWith(archiveRoot + sep);
}
