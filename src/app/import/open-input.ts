import { isUtf8 } from 'node:buffer';
import { closeSync, createReadStream, createWriteStream, fstatSync, openSync, readSync } from 'node:fs';
import { readFile, stat } from 'node:fs/promises';
import { pipeline } from 'node:stream/promises';
import { promisify } from 'node:util';
import { createGunzip, createZstdDecompress, gunzip, gunzipSync, zstdDecompress, zstdDecompressSync } from 'node:zlib';
import type { Compression } from './files.ts';

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

/** A whole small file, decompressed; throws TooLong where it is longer than `bytesMax`. */
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
