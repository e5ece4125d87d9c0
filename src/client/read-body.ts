import { promisify } from 'node:util';
import { brotliDecompress, gunzip, gunzipSync, inflate, inflateRaw, zstdDecompress } from 'node:zlib';
import { UnreadableResponseError } from './json-response.ts';

type Decompress = (bytes: Uint8Array, options: { maxOutputLength: number }) => Promise<Buffer>;

/** Content codings of RFC 9110, 8.4.1, and what came later. Only gzip is asked for; some servers do not listen. */
const decompressors: Record<string, (bytes: Uint8Array) => Decompress> = {
  gzip: () => decompressGzip,
  'x-gzip': () => decompressGzip,
  deflate: (bytes) => promisify(hasZlibHeader(bytes) ? inflate : inflateRaw),
  br: () => promisify(brotliDecompress),
  zstd: () => promisify(zstdDecompress),
};

const gunzipAsync: (bytes: Uint8Array, how: { maxOutputLength: number; chunkSize: number }) => Promise<Buffer> =
  promisify(gunzip);

/** Up to so many bytes, decompressed, another thread takes longer to turn to them than this one takes for them. */
const smallBytesMax = 16 * 1024;
/** Deflate makes at most so many bytes of one (RFC 1951: 258 of a bit or two). */
const deflateRatioMax = 1032;
const chunkBytes = 64 * 1024;

/**
 * Gzip says in its last four bytes how long it gets (RFC 1952, 2.3.1): a chunk of that length is filled at once and is
 * the answer, where chunks of the usual length are filled in turn and put together. It is a hint: of several members it
 * is the last one's, and anybody may say anything.
 */
async function decompressGzip(bytes: Uint8Array, { maxOutputLength }: { maxOutputLength: number }): Promise<Buffer> {
  const said =
    bytes.length < 4 ? 0 : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).readUInt32LE(bytes.length - 4);
  const length = Math.min(said, bytes.length * deflateRatioMax, maxOutputLength);
  // What is packed is hardly ever longer than what it was.
  const likely = length >= bytes.length / 2;
  if (likely && length <= smallBytesMax && bytes.length <= smallBytesMax) {
    const small = decompressSmallGzip(bytes, Math.min(maxOutputLength, smallBytesMax), length);
    if (small !== undefined) return small;
  }
  // One more, or a second chunk is made to see that nothing follows.
  const plain = await gunzipAsync(bytes, { maxOutputLength, chunkSize: likely ? length + 1 : chunkBytes });
  // One that got far shorter than it says would hold all of its chunk.
  return plain.length < plain.buffer.byteLength / 2 ? Buffer.from(plain) : plain;
}

/** Undefined where it gets longer than `bytesMax`. */
function decompressSmallGzip(bytes: Uint8Array, bytesMax: number, length: number): Buffer | undefined {
  try {
    return gunzipSync(bytes, { maxOutputLength: bytesMax, chunkSize: Math.max(64, length + 1) });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return undefined;
    throw error;
  }
}

/**
 * Collects a body as it comes over the wire.
 * @throws UnreadableResponseError once it is longer than `bytesMax`
 */
export async function readBody(chunks: AsyncIterable<Uint8Array>, bytesMax: number): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.length;
    if (length > bytesMax) throw createTooLongError(bytesMax);
    parts.push(chunk);
  }
  return parts.length === 1
    ? Buffer.from(parts[0]!.buffer, parts[0]!.byteOffset, length)
    : Buffer.concat(parts, length);
}

/**
 * Undoes `Content-Encoding`, several of them in reverse.
 * @throws UnreadableResponseError for an unknown or broken coding, and once the result is longer than `bytesMax`
 */
export async function decompressBody(bytes: Buffer, contentEncoding: string, bytesMax: number): Promise<Buffer> {
  const codings = contentEncoding
    .split(',')
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => coding !== '' && coding !== 'identity');
  // Nobody means this; each coding costs up to bytesMax of work.
  if (codings.length > 2) throw new UnreadableResponseError('more than two content codings');
  let decoded = bytes;
  for (const coding of codings.reverse()) {
    const choose = Object.hasOwn(decompressors, coding) ? decompressors[coding] : undefined;
    if (choose === undefined) throw new UnreadableResponseError('an unknown content coding');
    decoded = await decompress(choose(decoded), decoded, coding, bytesMax);
  }
  return decoded;
}

async function decompress(run: Decompress, bytes: Buffer, coding: string, bytesMax: number): Promise<Buffer> {
  try {
    return await run(bytes, { maxOutputLength: bytesMax });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw createTooLongError(bytesMax);
    throw new UnreadableResponseError(`a broken ${coding} body`);
  }
}

function createTooLongError(bytesMax: number): UnreadableResponseError {
  return new UnreadableResponseError(`more than ${bytesMax} bytes`);
}

/** "deflate" is zlib's format by the RFC and raw deflate by some servers; RFC 1950, 2.2 tells them apart. */
function hasZlibHeader(bytes: Uint8Array): boolean {
  return bytes.length >= 2 && (bytes[0]! & 0x0f) === 8 && (bytes[0]! * 256 + bytes[1]!) % 31 === 0;
}
