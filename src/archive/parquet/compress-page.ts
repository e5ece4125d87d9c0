import { constants, zstdCompressSync } from 'node:zlib';

/** Bounds of the memory of compressed pages: bytes of a page, and pages. */
const rememberedBytesMax = 128;
export const rememberedPagesMax = 1024;

/** Compressed small pages by level and content. */
const rememberedPages = new Map<string, Uint8Array>();

/**
 * Compresses a page with zstd. The result must be neither changed nor transferred, because it may be returned again.
 *
 * Each call of zlib creates a compressor, which takes longer than compressing a small page. Most small pages repeat: those
 * of columns without values, of equal values, and of files without rows.
 */
export function compressPage(bytes: Uint8Array, level: number): Uint8Array {
  if (bytes.length > rememberedBytesMax) return compressZstd(bytes, level);
  const key = `${level} ${Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length).toString('latin1')}`;
  const known = rememberedPages.get(key);
  if (known !== undefined) return known;
  if (rememberedPages.size >= rememberedPagesMax) rememberedPages.clear();
  const packed = new Uint8Array(compressZstd(bytes, level));
  rememberedPages.set(key, packed);
  return packed;
}

function compressZstd(bytes: Uint8Array, level: number): Uint8Array {
  // Large enough for incompressible input, so that the output comes in one chunk.
  const chunkSize = bytes.length + (bytes.length >> 8) + 64;
  const packed = zstdCompressSync(bytes, { chunkSize, params: { [constants.ZSTD_c_compressionLevel]: level } });
  // The result is held until the file is finished, so do not keep a much larger buffer with it.
  return 2 * packed.length < packed.buffer.byteLength ? new Uint8Array(packed) : packed;
}
