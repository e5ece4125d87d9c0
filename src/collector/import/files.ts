import { isUtf8 } from 'node:buffer';
import {
  closeSync,
  createReadStream,
  createWriteStream,
  fstatSync,
  openSync,
  readdirSync,
  readSync,
  type Stats,
  statSync,
} from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { basename, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { createGunzip, createZstdDecompress, gunzip, gunzipSync, zstdDecompress, zstdDecompressSync } from 'node:zlib';
import { isRawFile, rawMagicBytes } from '../../archive/raw/raw-file.ts';
import { UsageError } from '../../base/errors.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';

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

type InputFile = { readonly path: string; readonly compression: Compression };

const decompressors = { gzip: createGunzip, zstd: createZstdDecompress };

/** The decompressed bytes of a file, piece by piece; whoever stops reading closes it. */
export async function* readChunks({ path, compression }: InputFile): AsyncGenerator<Buffer, void, undefined> {
  const file = createReadStream(path, { highWaterMark: 1 << 18 });
  if (compression === 'none') return yield* file as AsyncIterable<Buffer>;
  const plain = decompressors[compression]();
  // Not by pipeline(): left early, that one waits for an end that a decompressor of zstd never comes to.
  file.on('error', (error) => plain.destroy(error));
  file.pipe(plain);
  try {
    yield* plain as AsyncIterable<Buffer>;
  } finally {
    plain.destroy();
    file.destroy();
  }
}

/** The first decompressed bytes of a file, at most `bytesMax` and a piece. */
export async function readBeginning(source: InputFile, bytesMax: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const piece of readChunks(source)) {
    parts.push(piece);
    length += piece.length;
    if (length >= bytesMax) break;
  }
  return Buffer.concat(parts);
}

/** Thrown where a file is longer than it may be. */
export class FileTooLongError extends Error {}

/** A whole small file, decompressed; throws FileTooLongError where it is longer than `bytesMax`. */
export async function readWholeFile({ path, compression }: InputFile, bytesMax: number): Promise<Buffer> {
  const tooLong = (cause?: unknown): FileTooLongError =>
    new FileTooLongError(`it is longer than ${bytesMax} bytes`, { cause });
  if ((await stat(path)).size > bytesMax) throw tooLong();
  const bytes = await readFile(path);
  if (compression === 'none') return bytes;
  const run = compression === 'gzip' ? promisify(gunzip) : promisify(zstdDecompress);
  try {
    return await run(bytes, { maxOutputLength: bytesMax });
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? tooLong(error) : error;
  }
}

/**
 * The same, holding up whoever asks: several times as fast for small files, for threads that have nothing else to do. What
 * it gives is overwritten by the next call.
 */
export function readWholeFileSync({ path, compression }: InputFile, bytesMax: number): Buffer {
  const bytes = readBytesSync(path, bytesMax);
  if (compression === 'none') return bytes;
  const run = compression === 'gzip' ? gunzipSync : zstdDecompressSync;
  return run(bytes, { maxOutputLength: bytesMax });
}

const readBufferBytesMin = 1 << 20;
let readBuffer = Buffer.alloc(0);

/** The bytes of a file, in room that the next call uses again. */
function readBytesSync(path: string, bytesMax: number): Buffer {
  const file = openSync(path, 'r');
  try {
    const { size } = fstatSync(file);
    if (size > bytesMax) throw new FileTooLongError(`it is longer than ${bytesMax} bytes`);
    // One more, so that a file that has grown is seen to.
    if (readBuffer.length <= size) readBuffer = Buffer.allocUnsafeSlow(Math.max(size + 1, readBufferBytesMin));
    let length = 0;
    for (let read = -1; read !== 0 && length < readBuffer.length; length += read)
      read = readSync(file, readBuffer, length, readBuffer.length - length, null);
    if (length > size) throw new Error(`${path} grows while it is read`);
    return readBuffer.subarray(0, length);
  } finally {
    closeSync(file);
  }
}

/** Decompresses a file into another. */
export async function decompressFile(
  { path, compression }: InputFile,
  target: string,
  signal: AbortSignal,
): Promise<void> {
  if (compression === 'none') throw new Error(`${path} is not compressed`);
  await pipeline(createReadStream(path), decompressors[compression](), createWriteStream(target), { signal });
}

/** A line without its end. */
export interface InputLine {
  readonly text: string;
  /** Why it is not to be read; null where it is. */
  readonly fault: string | null;
}

/** Lines of a file, some thousand at a time; of one that is longer than `bytesMax` only the beginning is kept. */
export async function* readLines(source: InputFile, bytesMax: number): AsyncGenerator<InputLine[], void, undefined> {
  let rest: Buffer = Buffer.alloc(0);
  let skipping = false;
  const isEmpty = (line: InputLine): boolean => line.text.trim() === '';
  for await (const piece of readChunks(source)) {
    const lines: InputLine[] = [];
    let bytes = rest.length === 0 ? piece : Buffer.concat([rest, piece]);
    for (let end = bytes.indexOf(newline); end >= 0; end = bytes.indexOf(newline)) {
      if (skipping) skipping = false;
      else lines.push(toInputLine(bytes.subarray(0, end), bytesMax));
      bytes = bytes.subarray(end + 1);
    }
    if (!skipping && bytes.length > bytesMax) {
      lines.push(toInputLine(bytes, bytesMax));
      skipping = true;
    }
    rest = skipping ? Buffer.alloc(0) : Buffer.from(bytes);
    const full = lines.filter((line) => !isEmpty(line));
    if (full.length > 0) yield full;
  }
  const last = toInputLine(rest, bytesMax);
  if (!skipping && !isEmpty(last)) yield [last];
}

const newline = 0x0a;

function toInputLine(bytes: Buffer, bytesMax: number): InputLine {
  if (bytes.length > bytesMax) return { text: bytes.toString('utf8', 0, bytesMax), fault: 'the line is too long' };
  return { text: bytes.toString('utf8'), fault: isUtf8(bytes) ? null : 'the line is not UTF-8' };
}

/** A file that is not, or not to its end, what it should be; `message` is a clause. */
export class UnreadableFileError extends Error {}
