import { promisify } from 'node:util';
import { brotliDecompress, gunzip, inflate, inflateRaw, zstdDecompress } from 'node:zlib';
import { UnreadableAnswer } from './json-answer.ts';

type Decompress = (bytes: Uint8Array, options: { maxOutputLength: number }) => Promise<Buffer>;

/** Content codings of RFC 9110, 8.4.1, and what came later. Only gzip is asked for; some servers do not listen. */
const decompressors: Record<string, (bytes: Uint8Array) => Decompress> = {
  gzip: () => promisify(gunzip),
  'x-gzip': () => promisify(gunzip),
  deflate: (bytes) => promisify(hasZlibHeader(bytes) ? inflate : inflateRaw),
  br: () => promisify(brotliDecompress),
  zstd: () => promisify(zstdDecompress),
};

/**
 * Collects a body as it comes over the wire.
 * @throws UnreadableAnswer once it is longer than `bytesMax`
 */
export async function readBody(chunks: AsyncIterable<Uint8Array>, bytesMax: number): Promise<Buffer> {
  const parts: Uint8Array[] = [];
  let length = 0;
  for await (const chunk of chunks) {
    length += chunk.length;
    if (length > bytesMax) throw tooLong(bytesMax);
    parts.push(chunk);
  }
  return Buffer.concat(parts, length);
}

/**
 * Undoes `Content-Encoding`, several of them in reverse.
 * @throws UnreadableAnswer for an unknown or broken coding, and once the result is longer than `bytesMax`
 */
export async function decompressBody(bytes: Buffer, contentEncoding: string, bytesMax: number): Promise<Buffer> {
  const codings = contentEncoding
    .split(',')
    .map((coding) => coding.trim().toLowerCase())
    .filter((coding) => coding !== '' && coding !== 'identity');
  // Nobody means this; each coding costs up to bytesMax of work.
  if (codings.length > 2) throw new UnreadableAnswer('more than two content codings');
  let decoded = bytes;
  for (const coding of codings.reverse()) {
    const choose = Object.hasOwn(decompressors, coding) ? decompressors[coding] : undefined;
    if (choose === undefined) throw new UnreadableAnswer('an unknown content coding');
    decoded = await decompress(choose(decoded), decoded, coding, bytesMax);
  }
  return decoded;
}

async function decompress(run: Decompress, bytes: Buffer, coding: string, bytesMax: number): Promise<Buffer> {
  try {
    return await run(bytes, { maxOutputLength: bytesMax });
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLong(bytesMax);
    throw new UnreadableAnswer(`a broken ${coding} body`);
  }
}

function tooLong(bytesMax: number): UnreadableAnswer {
  return new UnreadableAnswer(`more than ${bytesMax} bytes`);
}

/** "deflate" is zlib's format by the RFC and raw deflate by some servers; RFC 1950, 2.2 tells them apart. */
function hasZlibHeader(bytes: Uint8Array): boolean {
  return bytes.length >= 2 && (bytes[0]! & 0x0f) === 8 && (bytes[0]! * 256 + bytes[1]!) % 31 === 0;
}
