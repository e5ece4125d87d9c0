/*
 * Numbers and words of Parquet's format, as far as our files use them:
 * https://github.com/apache/parquet-format/blob/master/src/main/thrift/parquet.thrift
 */

/** A Parquet file begins with these four bytes, and ends with them. */
export const magic: Uint8Array = Buffer.from('PAR1');

export const physicalTypes = { boolean: 0, int32: 1, int64: 2, double: 5, text: 6 } as const;
export const convertedTypes = { utf8: 0, timestampMillis: 9 } as const;
export const repetitions = { required: 0, optional: 1 } as const;
export const codecs = { zstd: 6 } as const;
export const pageTypes = { data: 0, dictionary: 2 } as const;
/** https://github.com/apache/parquet-format/blob/master/Encodings.md */
export const encodings = { plain: 0, plainDictionary: 2, rle: 3, deltaBinaryPacked: 5, rleDictionary: 8 } as const;
