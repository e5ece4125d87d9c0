import type { Column, ColumnType } from '../format/datasets.ts';
import type { CellValue } from './arrow-data.ts';
import { physicalTypes, readFooter, repetitions, type SchemaElement } from './metadata.ts';
import { type DataPage, type NumberType, readColumnValues } from './page-decoder.ts';
import { readColumnPages, selectRowGroups, visitTexts } from './tick-page-reader.ts';

/** Physical types of the column types that this reader supports. */
export const physicalTypeByColumnType: Partial<Record<ColumnType, number>> = {
  string: physicalTypes.text,
  timestamp: physicalTypes.int64,
  int64: physicalTypes.int64,
  int32: physicalTypes.int32,
  double: physicalTypes.double,
};

/** Whether this reader supports a column. */
export const isFlatColumn = ({ type, nullable }: Column): boolean =>
  !nullable && physicalTypeByColumnType[type] !== undefined;

/**
 * Decodes the rows of a file, or of some of its row groups, as arrays in column order. Every column must be flat (`isFlatColumn`). Does
 * not use Arrow and parquet-wasm, which take longer to load than a day's coverage takes to read.
 * @throws Error if a column is not stored as our writers store it
 */
export function decodeFlatRows(
  columns: readonly Column[],
  file: Uint8Array,
  groups?: readonly number[],
): CellValue[][] {
  const footer = readFooter(file);
  const schema = footer.schema.slice(1);
  for (const column of columns) requireColumnStored(column, schema);
  const pages = new Map(columns.map(({ name }): [string, DataPage[]] => [name, []]));
  let rows = 0;
  for (const group of selectRowGroups(footer, groups)) {
    for (const { meta_data: meta } of group.columns) {
      const columnPages = pages.get(meta.path_in_schema[0]!);
      if (columnPages === undefined) continue;
      for (const page of readColumnPages(file, meta, rows, group.num_rows)) columnPages.push(page);
    }
    rows += group.num_rows;
  }
  const values = columns.map(({ name, type }) => decodeColumn(file, pages.get(name)!, type, rows));
  return Array.from({ length: rows }, (_, row) => values.map((column) => column[row]!));
}

function requireColumnStored({ name, type, nullable }: Column, schema: readonly SchemaElement[]): void {
  const element = schema.find((candidate) => candidate.name === name);
  if (element === undefined) throw new Error(`column ${name} is missing`);
  if (nullable || element.repetition_type !== repetitions.required) throw new Error('a column is nullable');
  if (element.type !== physicalTypeByColumnType[type]) throw new Error('a column has another physical type');
}

function decodeColumn(
  file: Uint8Array,
  pages: readonly DataPage[],
  type: ColumnType,
  rows: number,
): ArrayLike<CellValue> {
  if (type === 'string') return decodeStringColumn(file, pages, rows);
  return readColumnValues(file, pages, toNumberType(type), 0, rows);
}

/** The physical type of the numbers of a column. */
export const toNumberType = (type: ColumnType): NumberType => (type === 'double' || type === 'int32' ? type : 'int64');

function decodeStringColumn(file: Uint8Array, pages: readonly DataPage[], rows: number): string[] {
  const out: string[] = [];
  visitTexts(file, pages, rows, (text, count) => {
    for (let i = 0; i < count; i++) out.push(text);
  });
  return out;
}
