import { promisify } from 'node:util';
import { brotliDecompress, gunzip, gunzipSync, inflate, inflateRaw, zstdDecompress } from 'node:zlib';

/**
 * The body of a response is not what was requested. A retry may succeed. `message` completes "HTTP 200 with …". It
 * is a noun phrase that quotes nothing from the body except short names. `detail` is the service's own text, not sanitized.
 */
export class UnreadableResponseError extends Error {
  readonly detail: string | undefined;
  constructor(message: string, detail?: string) {
    super(message);
    this.detail = detail;
    this.name = 'UnreadableResponseError';
  }
}

type Decompress = (bytes: Uint8Array, options: { maxOutputLength: number }) => Promise<Buffer>;

/** Content codings of RFC 9110, 8.4.1, and later ones. Only gzip is requested, but some servers ignore that. */
const decompressors: Record<string, (bytes: Uint8Array) => Decompress> = {
  gzip: () => decompressGzip,
  'x-gzip': () => decompressGzip,
  deflate: (bytes) => promisify(hasZlibHeader(bytes) ? inflate : inflateRaw),
  br: () => promisify(brotliDecompress),
  zstd: () => promisify(zstdDecompress),
};

const gunzipAsync: (bytes: Uint8Array, how: { maxOutputLength: number; chunkSize: number }) => Promise<Buffer> =
  promisify(gunzip);

/** Up to this decompressed size, decompressing in this thread is faster than in another one. */
const smallBytesMax = 16 * 1024;
/** Maximum expansion by deflate (RFC 1951: 258 bytes from one or two bits). */
const deflateRatioMax = 1032;
const chunkBytes = 64 * 1024;

/**
 * Decompresses gzip. The last four bytes state the decompressed size (RFC 1952, 2.3.1). A buffer of that size is filled in
 * one pass, while buffers of the default size have to be concatenated. The size is only a hint: it may be wrong, and with
 * several members it is that of the last one.
 */
async function decompressGzip(bytes: Uint8Array, { maxOutputLength }: { maxOutputLength: number }): Promise<Buffer> {
  const statedBytes =
    bytes.length < 4 ? 0 : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).readUInt32LE(bytes.length - 4);
  const length = Math.min(statedBytes, bytes.length * deflateRatioMax, maxOutputLength);
  // Compressed data is hardly ever larger than its source.
  const likely = length >= bytes.length / 2;
  if (likely && length <= smallBytesMax && bytes.length <= smallBytesMax) {
    const small = decompressSmallGzip(bytes, Math.min(maxOutputLength, smallBytesMax), length);
    if (small !== undefined) return small;
  }
  // One byte more, otherwise zlib allocates a second buffer to detect the end.
  const plain = await gunzipAsync(bytes, { maxOutputLength, chunkSize: likely ? length + 1 : chunkBytes });
  // If the result is much shorter than stated, it must not hold the full buffer in memory.
  return plain.length < plain.buffer.byteLength / 2 ? Buffer.from(plain) : plain;
}

/** Undefined if the result is longer than `bytesMax`. */
function decompressSmallGzip(bytes: Uint8Array, bytesMax: number, length: number): Buffer | undefined {
  try {
    return gunzipSync(bytes, { maxOutputLength: bytesMax, chunkSize: Math.max(64, length + 1) });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') return undefined;
    throw error;
  }
}

/**
 * Collects a body from the connection.
 * @throws UnreadableResponseError if it is longer than `bytesMax`
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
 * Decodes `Content-Encoding`. Several codings are decoded in reverse order.
 * @throws UnreadableResponseError for an unknown coding or invalid data, and if the result is longer than `bytesMax`
 */
export async function decompressBody(bytes: Buffer, contentEncoding: string, bytesMax: number): Promise<Buffer> {
  const codings = contentEncoding
    .split(',')
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => coding !== '' && coding !== 'identity');
  // No server needs more, and each coding costs up to `bytesMax` of work.
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

/** "deflate" means the zlib format in the RFC and raw deflate on some servers. The header (RFC 1950, 2.2) tells them apart. */
function hasZlibHeader(bytes: Uint8Array): boolean {
  return bytes.length >= 2 && (bytes[0]! & 0x0f) === 8 && (bytes[0]! * 256 + bytes[1]!) % 31 === 0;
}

/**
 * Decodes the text of a response. A byte order mark is dropped.
 * @throws UnreadableResponseError for invalid UTF-8: U+FFFD in a symbol or price would be a silent change
 */
export function decodeText(bytes: Uint8Array): string {
  try {
    return new TextDecoder('utf-8', { fatal: true }).decode(bytes);
  } catch {
    throw new UnreadableResponseError('text that is not UTF-8');
  }
}

/**
 * Parses a response as one JSON object.
 * @throws UnreadableResponseError for anything else, without JSON.parse's message, which quotes the body
 */
export function parseObject(text: string): Record<string, unknown> {
  const value = parseJson(text);
  if (typeof value !== 'object' || value === null || Array.isArray(value)) {
    throw new UnreadableResponseError('JSON that is not an object');
  }
  return value as Record<string, unknown>;
}

/**
 * Parses a response as one JSON object or array.
 * @throws UnreadableResponseError for anything else, like parseObject
 */
export function parseObjectOrList(text: string): object {
  const value = parseJson(text);
  if (typeof value !== 'object' || value === null)
    throw new UnreadableResponseError('JSON that is not an object or array');
  return value;
}

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text) as unknown;
  } catch {
    throw new UnreadableResponseError(text.trim() === '' ? 'an empty body' : 'broken JSON');
  }
}

/** Returns an integer that a double holds exactly. Anything else, including text, counts as absent. */
export function toIntegerOrNull(value: unknown): number | null {
  return Number.isSafeInteger(value) ? (value as number) : null;
}
