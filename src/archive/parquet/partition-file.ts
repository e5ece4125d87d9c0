import { type ColumnChunk, noDefinitionLevels, type PageRange } from './column-chunk.ts';
import { encodeNumberChunk } from './encode-numbers.ts';
import { encodeSymbolChunk } from './encode-symbols.ts';
import type { PhysicalNumberType } from './encodings.ts';
import { type BufferedRows, concatRows, copyRowRange, type NumberArray } from './row-buffer.ts';
import type { Column } from './schema.ts';
import type { SymbolOffsets } from './symbol-offsets.ts';
import { type FileColumn, openParquetFileWriter, pageRowsMax, type ScalarColumnType } from './writer.ts';

const physicalNumberTypes: Readonly<Partial<Record<ScalarColumnType, PhysicalNumberType>>> = {
  timestamp: 'int64',
  double: 'double',
  int32: 'int32',
  int64: 'int64',
};

/**
 * A Parquet file of rows that are kept together by symbol, at least one: of `columns` the first is the symbol, the others
 * are those of `values`, by name.
 */
export function encodePartFile(
  by: SymbolOffsets,
  columns: readonly Column[],
  values: Readonly<Record<string, NumberArray>>,
  groupRows: number,
): Uint8Array {
  const file = openPartFileWriter(columns, groupRows);
  file.add({ symbolOffsets: by, values });
  return file.finish();
}

/** Such a file as it is made, some symbols at a time; what is in a full row group is encoded and held no more. */
export interface PartFileWriter {
  /** Adds the rows of further symbols. */
  add(rows: BufferedRows): void;
  finish(): Uint8Array;
}

/** The same rows give the same bytes, however they are added. */
export function openPartFileWriter(columns: readonly Column[], groupRows: number): PartFileWriter {
  const file = openParquetFileWriter();
  let held: BufferedRows | undefined;
  return {
    add(rows) {
      const length = rows.symbolOffsets.offsets.at(-1)!;
      let from = 0;
      if (held !== undefined) {
        // What completes the row group that was begun, and no more: joining copies.
        from = Math.min(length, groupRows - held.symbolOffsets.offsets.at(-1)!);
        held = concatRows(held, copyRowRange(rows, 0, from));
        if (held.symbolOffsets.offsets.at(-1)! < groupRows) return;
        file.addRowGroup(toFileColumns(held, columns), 0, groupRows);
        held = undefined;
      }
      const told = toFileColumns(rows, columns);
      // One that is just full may be the last: that makes no difference to the bytes.
      for (; from + groupRows <= length; from += groupRows) file.addRowGroup(told, from, from + groupRows);
      // A copy: whoever adds may use the columns again.
      if (from < length) held = copyRowRange(rows, from, length);
    },
    finish() {
      if (held !== undefined) file.addRowGroup(toFileColumns(held, columns), 0, held.symbolOffsets.offsets.at(-1)!);
      return file.finish(columns.map(({ name, type }) => ({ name, type: type as ScalarColumnType, nullable: false })));
    },
  };
}

function toFileColumns({ symbolOffsets, values }: BufferedRows, [symbol, ...rest]: readonly Column[]): FileColumn[] {
  return [
    {
      name: symbol!.name,
      type: 'string',
      nullable: false,
      encodeChunk: (from, to) => encodeSymbolChunk(symbolOffsets, from, to, splitIntoPages(to - from)),
    },
    ...rest.map(({ name, type }) => ({
      name,
      type: type as ScalarColumnType,
      nullable: false,
      encodeChunk: (from: number, to: number): ColumnChunk => {
        const some = values[name]!.subarray(from, to);
        const numbers = some instanceof Float64Array ? some : Float64Array.from(some);
        return encodeNumberChunk(numbers, physicalNumberTypes[type as ScalarColumnType]!, splitIntoPages(to - from));
      },
    })),
  ];
}

/** Pages begin at multiples of what readers take at a time: DuckDB unpacks what it begins amid a page value by value. */
function splitIntoPages(rows: number): PageRange[] {
  const pages: PageRange[] = [];
  for (let from = 0; from < rows; from += pageRowsMax) {
    const to = Math.min(rows, from + pageRowsMax);
    pages.push({ from, to, rows: to - from, definitionLevels: noDefinitionLevels });
  }
  return pages;
}
