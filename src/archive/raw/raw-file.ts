import { promisify } from 'node:util';
import { constants, crc32, zstdCompress, zstdCompressSync, zstdDecompress } from 'node:zlib';
import { decodeRawPages, encodeRawPages, type RawPage } from '../../core/raw-page.ts';

// A file of raw pages is a row of pieces. Each is a skippable frame of zstd (RFC 8878, 3.1.2) that says how long the
// zstd frame after it is and what its CRC-32 is, and that frame: `zstdcat` shows it, and what is torn or damaged is told.

const skippableMagic = 0x184d2a50;
const mark = Buffer.from('oddsraw1', 'latin1');
const payloadBytes = mark.length + 8;
/** Before each frame. */
const headBytes = 8 + payloadBytes;

/** Fast rather than small: level 3 takes more time for nothing. Larger chunks cost small answers more than they bring. */
const options = { params: { [constants.ZSTD_c_compressionLevel]: 1 }, chunkSize: 1 << 14 };

/** Up to here, compressing takes this thread less than having it done by another. */
const smallBytesMax = 8192;

const compress: (bytes: Uint8Array, how: typeof options) => Promise<Buffer> = promisify(zstdCompress);
const decompress: (bytes: Uint8Array, how: { maxOutputLength: number }) => Promise<Buffer> = promisify(zstdDecompress);

/** The piece of some answers; unless they are small it is compressed on a thread of Node's pool. */
export async function packRawPages(pages: readonly RawPage[]): Promise<Uint8Array[]> {
  const plain = encodeRawPages(pages);
  const frame = plain.length <= smallBytesMax ? zstdCompressSync(plain, options) : await compress(plain, options);
  const head = Buffer.alloc(headBytes);
  head.writeUInt32LE(skippableMagic, 0);
  head.writeUInt32LE(payloadBytes, 4);
  mark.copy(head, 8);
  head.writeUInt32LE(frame.length, headBytes - 8);
  head.writeUInt32LE(crc32(frame), headBytes - 4);
  return [head, frame];
}

/** The bytes by which `looksRaw` knows a file. */
export const rawMarkBytes = 16;

const beginning = Buffer.alloc(rawMarkBytes);
beginning.writeUInt32LE(skippableMagic, 0);
beginning.writeUInt32LE(payloadBytes, 4);
mark.copy(beginning, 8);

/** Whether a file that begins like this holds raw pages. */
export const looksRaw = (bytes: Buffer): boolean => bytes.subarray(0, rawMarkBytes).equals(beginning);

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
    const end = pieceEnd(file, at);
    const pages = end > file.length ? null : await pagesIn(file.subarray(at, end), bytesMax);
    if (pages !== null) {
      yield { kind: 'pages', pages };
      at = end;
      continue;
    }
    // A length that is damaged says nothing of where the next piece begins.
    const next = file.indexOf(beginning, at + 1);
    const until = next < 0 ? file.length : next;
    const torn = next < 0 && end > file.length && isCut(file.subarray(at));
    yield { kind: torn ? 'torn' : 'damaged', bytes: until - at };
    at = until;
  }
}

/** Where a piece that begins at `at` ends; beyond the file where its head is not whole, or is none. */
const pieceEnd = (file: Buffer, at: number): number =>
  at + headBytes > file.length || !looksRaw(file.subarray(at))
    ? Number.POSITIVE_INFINITY
    : at + headBytes + file.readUInt32LE(at + headBytes - 8);

/** Whether bytes are the beginning of a piece, if only of its mark. */
const isCut = (bytes: Buffer): boolean => beginning.subarray(0, bytes.length).equals(bytes.subarray(0, rawMarkBytes));

/** Null for what is no piece of ours. */
async function pagesIn(piece: Buffer, maxOutputLength: number): Promise<RawPage[] | null> {
  const frame = piece.subarray(headBytes);
  if (crc32(frame) !== piece.readUInt32LE(headBytes - 4)) return null;
  try {
    return decodeRawPages(await decompress(frame, { maxOutputLength }));
  } catch {
    return null;
  }
}
