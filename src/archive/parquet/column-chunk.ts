import { constants, zstdCompressSync } from 'node:zlib';
import { encodings, pageTypes } from './constants.ts';
import { binary, bool, i32, i64, struct, type ThriftValue } from './thrift-writer.ts';

/** A row group's values of one column as they stand in a file: its pages, with their headers, one after another. */
export interface ColumnChunk {
  readonly pieces: readonly Uint8Array[];
  /** Bytes of the pieces, and of what they are once decompressed. */
  readonly compressedBytes: number;
  readonly uncompressedBytes: number;
  /** Bytes of the dictionary page, which comes first; 0 where there is none. */
  readonly dictionaryPageBytes: number;
  readonly encodings: readonly number[];
  readonly statistics: ThriftValue;
}

/** A page's values, `from` to `to` of those that a chunk is made of, and its rows: more than those where some are null. */
export interface PageRange {
  readonly from: number;
  readonly to: number;
  readonly rows: number;
  /** Definition levels, which say where values are missing; none where none can be. */
  readonly definitionLevels: Uint8Array;
}

export const noDefinitionLevels = new Uint8Array(0);

export const countNulls = (pages: readonly PageRange[]): number =>
  pages.reduce((sum, { from, to, rows }) => sum + rows - (to - from), 0);

/** zstd's levels, by measuring what a level more takes of time and saves of bytes. Below 0 only what comes again is packed. */
export const zstdLevels = { prices: 5, times: 6, deltas: 1, rawDeltas: -5, plain: 4, texts: 6 } as const;

export class ColumnChunkBuilder {
  private readonly pieces: Uint8Array[] = [];
  private size = 0;
  private plainSize = 0;
  private dictionarySize = 0;
  private readonly usedEncodings = new Set<number>([encodings.rle]);

  addDictionaryPage(bytes: Uint8Array, level: number, values: number): this {
    this.usedEncodings.add(encodings.plain);
    this.addPage(bytes, level, pageTypes.dictionary, {
      7: struct({ 1: i32(values), 2: i32(encodings.plain), 3: bool(false) }),
    });
    this.dictionarySize = this.size;
    return this;
  }

  addDataPage(values: Uint8Array, { rows, definitionLevels }: PageRange, level: number, encoding: number): this {
    this.usedEncodings.add(encoding);
    const bytes = definitionLevels.length === 0 ? values : Buffer.concat([definitionLevels, values]);
    const header = struct({ 1: i32(rows), 2: i32(encoding), 3: i32(encodings.rle), 4: i32(encodings.rle) });
    return this.addPage(bytes, level, pageTypes.data, { 5: header });
  }

  private addPage(bytes: Uint8Array, level: number, type: number, header: Record<number, ThriftValue>): this {
    const packed = compressZstd(bytes, level);
    const head = struct({ 1: i32(type), 2: i32(bytes.length), 3: i32(packed.length), ...header }).bytes;
    this.pieces.push(Uint8Array.from(head), packed);
    this.size += head.length + packed.length;
    this.plainSize += head.length + bytes.length;
    return this;
  }

  finish(statistics: ThriftValue): ColumnChunk {
    const { pieces, size, plainSize, dictionarySize } = this;
    return {
      pieces,
      compressedBytes: size,
      uncompressedBytes: plainSize,
      dictionaryPageBytes: dictionarySize,
      encodings: [...this.usedEncodings],
      statistics,
    };
  }
}

/** The bytes packed with zstd. */
export function compressZstd(bytes: Uint8Array, level: number): Uint8Array {
  // Room for what cannot be made smaller, so that it comes in one piece.
  const chunkSize = bytes.length + (bytes.length >> 8) + 64;
  const packed = zstdCompressSync(bytes, { chunkSize, params: { [constants.ZSTD_c_compressionLevel]: level } });
  // It is held until the file is made, and with it all of its room.
  return 2 * packed.length < packed.buffer.byteLength ? new Uint8Array(packed) : packed;
}

/** @param bounds the least and the greatest value as they are stored plainly; undefined where there is none */
export const encodeStatistics = (
  nulls: number,
  bounds?: { readonly least: Uint8Array; readonly most: Uint8Array } | undefined,
): ThriftValue =>
  bounds === undefined
    ? struct({ 3: i64(nulls) })
    : struct({ 3: i64(nulls), 5: binary(bounds.most), 6: binary(bounds.least), 7: bool(true), 8: bool(true) });
