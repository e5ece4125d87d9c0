import { visitTexts } from './column-reader.ts';
import { readColumnPages, requireDatasetColumns } from './file-pages.ts';
import { findFirstPage, magic, type RowGroup, readFooter } from './metadata.ts';
import { copyColumnRows, type DataPage, type RowRange } from './page-decoder.ts';

/*
 * Reads row groups of a part of ticks one by one, so that a reader of some symbols reads no more of the file than their row
 * groups.
 */

/** Reads bytes `from` to `to` of a file. */
export type ReadRange = (from: number, to: number) => Uint8Array;

/** A row group, without its pages. */
export interface TickRowGroup {
  /** Byte range in the file: `start` inclusive, `end` exclusive. */
  readonly start: number;
  readonly end: number;
  readonly rows: number;
  /** Bounds of the symbols as UTF-8, which need not be symbols themselves; null if they are not known. */
  readonly symbolMin: Uint8Array | null;
  readonly symbolMax: Uint8Array | null;
  /** The chunks of the columns symbol, t and p, with offsets from `start`. */
  readonly chunks: RowGroup['columns'];
}

/** @throws Error if the file is not stored as our writers store ticks; other readers may still read it */
export function readTickRowGroups(bytes: number, read: ReadRange): TickRowGroup[] {
  const trailer = read(bytes - trailerBytes, bytes);
  const footerBytes = new DataView(trailer.buffer, trailer.byteOffset).getUint32(0, true);
  const end = read(Math.max(0, bytes - trailerBytes - footerBytes), bytes);
  const { schema, row_groups: groups } = readFooter(Buffer.concat([read(0, magic.length), end]));
  requireDatasetColumns('ticks', schema);
  return groups.map(toTickRowGroup);
}

/** The length of the footer and the magic at the end of a file. */
const trailerBytes = 4 + magic.length;

function toTickRowGroup({ columns, num_rows: rows }: RowGroup): TickRowGroup {
  let [start, end] = [Number.POSITIVE_INFINITY, 0];
  for (const { meta_data: meta } of columns) {
    start = Math.min(start, findFirstPage(meta));
    end = Math.max(end, findFirstPage(meta) + meta.total_compressed_size);
  }
  const symbols = columns.find(({ meta_data }) => meta_data.path_in_schema[0] === 'symbol');
  const { min_value: min, max_value: max } = symbols?.meta_data.statistics ?? {};
  const chunks = columns.map(({ file_offset, meta_data: meta }) => ({
    file_offset,
    meta_data: {
      ...meta,
      statistics: undefined,
      data_page_offset: meta.data_page_offset - start,
      dictionary_page_offset:
        meta.dictionary_page_offset === undefined ? undefined : meta.dictionary_page_offset - start,
    },
  }));
  // Copied, because they are views of the whole footer.
  return { start, end, rows, symbolMin: copyBound(min), symbolMax: copyBound(max), chunks };
}

const copyBound = (bound: Uint8Array | undefined): Uint8Array | null =>
  bound === undefined ? null : Uint8Array.from(bound);

/** The bytes of a row group, and the pages of its times and prices. Rows are counted from its first row. */
export interface TickGroupPages {
  readonly bytes: Uint8Array;
  readonly t: readonly DataPage[];
  readonly p: readonly DataPage[];
}

/**
 * Reads the page headers of a row group, and its symbols.
 * @param bytes of the row group
 * @param visit called with each run of rows of a symbol, in order
 */
export function readTickGroup(
  { chunks, rows }: TickRowGroup,
  bytes: Uint8Array,
  visit: (symbol: string, count: number) => void,
): TickGroupPages {
  const pages: Record<'symbol' | 't' | 'p', readonly DataPage[]> = { symbol: [], t: [], p: [] };
  for (const { meta_data: meta } of chunks)
    pages[meta.path_in_schema[0] as keyof typeof pages] = [...readColumnPages(bytes, meta, 0, rows)];
  visitTexts(bytes, pages.symbol, 0, rows, visit);
  return { bytes, t: pages.t, p: pages.p };
}

export const copyTimes = ({ bytes, t }: TickGroupPages, ranges: readonly RowRange[], out: Float64Array): void =>
  copyColumnRows(bytes, t, 'int64', ranges, out);

/** Copies the prices of some rows of a row group. */
export const copyPrices = ({ bytes, p }: TickGroupPages, ranges: readonly RowRange[], out: Float64Array): void =>
  copyColumnRows(bytes, p, 'double', ranges, out);
