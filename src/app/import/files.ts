import { closeSync, openSync, readdirSync, readSync, type Stats, statSync } from 'node:fs';
import { basename, join, resolve } from 'node:path';
import { isRawFile, rawMagicBytes } from '../../archive/raw/raw-file.ts';
import { compareUtf8 } from '../../core/compare-utf8.ts';
import { UsageError } from '../../core/errors.ts';

export type ImportFormat = 'pages' | 'csv' | 'ndjson' | 'parquet' | 'raw';
export type Compression = 'none' | 'gzip' | 'zstd';

export interface ImportFile {
  readonly path: string;
  /** Whether it was named itself, not found in a folder: what is wrong with it is then bad usage. */
  readonly isNamed: boolean;
  readonly format: ImportFormat;
  readonly compression: Compression;
  /** When it was written, at most now; epoch ms. */
  readonly writtenAt: number;
  readonly bytes: number;
}

export interface ImportList {
  readonly files: readonly ImportFile[];
  /** Files of folders that are none of ours by their names. */
  readonly ignored: readonly string[];
}

const formatByExtension: Readonly<Record<string, ImportFormat>> = {
  json: 'pages',
  csv: 'csv',
  ndjson: 'ndjson',
  jsonl: 'ndjson',
  parquet: 'parquet',
};

/**
 * The files that are meant: folders with all that is in them, sorted, without hidden ones; each once.
 * @param given the format of all of them; null: by their names, else by their first bytes
 * @throws UsageError where one is missing, a named one is of no known kind, or there is none at all
 */
export function listImportFiles(paths: readonly string[], given: ImportFormat | null, nowMs: number): ImportList {
  const files = new Map<string, ImportFile>();
  const ignored: string[] = [];
  const take = (path: string, stats: Stats, named: boolean): void => {
    const at = resolve(path);
    if (files.has(at)) return;
    const head = readHead(path);
    const compression = detectCompression(head);
    const format = detectFormat(path, head, given, named);
    if (format !== null) {
      const writtenAt = Math.min(Math.floor(stats.mtimeMs), nowMs);
      files.set(at, { path, isNamed: named, format, compression, writtenAt, bytes: stats.size });
    } else if (named) {
      throw new UsageError(
        `${path}: its name does not say what it is (.json, .csv, .ndjson, .jsonl, .parquet, then .gz or .zst). Say --format.`,
      );
    } else ignored.push(path);
  };
  for (const path of paths) {
    const stats = statTarget(path);
    if (stats === undefined) throw new UsageError(`${path}: there is no such file or folder.`);
    if (stats.isFile()) take(path, stats, true);
    else if (stats.isDirectory()) for (const [found, its] of walkFiles(path)) take(found, its, false);
    else throw new UsageError(`${path} is neither a file nor a folder.`);
  }
  if (files.size === 0) throw new UsageError(`${paths.join(', ')}: no file in there can be imported. Say --format?`);
  return { files: [...files.values()], ignored };
}

function* walkFiles(folder: string): Generator<[string, Stats]> {
  const entries = readdirSync(folder, { withFileTypes: true }).filter((entry) => !entry.name.startsWith('.'));
  for (const entry of entries.sort((a, b) => compareUtf8(a.name, b.name))) {
    const path = join(folder, entry.name);
    // A folder behind a link may be one that we stand in.
    if (entry.isDirectory()) yield* walkFiles(path);
    else {
      const stats = statTarget(path);
      if (stats?.isFile()) yield [path, stats];
    }
  }
}

/** Undefined for a link that leads nowhere, or round and round. */
function statTarget(path: string): Stats | undefined {
  try {
    return statSync(path, { throwIfNoEntry: false });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ELOOP') return undefined;
    throw new UsageError(`${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

const headBytes = rawMagicBytes;

function readHead(path: string): Buffer {
  try {
    const file = openSync(path, 'r');
    try {
      const head = Buffer.alloc(headBytes);
      return head.subarray(0, readSync(file, head, 0, headBytes, 0));
    } finally {
      closeSync(file);
    }
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

/** What the keeper calls its files: one whose beginning is damaged is no less one of them. */
const rawNamePattern = /-\d{3}\.raw$/;

/** RFC 1952 and RFC 8878: a name may lie, the first bytes do not. */
function detectCompression(head: Buffer): Compression {
  if (head[0] === 0x1f && head[1] === 0x8b) return 'gzip';
  return head.length >= 4 && head.readUInt32LE() === 0xfd2fb528 ? 'zstd' : 'none';
}

function detectFormat(path: string, head: Buffer, given: ImportFormat | null, named: boolean): ImportFormat | null {
  const extension = /\.([^.]+?)(?:\.(?:gz|zst))?$/i.exec(basename(path))?.[1]?.toLowerCase();
  const byName = extension === undefined ? undefined : formatByExtension[extension];
  // In a folder, a file that says it is something else is something else.
  if (given !== null) return named || byName === undefined || byName === given ? given : null;
  if (isRawFile(head) || rawNamePattern.test(path)) return 'raw';
  return byName ?? (head.toString('latin1', 0, 4) === 'PAR1' ? 'parquet' : null);
}
