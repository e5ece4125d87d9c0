import type { Value } from './arrow-data.ts';
import { type Chunk, noLevels, type PageSpan } from './column-chunk.ts';
import { numberChunk } from './encode-numbers.ts';
import { textChunk, truthChunk } from './encode-strings.ts';
import { levelsOf } from './encodings.ts';
import type { Column } from './schema.ts';
import { encodeColumns, type FlatType, pageRowsMax } from './writer.ts';

/** A Parquet file of rows given as arrays of values in the order of the columns, none of which is of lists. */
export const encodeFlatRows = (
  columns: readonly Column[],
  rows: readonly (readonly Value[])[],
  groupRows: number,
): Uint8Array =>
  encodeColumns(
    columns.map(({ name, type, nullable }, c) => ({
      name,
      type: type as FlatType,
      nullable,
      chunk: (from: number, to: number): Chunk =>
        chunkOf(
          type as FlatType,
          nullable,
          rows.slice(from, to).map((row) => row[c] ?? null),
        ),
    })),
    rows.length,
    groupRows,
  );

function chunkOf(type: FlatType, nullable: boolean, cells: readonly Value[]): Chunk {
  const pages: PageSpan[] = [];
  const values: Value[] = [];
  for (let row = 0; row < cells.length; row += pageRowsMax) {
    const some = cells.slice(row, row + pageRowsMax);
    const from = values.length;
    for (const cell of some) if (cell !== null) values.push(cell);
    const levels = nullable ? levelsOf(some.map((cell) => cell !== null)) : noLevels;
    pages.push({ from, to: values.length, rows: some.length, levels });
  }
  if (!nullable && values.length < cells.length) throw new Error('a column that is never null has a null');
  if (type === 'string') return textChunk(values as string[], pages);
  if (type === 'boolean') return truthChunk(values as boolean[], pages);
  return numberChunk(Float64Array.from(values as number[]), type === 'timestamp' ? 'int64' : type, pages);
}
