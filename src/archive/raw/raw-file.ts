import { join } from 'node:path';
import { promisify } from 'node:util';
import { constants, crc32, zstdCompress, zstdCompressSync, zstdDecompress } from 'node:zlib';
import { addDays, formatDay } from '../../base/time.ts';
import { decodeRawPages, encodeRawPages, type RawPage } from '../../contract/raw-page.ts';
import type { Archive } from '../archive.ts';
import type { ArchiveLayout } from '../format/layout.ts';

// A file of raw pages is a sequence of pieces. A piece is a skippable zstd frame (RFC 8878, 3.1.2) with the length and
// CRC-32 of the next frame, followed by that zstd frame. `zstdcat` can read the file; torn and damaged pieces are
// detected.

const skippableMagic = 0x184d2a50;
const rawMagic = Buffer.from('oddsraw1', 'latin1');
const payloadBytes = rawMagic.length + 8;
/** Bytes before each zstd frame. */
const pieceHeaderBytes = 8 + payloadBytes;

/** Level 3 takes longer and saves nothing here. */
const params = { [constants.ZSTD_c_compressionLevel]: 1 };

/**
 * With room for incompressible input, zstd compresses in one call, straight from the input: otherwise it copies the input to a
 * buffer of its own, and the thread pool is asked again for each chunk.
 */
const toCompressOptions = ({ length }: Uint8Array) => ({ params, chunkSize: length + (length >> 8) + 64 });

/** Up to this size, compressing on this thread is faster than on another one. */
const smallBytesMax = 8192;

const compressAsync: (bytes: Uint8Array, how: ReturnType<typeof toCompressOptions>) => Promise<Buffer> =
  promisify(zstdCompress);
const decompressAsync: (bytes: Uint8Array, how: { maxOutputLength: number }) => Promise<Buffer> =
  promisify(zstdDecompress);

/** Encodes some pages as one piece. Large pieces are compressed on Node's thread pool. */
export async function encodeRawPiece(pages: readonly RawPage[]): Promise<Uint8Array[]> {
  const plain = encodeRawPages(pages);
  const options = toCompressOptions(plain);
  const frame = plain.length <= smallBytesMax ? zstdCompressSync(plain, options) : await compressAsync(plain, options);
  const head = Buffer.alloc(pieceHeaderBytes);
  head.writeUInt32LE(skippableMagic, 0);
  head.writeUInt32LE(payloadBytes, 4);
  rawMagic.copy(head, 8);
  head.writeUInt32LE(frame.length, pieceHeaderBytes - 8);
  head.writeUInt32LE(crc32(frame), pieceHeaderBytes - 4);
  return [head, frame];
}

/** Length of the prefix that `isRawFile` checks. */
export const rawMagicBytes = 16;

const pieceHeaderStart = Buffer.alloc(rawMagicBytes);
pieceHeaderStart.writeUInt32LE(skippableMagic, 0);
pieceHeaderStart.writeUInt32LE(payloadBytes, 4);
rawMagic.copy(pieceHeaderStart, 8);

/** Whether a file that starts with these bytes holds raw pages. */
export const isRawFile = (bytes: Buffer): boolean => bytes.subarray(0, rawMagicBytes).equals(pieceHeaderStart);

export type RawPiece =
  | { readonly kind: 'pages'; readonly pages: readonly RawPage[] }
  /** A damaged piece, or bytes that are not a piece. */
  | { readonly kind: 'damaged'; readonly bytes: number }
  /** A last piece that was not written completely. */
  | { readonly kind: 'torn'; readonly bytes: number };

/**
 * Reads the pieces of a file of raw pages. Skips damage up to the next piece.
 * @param bytesMax maximum decompressed size of a piece; a larger one counts as damaged
 */
export async function* readRawFile(file: Buffer, bytesMax: number): AsyncGenerator<RawPiece, void, undefined> {
  for (let at = 0; at < file.length; ) {
    const end = findPieceEnd(file, at);
    const pages = end > file.length ? null : await decodeRawPiece(file.subarray(at, end), bytesMax);
    if (pages !== null) {
      yield { kind: 'pages', pages };
      at = end;
      continue;
    }
    // The length may be damaged, so search for the next piece header.
    const next = file.indexOf(pieceHeaderStart, at + 1);
    const nextAt = next < 0 ? file.length : next;
    const isTorn = next < 0 && end > file.length && isTornPiece(file.subarray(at));
    yield { kind: isTorn ? 'torn' : 'damaged', bytes: nextAt - at };
    at = nextAt;
  }
}

/** End of the piece that starts at `at`; infinite if there is no complete piece header at `at`. */
const findPieceEnd = (file: Buffer, at: number): number =>
  at + pieceHeaderBytes > file.length || !isRawFile(file.subarray(at))
    ? Number.POSITIVE_INFINITY
    : at + pieceHeaderBytes + file.readUInt32LE(at + pieceHeaderBytes - 8);

/** Whether the bytes are the start of a piece, or of its magic number. */
const isTornPiece = (bytes: Buffer): boolean =>
  pieceHeaderStart.subarray(0, bytes.length).equals(bytes.subarray(0, rawMagicBytes));

/** The pages of a piece; null if its checksum or contents are wrong. */
async function decodeRawPiece(piece: Buffer, maxOutputLength: number): Promise<RawPage[] | null> {
  const frame = piece.subarray(pieceHeaderBytes);
  if (crc32(frame) !== piece.readUInt32LE(pieceHeaderBytes - 4)) return null;
  try {
    return decodeRawPages(await decompressAsync(frame, { maxOutputLength }));
  } catch {
    return null;
  }
}

export interface RawRetention {
  /** Full days for which raw responses are kept, besides the current day; 0 keeps none. */
  readonly keepDays: number;
  /** Maximum total size of all raw files, in bytes. */
  readonly bytesMax: number;
}

type ArchiveFiles = Pick<Archive, 'disk' | 'layout'>;

/** The folder of a UTC day's raw responses. */
export const toRawFolder = (layout: ArchiveLayout, day: string): string => join(layout.privateFolder, 'raw', day);

const isDayName = (name: string): boolean => /^\d{4}-\d\d-\d\d$/.test(name);

/** Absolute paths of all raw files, oldest day first. */
export const listRawFiles = ({ disk, layout }: ArchiveFiles): string[] =>
  disk
    .list(join(layout.privateFolder, 'raw'))
    .filter(isDayName)
    .flatMap((day) => disk.list(toRawFolder(layout, day)).map((name) => join(toRawFolder(layout, day), name)))
    .filter((path) => disk.isFile(path));

/**
 * Removes raw files past their retention, and the oldest ones beyond `bytesMax`. May remove a file that is still being
 * written; its later contents are lost too.
 * @param nowMs null to apply `bytesMax` only
 */
export function pruneRawFiles(
  { disk, layout }: ArchiveFiles,
  { keepDays, bytesMax }: RawRetention,
  nowMs: number | null,
): void {
  const root = join(layout.privateFolder, 'raw');
  if (keepDays === 0) disk.remove(root);
  const first = nowMs === null ? '' : addDays(formatDay(nowMs), -keepDays);
  for (const day of disk.list(root).filter(isDayName)) if (day < first) disk.remove(toRawFolder(layout, day));
  const files = listRawFiles({ disk, layout }).map((path) => ({ path, bytes: disk.size(path) ?? 0 }));
  let total = files.reduce((sum, { bytes }) => sum + bytes, 0);
  for (const { path, bytes } of files) {
    if (total <= bytesMax) break;
    disk.remove(path);
    total -= bytes;
  }
}
