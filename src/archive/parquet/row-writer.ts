import type { CellValue } from './arrow-data.ts';
import { type ColumnChunk, noDefinitionLevels, type PageRange } from './column-chunk.ts';
import { encodeNumberChunk } from './encode-numbers.ts';
import { encodeBooleanChunk, encodeStringChunk } from './encode-strings.ts';
import { encodeDefinitionLevels } from './encodings.ts';
import type { Column } from './schema.ts';
import { encodeColumns, pageRowsMax, type ScalarColumnType } from './writer.ts';

/** A Parquet file of rows given as arrays of values in the order of the columns, none of which is of lists. */
export const encodeFlatRows = (
  columns: readonly Column[],
  rows: readonly (readonly CellValue[])[],
  groupRows: number,
): Uint8Array =>
  encodeColumns(
    columns.map(({ name, type, nullable }, c) => ({
      name,
      type: type as ScalarColumnType,
      nullable,
      encodeChunk: (from: number, to: number): ColumnChunk =>
        encodeColumnChunk(
          type as ScalarColumnType,
          nullable,
          rows.slice(from, to).map((row) => row[c] ?? null),
        ),
    })),
    rows.length,
    groupRows,
  );

function encodeColumnChunk(type: ScalarColumnType, nullable: boolean, cells: readonly CellValue[]): ColumnChunk {
  const pages: PageRange[] = [];
  const values: CellValue[] = [];
  for (let row = 0; row < cells.length; row += pageRowsMax) {
    const some = cells.slice(row, row + pageRowsMax);
    const from = values.length;
    for (const cell of some) if (cell !== null) values.push(cell);
    const levels = nullable ? encodeDefinitionLevels(some.map((cell) => cell !== null)) : noDefinitionLevels;
    pages.push({ from, to: values.length, rows: some.length, definitionLevels: levels });
  }
  if (!nullable && values.length < cells.length) throw new Error('a column that is never null has a null');
  if (type === 'string') return encodeStringChunk(values as string[], pages);
  if (type === 'boolean') return encodeBooleanChunk(values as boolean[], pages);
  return encodeNumberChunk(Float64Array.from(values as number[]), type === 'timestamp' ? 'int64' : type, pages);
}
