import { isUtf8 } from 'node:buffer';
import {
  type ColumnMetaData,
  codecs,
  encodings,
  type FileMetaData,
  findFirstPage,
  pageHeader,
  pageTypes,
  physicalTypes,
  type RowGroup,
  readFooter,
  repetitions,
  type SchemaElement,
} from './metadata.ts';
import { type CompressedPage, type DataPage, decompressPage, visitIndexes } from './page-decoder.ts';
import { readStruct } from './thrift.ts';

/** The data pages of a part's columns. Rows are counted from the first requested row group. */
interface TickPages {
  readonly symbolPages: readonly DataPage[];
  readonly t: readonly DataPage[];
  readonly p: readonly DataPage[];
  readonly rows: number;
}

/**
 * Reads the footer and the page headers of a part, or of some of its row groups.
 * @throws Error if the file is not stored as our writers store ticks
 */
export function readTickPages(file: Uint8Array, groups?: readonly number[]): TickPages {
  const footer = readFooter(file);
  requireTickColumns(footer.schema);
  const columns: Record<'symbol' | 't' | 'p', DataPage[]> = { symbol: [], t: [], p: [] };
  let row = 0;
  for (const group of selectRowGroups(footer, groups)) {
    for (const { meta_data: meta } of group.columns) {
      const pages = columns[meta.path_in_schema[0] as keyof typeof columns];
      for (const page of readColumnPages(file, meta, row, group.num_rows)) pages.push(page);
    }
    row += group.num_rows;
  }
  return { symbolPages: columns.symbol, t: columns.t, p: columns.p, rows: row };
}

/** @throws Error unless the columns of a file are those of ticks, as our writers store them */
export function requireTickColumns(schema: readonly SchemaElement[]): void {
  const expected = [
    ['symbol', physicalTypes.text],
    ['t', physicalTypes.int64],
    ['p', physicalTypes.double],
  ];
  const actual = schema.slice(1).map(({ name, type, repetition_type }) => {
    if (repetition_type !== repetitions.required) throw new Error('a column is nullable');
    return [name, type];
  });
  if (JSON.stringify(actual) !== JSON.stringify(expected)) throw new Error('a file does not have the columns of ticks');
}

/** The row groups with these indexes; all if `indexes` is omitted. @throws Error if one does not exist */
export const selectRowGroups = (footer: FileMetaData, indexes?: readonly number[]): readonly RowGroup[] =>
  indexes === undefined
    ? footer.row_groups
    : indexes.map((i) => {
        const group = footer.row_groups[i];
        if (group === undefined) throw new Error(`a file has no row group ${i}`);
        return group;
      });

/** Reads the data pages of one column chunk, whose rows start at `row`. */
export function* readColumnPages(
  file: Uint8Array,
  meta: ColumnMetaData,
  row: number,
  rows: number,
): Generator<DataPage> {
  if (meta.codec !== codecs.zstd) throw new Error('a column is not compressed with zstd');
  let dictionary: DataPage['dictionary'] = null;
  for (let at = findFirstPage(meta), firstRow = row; firstRow < row + rows; ) {
    const { value: header, end } = readStruct(pageHeader, file, at);
    const body: CompressedPage = {
      offset: end,
      compressedBytes: header.compressed_page_size,
      uncompressedBytes: header.uncompressed_page_size,
    };
    at = end + body.compressedBytes;
    const { type, data_page_header: data, dictionary_page_header: dictionaryHeader } = header;
    if (type === pageTypes.dictionary && dictionaryHeader !== undefined) {
      dictionary = { ...body, values: dictionaryHeader.num_values };
      continue;
    }
    if (type !== pageTypes.data || data === undefined) throw new Error('a file has a page of unknown type');
    const { num_values: values, encoding } = data;
    const isIndexed = encoding === encodings.rleDictionary || encoding === encodings.plainDictionary;
    yield { ...body, firstRow, rows: values, encoding, dictionary: isIndexed ? dictionary : null };
    firstRow += values;
    if (firstRow > row + rows) throw new Error('a column has more rows than its row group');
  }
}

/** Calls `visit` with the texts of all rows of a column in order, once per run. @throws Error if they cannot be read */
export function visitTexts(
  file: Uint8Array,
  pages: readonly DataPage[],
  rows: number,
  visit: (text: string, count: number) => void,
): void {
  let dictionary: { of: CompressedPage; texts: readonly string[] } | undefined;
  let row = 0;
  for (const page of pages) {
    const bytes = decompressPage(file, page);
    if (page.dictionary !== null) {
      if (dictionary?.of !== page.dictionary) {
        const { values } = page.dictionary;
        dictionary = { of: page.dictionary, texts: decodePlainStrings(decompressPage(file, page.dictionary), values) };
      }
      const { texts } = dictionary;
      visitIndexes(bytes, 0, page.rows, (index, count) => {
        const text = texts[index];
        if (text === undefined) throw new Error('a page has an index outside its dictionary');
        visit(text, count);
      });
    } else if (page.encoding === encodings.plain)
      for (const text of decodePlainStrings(bytes, page.rows)) visit(text, 1);
    else throw new Error(`a string page has the unsupported encoding ${page.encoding}`);
    row += page.rows;
  }
  if (row !== rows) throw new Error('pages are missing');
}

/** Decodes the first `count` PLAIN strings. */
export function decodePlainStrings(bytes: Uint8Array, count: number): string[] {
  const buffer = Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  return Array.from({ length: count }, () => {
    const from = at + 4;
    at = from + buffer.readUInt32LE(at);
    if (at > buffer.length) throw new Error('a dictionary is truncated');
    const text = buffer.subarray(from, at);
    if (!isUtf8(text)) throw new Error('a symbol is not valid UTF-8');
    return text.toString('utf8');
  });
}
