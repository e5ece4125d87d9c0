import {
  type CompressedPage,
  type DataPage,
  decompressPage,
  type NumberType,
  readColumnValues,
} from './page-decoder.ts';

/**
 * Reads consecutive pages of a nullable column of numbers; null becomes NaN.
 * @param rows number of rows of the pages
 * @throws Error if they are not stored as our writer stores them
 */
export function readNullableNumbers(
  file: Uint8Array,
  pages: readonly DataPage[],
  rows: number,
  type: NumberType = 'double',
): Float64Array {
  const bodies = new Map<CompressedPage, Uint8Array>();
  const presence: Uint8Array[] = [];
  let present = 0;
  // The values of a page follow its definition levels, without the nulls.
  const dense = pages.map((page) => {
    const bytes = decompressPage(file, page);
    const { bits, end, count } = readDefinitionLevels(bytes, page.rows);
    const body = { ...page, firstRow: present, rows: count };
    bodies.set(body, bytes.subarray(end));
    presence.push(bits);
    present += count;
    return body;
  });
  const values = readColumnValues(file, dense, type, 0, present, (_, page) => bodies.get(page)!);
  const out = new Float64Array(rows);
  let row = 0;
  let next = 0;
  pages.forEach((page, i) => {
    const bits = presence[i]!;
    for (let r = 0; r < page.rows; r++)
      out[row++] = ((bits[r >> 3]! >> (r & 7)) & 1) === 1 ? values[next++]! : Number.NaN;
  });
  if (row !== rows) throw new Error('pages are missing');
  return out;
}

/**
 * Reads the definition levels of a page as our writer stores them: one bit-packed run, a bit for each row.
 * https://github.com/apache/parquet-format/blob/master/Encodings.md#RLE
 * @throws Error if they are stored differently
 */
function readDefinitionLevels(
  bytes: Uint8Array,
  rows: number,
): { readonly bits: Uint8Array; readonly end: number; readonly count: number } {
  const length = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength).getUint32(0, true);
  const end = 4 + length;
  let at = 4;
  let header = 0;
  for (let scale = 1; ; scale *= 128) {
    const byte = bytes[at++];
    if (byte === undefined || at > end) throw new Error('definition levels are truncated');
    header += (byte & 127) * scale;
    if (byte < 128) break;
  }
  const size = Math.ceil(rows / 8);
  if (header % 2 !== 1 || (header - 1) / 2 !== size || end - at !== size || end > bytes.length)
    throw new Error('definition levels are not one bit-packed run');
  const bits = bytes.subarray(at, end);
  let count = 0;
  for (let r = 0; r < rows; r++) count += (bits[r >> 3]! >> (r & 7)) & 1;
  return { bits, end, count };
}
