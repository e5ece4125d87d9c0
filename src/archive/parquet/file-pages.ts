import { type Column, type DatasetDefinition, type DatasetName, datasets } from '../format/datasets.ts';
import {
  type ColumnMetaData,
  codecs,
  encodings,
  type FileMetaData,
  findFirstPage,
  pageHeader,
  pageTypes,
  type RowGroup,
  readFooter,
  repetitions,
  type ScalarColumnType,
  type SchemaElement,
  storedTypes,
} from './metadata.ts';
import type { CompressedPage, DataPage } from './page-decoder.ts';
import { readStruct } from './thrift.ts';

/** Indexes of row groups, from 0, ascending. Other row groups are not read. */
export type RowGroupIndexes = readonly number[];

/** The data pages of columns of a file. Rows are counted from the first requested row group. */
export interface FilePages {
  readonly file: Uint8Array;
  readonly rows: number;
  readonly columns: ReadonlyMap<string, ColumnPages>;
}

export interface ColumnPages extends Pick<Column, 'type' | 'nullable'> {
  readonly pages: readonly DataPage[];
  /** Whether the column's statistics show that it has no value. */
  readonly isAllNull: boolean;
}

/**
 * Reads the footer of a file, and the headers of the pages of these columns; none of them is a list.
 * @throws Error if a column is missing, or not stored as our writers store it
 */
export function readFilePages(file: Uint8Array, columns: readonly Column[], groups?: RowGroupIndexes): FilePages {
  const footer = readFooter(file);
  requireColumns(columns, footer.schema);
  return collectPages(file, columns, selectRowGroups(footer, groups));
}

/** The same for a file of a dataset, all of whose columns are read. @throws Error also if the file has other columns */
export function readDatasetPages(file: Uint8Array, dataset: DatasetName, groups?: RowGroupIndexes): FilePages {
  const footer = readFooter(file);
  requireDatasetColumns(dataset, footer.schema);
  return collectPages(file, datasets[dataset].columns, selectRowGroups(footer, groups));
}

/** @throws Error unless the columns of a file are those of a dataset, as our writers store them */
export function requireDatasetColumns(dataset: DatasetName, schema: readonly SchemaElement[]): void {
  const { columns }: DatasetDefinition = datasets[dataset];
  const names = schema.slice(1).map(({ name }) => name);
  if (JSON.stringify(names) !== JSON.stringify(columns.map(({ name }) => name)))
    throw new Error(`a file does not have the columns of ${dataset}`);
  requireColumns(columns, schema);
}

function requireColumns(columns: readonly Column[], schema: readonly SchemaElement[]): void {
  for (const { name, type, nullable } of columns) {
    const element = schema.slice(1).find((one) => one.name === name);
    if (element === undefined) throw new Error(`column ${name} is missing`);
    if (element.type !== storedTypes[type as ScalarColumnType].type)
      throw new Error(`column ${name} has another physical type`);
    if ((element.repetition_type === repetitions.required) === nullable)
      throw new Error(`column ${name} is ${nullable ? 'not ' : ''}nullable`);
  }
}

/** The row groups with these indexes; all if `indexes` is omitted. @throws Error if one does not exist */
const selectRowGroups = (footer: FileMetaData, indexes?: RowGroupIndexes): readonly RowGroup[] =>
  indexes === undefined
    ? footer.row_groups
    : indexes.map((i) => {
        const group = footer.row_groups[i];
        if (group === undefined) throw new Error(`a file has no row group ${i}`);
        return group;
      });

function collectPages(file: Uint8Array, columns: readonly Column[], groups: readonly RowGroup[]): FilePages {
  const collected = new Map(
    columns.map(({ name, type, nullable }) => [name, { type, nullable, pages: [] as DataPage[], isAllNull: nullable }]),
  );
  let rows = 0;
  for (const group of groups) {
    for (const { meta_data: meta } of group.columns) {
      const column = collected.get(meta.path_in_schema[0]!);
      if (column === undefined) continue;
      column.isAllNull &&= meta.statistics?.null_count === group.num_rows;
      for (const page of readColumnPages(file, meta, rows, group.num_rows)) column.pages.push(page);
    }
    rows += group.num_rows;
  }
  return { file, rows, columns: collected };
}

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
