import { join } from 'node:path';
import { promisify } from 'node:util';
import { constants, crc32, zstdCompress, zstdCompressSync, zstdDecompress } from 'node:zlib';
import { addDays, formatDay } from '../../base/time.ts';
import { decodeRawPages, encodeRawPages, type RawPage } from '../../contract/raw-page.ts';
import type { ArchiveLayout } from '../format/layout.ts';
import type { Archive } from '../open-archive.ts';

// A file of raw pages is a row of pieces. Each is a skippable frame of zstd (RFC 8878, 3.1.2) that says how long the
// zstd frame after it is and what its CRC-32 is, and that frame: `zstdcat` shows it, and what is torn or damaged is told.

const skippableMagic = 0x184d2a50;
const rawMagic = Buffer.from('oddsraw1', 'latin1');
const payloadBytes = rawMagic.length + 8;
/** Before each frame. */
const pieceHeaderBytes = 8 + payloadBytes;

/** Fast rather than small: level 3 takes more time for nothing. Larger chunks cost small answers more than they bring. */
const compressOptions = { params: { [constants.ZSTD_c_compressionLevel]: 1 }, chunkSize: 1 << 14 };

/** Up to here, compressing takes this thread less than having it done by another. */
const smallBytesMax = 8192;

const compressAsync: (bytes: Uint8Array, how: typeof compressOptions) => Promise<Buffer> = promisify(zstdCompress);
const decompressAsync: (bytes: Uint8Array, how: { maxOutputLength: number }) => Promise<Buffer> =
  promisify(zstdDecompress);

/** The piece of some answers; unless they are small it is compressed on a thread of Node's pool. */
export async function encodeRawPiece(pages: readonly RawPage[]): Promise<Uint8Array[]> {
  const plain = encodeRawPages(pages);
  const frame =
    plain.length <= smallBytesMax
      ? zstdCompressSync(plain, compressOptions)
      : await compressAsync(plain, compressOptions);
  const head = Buffer.alloc(pieceHeaderBytes);
  head.writeUInt32LE(skippableMagic, 0);
  head.writeUInt32LE(payloadBytes, 4);
  rawMagic.copy(head, 8);
  head.writeUInt32LE(frame.length, pieceHeaderBytes - 8);
  head.writeUInt32LE(crc32(frame), pieceHeaderBytes - 4);
  return [head, frame];
}

/** The bytes by which `isRawFile` knows a file. */
export const rawMagicBytes = 16;

const pieceHeaderStart = Buffer.alloc(rawMagicBytes);
pieceHeaderStart.writeUInt32LE(skippableMagic, 0);
pieceHeaderStart.writeUInt32LE(payloadBytes, 4);
rawMagic.copy(pieceHeaderStart, 8);

/** Whether a file that begins like this holds raw pages. */
export const isRawFile = (bytes: Buffer): boolean => bytes.subarray(0, rawMagicBytes).equals(pieceHeaderStart);

export type RawPiece =
  | { readonly kind: 'pages'; readonly pages: readonly RawPage[] }
  /** Bytes that are no piece, or a damaged one. */
  | { readonly kind: 'damaged'; readonly bytes: number }
  /** A last piece that was not written to its end. */
  | { readonly kind: 'torn'; readonly bytes: number };

/**
 * The pieces of a file of raw pages; after damage it goes on at the next one.
 * @param bytesMax longest that one piece may be, decompressed: a longer one counts as damaged
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
    // A length that is damaged says nothing of where the next piece begins.
    const next = file.indexOf(pieceHeaderStart, at + 1);
    const until = next < 0 ? file.length : next;
    const torn = next < 0 && end > file.length && isTornPiece(file.subarray(at));
    yield { kind: torn ? 'torn' : 'damaged', bytes: until - at };
    at = until;
  }
}

/** Where a piece that begins at `at` ends; beyond the file where its head is not whole, or is none. */
const findPieceEnd = (file: Buffer, at: number): number =>
  at + pieceHeaderBytes > file.length || !isRawFile(file.subarray(at))
    ? Number.POSITIVE_INFINITY
    : at + pieceHeaderBytes + file.readUInt32LE(at + pieceHeaderBytes - 8);

/** Whether bytes are the beginning of a piece, if only of its mark. */
const isTornPiece = (bytes: Buffer): boolean =>
  pieceHeaderStart.subarray(0, bytes.length).equals(bytes.subarray(0, rawMagicBytes));

/** Null for what is no piece of ours. */
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
  /** Whole days for which answers are kept as they came, besides the present one; 0 keeps none. */
  readonly keepDays: number;
  /** Bytes of all of them together. */
  readonly bytesMax: number;
}

type ArchiveFiles = Pick<Archive, 'disk' | 'layout'>;

/** Where the answers of a UTC day are. */
export const toRawFolder = (layout: ArchiveLayout, day: string): string => join(layout.privateFolder, 'raw', day);

const isDayName = (name: string): boolean => /^\d{4}-\d\d-\d\d$/.test(name);

/** Every file of raw pages, the oldest day first. */
export const listRawFiles = ({ disk, layout }: ArchiveFiles): string[] =>
  disk
    .list(join(layout.privateFolder, 'raw'))
    .filter(isDayName)
    .flatMap((day) => disk.list(toRawFolder(layout, day)).map((name) => join(toRawFolder(layout, day), name)))
    .filter((path) => disk.isFile(path));

/**
 * Removes raw pages that are older than they are kept, and the oldest where there are too many of them. A file that is
 * being written may be among them: what is written into it from then on is gone with it.
 * @param nowMs null to look at the bytes only
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
