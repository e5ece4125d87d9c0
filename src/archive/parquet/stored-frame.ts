/*
 * Zstandard frames that hold their data uncompressed: https://www.rfc-editor.org/rfc/rfc8878#section-3.1.1
 * zstd writes them for incompressible data, such as delta-encoded times. Creating a decompressor takes longer than copying.
 */

const frameMagic = 0xfd2fb528;

/** Bits of the frame header descriptor, without the size of the content size: only "single segment" is set. */
const singleSegment = 0x20;
const descriptorMask = 0x3f;

/** Field sizes of the content size by the two highest bits of the descriptor; 8 bytes are not needed. */
const contentSizeBytes = [1, 2, 4] as const;

/** Maximum size of a block. */
const blockBytesMax = 128 * 1024;
const blockHeaderBytes = 3;

/**
 * Copies the content of a frame that consists of one uncompressed block of `contentBytes` bytes.
 * @returns undefined for any other frame, valid or not
 */
export function copyStoredFrame(
  bytes: Uint8Array,
  from: number,
  to: number,
  contentBytes: number,
): Uint8Array | undefined {
  if (to - from < 6 || contentBytes > blockBytesMax) return undefined;
  const magic = bytes[from]! | (bytes[from + 1]! << 8) | (bytes[from + 2]! << 16) | (bytes[from + 3]! << 24);
  const descriptor = bytes[from + 4]!;
  if (magic >>> 0 !== frameMagic || (descriptor & descriptorMask) !== singleSegment) return undefined;
  const sizeBytes = contentSizeBytes[descriptor >> 6];
  const start = to - contentBytes;
  if (sizeBytes === undefined || start !== from + 5 + sizeBytes + blockHeaderBytes) return undefined;
  // Two bytes count from 256.
  if (readLittleEndian(bytes, from + 5, sizeBytes) + (sizeBytes === 2 ? 256 : 0) !== contentBytes) return undefined;
  const lastRawBlock = 1;
  if (readLittleEndian(bytes, start - blockHeaderBytes, blockHeaderBytes) !== lastRawBlock + contentBytes * 8)
    return undefined;
  return new Uint8Array(bytes.subarray(start, to));
}

function readLittleEndian(bytes: Uint8Array, at: number, count: number): number {
  let value = 0;
  for (let i = count - 1; i >= 0; i--) value = value * 256 + bytes[at + i]!;
  return value;
}
