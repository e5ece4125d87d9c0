import { readText, type TextColumn } from '../../src/archive/format/text-columns.ts';

/** The texts of a column as strings. */
export const listTexts = (column: TextColumn): (string | null)[] =>
  Array.from(column.lengths, (_, row) => readText(column, row));
