import { isUtf8 } from 'node:buffer';
import {
  constants as accessModes,
  accessSync,
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
import { basename, join, resolve } from 'node:path';
import { pipeline } from 'node:stream/promises';
import { constants, createGunzip, createZstdDecompress, gunzipSync, zstdDecompressSync } from 'node:zlib';
import { isRawFile, rawMagicBytes } from '../../archive/raw/raw-file.ts';
import { UsageError } from '../../base/errors.ts';
import { compareUtf8 } from '../../base/symbol-name.ts';

export type ImportFormat = 'pages' | 'csv' | 'ndjson' | 'parquet' | 'raw';
type Compression = 'none' | 'gzip' | 'zstd';

export interface ImportFile {
  readonly path: string;
  /** Whether the file was named explicitly rather than found in a folder. A fault in a named file is a usage error. */
  readonly isNamed: boolean;
  readonly format: ImportFormat;
  /** `none` for saved pages, of which there are many: `readWholeFile` detects how each is compressed. */
  readonly compression: Compression;
  /** Time of last modification, at most now. Epoch ms. */
  readonly writtenAt: number;
  readonly bytes: number;
}

interface ImportList {
  readonly files: readonly ImportFile[];
  /** Files in folders whose type is unknown. */
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
 * Lists the files to import, each once. Folders are searched recursively, in sorted order, skipping hidden files.
 * @param givenFormat the format of all files; null: detected from the name, or from the first bytes
 * @throws UsageError if a path does not exist, a named file is of unknown type, or no file is found
 */
export function listImportFiles(paths: readonly string[], givenFormat: ImportFormat | null, nowMs: number): ImportList {
  const files = new Map<string, ImportFile>();
  const ignored: string[] = [];
  const addFile = (path: string, stats: Stats, named: boolean): void => {
    const absolutePath = resolve(path);
    if (files.has(absolutePath)) return;
    const head = givenFormat === 'pages' ? checkReadable(path) : readHead(path);
    const compression = detectCompression(head);
    const format = detectFormat(path, head, givenFormat, named);
    if (format !== null) {
      const writtenAt = Math.min(Math.floor(stats.mtimeMs), nowMs);
      files.set(absolutePath, { path, isNamed: named, format, compression, writtenAt, bytes: stats.size });
    } else if (named) {
      const guess = guessFormat(path, compression);
      throw new UsageError(
        `${path}: unknown file type (expected .json, .csv, .ndjson, .jsonl or .parquet, optionally with .gz or .zst). ${guess === null ? 'Use --format.' : guess}`,
      );
    } else ignored.push(path);
  };
  for (const path of paths) {
    const stats = statTarget(path);
    if (stats === undefined) throw new UsageError(`${path}: no such file or folder.`);
    if (stats.isFile()) addFile(path, stats, true);
    else if (stats.isDirectory())
      for (const [filePath, fileStats] of walkFiles(path)) addFile(filePath, fileStats, false);
    else throw new UsageError(`${path} is neither a file nor a folder.`);
  }
  if (files.size === 0)
    throw new UsageError(`${paths.join(', ')}: no file that can be imported. Use --format to name the format.`);
  return { files: [...files.values()], ignored };
}

function* walkFiles(folder: string): Generator<[string, Stats]> {
  const entries = readdirSync(folder, { withFileTypes: true }).filter((entry) => !entry.name.startsWith('.'));
  for (const entry of entries.sort((a, b) => compareUtf8(a.name, b.name))) {
    const path = join(folder, entry.name);
    // Symbolic links to folders are not followed: they may form a cycle.
    if (entry.isDirectory()) yield* walkFiles(path);
    else {
      const stats = statTarget(path);
      if (stats?.isFile()) yield [path, stats];
    }
  }
}

/** Undefined for a symbolic link that is dangling or forms a cycle. */
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

/**
 * Checks that a file may be read, with one system call instead of three. Returns no bytes: if the format is given and the file
 * is a saved page, none are needed.
 */
function checkReadable(path: string): Buffer {
  try {
    accessSync(path, accessModes.R_OK);
    return noBytes;
  } catch (error) {
    throw new UsageError(`${path} cannot be read: ${(error as Error).message}`, { cause: error });
  }
}

const noBytes = Buffer.alloc(0);

/** File names of the raw-response store. Used to recognize a file whose beginning is damaged. */
const rawNamePattern = /-\d{3}\.raw$/;

/** Detects gzip (RFC 1952) and Zstandard (RFC 8878) by the first bytes, not by the name. */
function detectCompression(head: Buffer): Compression {
  if (head[0] === 0x1f && head[1] === 0x8b) return 'gzip';
  return head.length >= 4 && head.readUInt32LE() === 0xfd2fb528 ? 'zstd' : 'none';
}

function detectFormat(
  path: string,
  head: Buffer,
  givenFormat: ImportFormat | null,
  named: boolean,
): ImportFormat | null {
  const extension = /\.([^.]+?)(?:\.(?:gz|zst))?$/i.exec(basename(path))?.[1]?.toLowerCase();
  const byName = extension === undefined ? undefined : formatByExtension[extension];
  // In a folder, a file whose name states another format is skipped.
  if (givenFormat !== null) return named || byName === undefined || byName === givenFormat ? givenFormat : null;
  if (isRawFile(head) || rawNamePattern.test(path)) return 'raw';
  return byName ?? (head.toString('latin1', 0, 4) === 'PAR1' ? 'parquet' : null);
}

const guessBytes = 1 << 14;

/** What a file of unknown type looks like, as a sentence with the flag; null if that is unknown. */
function guessFormat(path: string, compression: Compression): string | null {
  const start = readStart(path, compression);
  if (start === null) return null;
  const [first = '', second = ''] = start.split(/\r?\n/, 2);
  const format = start.startsWith('PAR1')
    ? 'parquet'
    : /^\s*\{.*\}\s*$/.test(first) && second.trimStart().startsWith('{')
      ? 'ndjson'
      : /^\s*[{[]/.test(first)
        ? 'pages'
        : /^[^,;\t|]+[,;\t|]/.test(first) && second !== ''
          ? 'csv'
          : null;
  if (format === null) return null;
  const name = { parquet: 'Parquet', ndjson: 'JSON lines', pages: 'a saved page', csv: 'CSV' }[format];
  const packed = compression === 'none' ? '' : `, compressed with ${compression}`;
  return `It looks like ${name}${packed}. Use --format ${format}`;
}

/** The first decompressed bytes of a file as text; null if they cannot be read as UTF-8. */
function readStart(path: string, compression: Compression): string | null {
  const file = openSync(path, 'r');
  try {
    const bytes = Buffer.alloc(guessBytes);
    const read = bytes.subarray(0, readSync(file, bytes, 0, guessBytes, 0));
    // The rest of the compressed stream is missing, which these flush modes allow.
    const start =
      compression === 'gzip'
        ? gunzipSync(read, { finishFlush: constants.Z_SYNC_FLUSH })
        : compression === 'zstd'
          ? zstdDecompressSync(read, { finishFlush: constants.ZSTD_e_flush })
          : read;
    const text = start.toString('utf8').replace(/^\ufeff/, '');
    return text.includes('\0') ? null : text;
  } catch {
    return null;
  } finally {
    closeSync(file);
  }
}

type InputFile = { readonly path: string; readonly compression: Compression };

const decompressors = { gzip: createGunzip, zstd: createZstdDecompress };

/**
 * Yields the decompressed bytes of a file in chunks. Closes the file when the consumer stops.
 * @param onRead called before each chunk with the bytes read from the file so far
 */
export async function* readChunks(
  { path, compression }: InputFile,
  onRead: (bytes: number) => void = () => {},
): AsyncGenerator<Buffer, void, undefined> {
  const file = createReadStream(path, { highWaterMark: 1 << 18 });
  if (compression === 'none') {
    for await (const chunk of file as AsyncIterable<Buffer>) {
      onRead(file.bytesRead);
      yield chunk;
    }
    return;
  }
  const plain = decompressors[compression]();
  // Not pipeline(): if the consumer stops early, it waits for an end that a zstd decompressor never signals.
  file.on('error', (error) => plain.destroy(error));
  file.pipe(plain);
  try {
    for await (const chunk of plain as AsyncIterable<Buffer>) {
      onRead(file.bytesRead);
      yield chunk;
    }
  } finally {
    plain.destroy();
    file.destroy();
  }
}

/** The first decompressed bytes of a file: at most `bytesMax` plus one chunk. */
export async function readBeginning(source: InputFile, bytesMax: number): Promise<Buffer> {
  const parts: Buffer[] = [];
  let length = 0;
  for await (const chunk of readChunks(source)) {
    parts.push(chunk);
    length += chunk.length;
    if (length >= bytesMax) break;
  }
  return Buffer.concat(parts);
}

/**
 * Reads a file, and decompresses it if its first bytes say that it is compressed. Synchronous, because that is several times
 * as fast for small files. The next call overwrites the returned bytes.
 * @param mayGrow whether another process may append to the file; bytes that it appends in the meantime are ignored
 * @throws Error if the content is longer than `bytesMax`, or if the file grows although `mayGrow` is false
 */
export function readWholeFile({ path }: Pick<InputFile, 'path'>, bytesMax: number, mayGrow = false): Buffer {
  const bytes = readBytes(path, bytesMax, mayGrow);
  const compression = detectCompression(bytes);
  if (compression === 'none') return bytes;
  const decompress = compression === 'gzip' ? gunzipSync : zstdDecompressSync;
  try {
    return decompress(bytes, { maxOutputLength: bytesMax });
  } catch (error) {
    throw (error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE' ? createTooLongError(bytesMax) : error;
  }
}

const createTooLongError = (bytesMax: number): Error => new Error(`longer than ${bytesMax} bytes`);

const readBufferBytesMin = 1 << 20;
let readBuffer = Buffer.alloc(0);

/** Reads a file into a buffer that the next call reuses. `mayGrow`: another process may append to the file. */
function readBytes(path: string, bytesMax: number, mayGrow: boolean): Buffer {
  const file = openSync(path, 'r');
  try {
    const { size } = fstatSync(file);
    if (size > bytesMax) throw createTooLongError(bytesMax);
    // One byte more than the size, to detect a file that grew.
    if (readBuffer.length <= size) readBuffer = Buffer.allocUnsafeSlow(Math.max(size + 1, readBufferBytesMin));
    let length = 0;
    let bytesRead: number;
    // The last read asks for more bytes than the file had, so no further one is needed to detect that it grew.
    do {
      bytesRead = readSync(file, readBuffer, length, readBuffer.length - length, null);
      length += bytesRead;
    } while (bytesRead !== 0 && length < size);
    if (length > size && !mayGrow) throw new Error(`${path} grew while it was read`);
    return readBuffer.subarray(0, Math.min(length, size));
  } finally {
    closeSync(file);
  }
}

/** Decompresses a file into another one. */
export async function decompressFile(
  { path, compression }: InputFile,
  target: string,
  signal: AbortSignal,
): Promise<void> {
  if (compression === 'none') throw new Error(`${path} is not compressed`);
  await pipeline(createReadStream(path), decompressors[compression](), createWriteStream(target), { signal });
}

/** A line without its line ending. */
interface InputLine {
  readonly text: string;
  /** Why the line cannot be used. Null if it can. */
  readonly fault: string | null;
}

/**
 * Yields the lines of a file in batches, one for each chunk that is read. Empty lines are skipped. A line longer than
 * `bytesMax` is truncated. `onRead`: see `readChunks`.
 */
export async function* readLines(
  source: InputFile,
  bytesMax: number,
  onRead?: (bytes: number) => void,
): AsyncGenerator<InputLine[], void, undefined> {
  let rest: Buffer = Buffer.alloc(0);
  let skipping = false;
  const isEmpty = (line: InputLine): boolean => line.text.trim() === '';
  for await (const chunk of readChunks(source, onRead)) {
    const lines: InputLine[] = [];
    let bytes = rest.length === 0 ? chunk : Buffer.concat([rest, chunk]);
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

/** A file that is invalid or damaged. `message` is one clause. */
export class UnreadableFileError extends Error {}

/** The first line of an error message, without its period. */
export const formatErrorLine = (error: unknown): string =>
  (error instanceof Error ? error.message : String(error)).split('\n')[0]!.replace(/\.$/, '');
