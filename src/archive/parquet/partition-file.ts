import { type Chunk, noLevels, type PageSpan } from './column-chunk.ts';
import { numberChunk } from './encode-numbers.ts';
import { symbolChunk } from './encode-symbols.ts';
import type { Physical } from './encodings.ts';
import { type HeldRows, joinRows, type Numbers, rowsBetween } from './row-buffer.ts';
import type { Column } from './schema.ts';
import type { BySymbol } from './symbol-offsets.ts';
import { type FileColumn, type FlatType, pageRowsMax, startFile } from './writer.ts';

const physicals: Readonly<Partial<Record<FlatType, Physical>>> = {
  timestamp: 'int64',
  double: 'double',
  int32: 'int32',
  int64: 'int64',
};

/**
 * A Parquet file of rows that are kept together by symbol, at least one: of `columns` the first is the symbol, the others
 * are those of `values`, by name.
 */
export function encodePart(
  by: BySymbol,
  columns: readonly Column[],
  values: Readonly<Record<string, Numbers>>,
  groupRows: number,
): Uint8Array {
  const file = startPart(columns, groupRows);
  file.add({ by, values });
  return file.end();
}

/** Such a file as it is made, some symbols at a time; what is in a full row group is encoded and held no more. */
export interface StartedPart {
  /** Adds the rows of further symbols. */
  add(rows: HeldRows): void;
  end(): Uint8Array;
}

/** The same rows give the same bytes, however they are added. */
export function startPart(columns: readonly Column[], groupRows: number): StartedPart {
  const file = startFile();
  let held: HeldRows | undefined;
  return {
    add(rows) {
      const length = rows.by.offsets.at(-1)!;
      let from = 0;
      if (held !== undefined) {
        // What completes the row group that was begun, and no more: joining copies.
        from = Math.min(length, groupRows - held.by.offsets.at(-1)!);
        held = joinRows(held, rowsBetween(rows, 0, from));
        if (held.by.offsets.at(-1)! < groupRows) return;
        file.addGroup(columnsOf(held, columns), 0, groupRows);
        held = undefined;
      }
      const told = columnsOf(rows, columns);
      // One that is just full may be the last: that makes no difference to the bytes.
      for (; from + groupRows <= length; from += groupRows) file.addGroup(told, from, from + groupRows);
      // A copy: whoever adds may use the columns again.
      if (from < length) held = rowsBetween(rows, from, length);
    },
    end() {
      if (held !== undefined) file.addGroup(columnsOf(held, columns), 0, held.by.offsets.at(-1)!);
      return file.end(columns.map(({ name, type }) => ({ name, type: type as FlatType, nullable: false })));
    },
  };
}

function columnsOf({ by, values }: HeldRows, [symbol, ...rest]: readonly Column[]): FileColumn[] {
  return [
    {
      name: symbol!.name,
      type: 'string',
      nullable: false,
      chunk: (from, to) => symbolChunk(by, from, to, pagesOf(to - from)),
    },
    ...rest.map(({ name, type }) => ({
      name,
      type: type as FlatType,
      nullable: false,
      chunk: (from: number, to: number): Chunk => {
        const some = values[name]!.subarray(from, to);
        const numbers = some instanceof Float64Array ? some : Float64Array.from(some);
        return numberChunk(numbers, physicals[type as FlatType]!, pagesOf(to - from));
      },
    })),
  ];
}

/** Pages begin at multiples of what readers take at a time: DuckDB unpacks what it begins amid a page value by value. */
function pagesOf(rows: number): PageSpan[] {
  const pages: PageSpan[] = [];
  for (let from = 0; from < rows; from += pageRowsMax) {
    const to = Math.min(rows, from + pageRowsMax);
    pages.push({ from, to, rows: to - from, levels: noLevels });
  }
  return pages;
}
