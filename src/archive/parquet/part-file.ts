import type { BySymbol } from './by-symbol.ts';
import { type Chunk, noLevels, type PageSpan } from './chunk.ts';
import { encodeColumns, type FlatType, pageRowsMax } from './column-file.ts';
import type { Column } from './datasets.ts';
import { numberChunk } from './number-chunk.ts';
import { symbolChunk } from './symbol-chunk.ts';
import type { Physical } from './value-bytes.ts';

/** The numbers of a column, whole ones where its type says so. */
export type Numbers = Float64Array | Int32Array;

const physicals: Readonly<Partial<Record<FlatType, Physical>>> = {
  ...{ timestamp: 'int64', double: 'double', int32: 'int32', int64: 'int64' },
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
  const [symbol, ...rest] = columns;
  return encodeColumns(
    [
      {
        ...{ name: symbol!.name, type: 'string', nullable: false },
        chunk: (from, to) => symbolChunk(by, from, to, pagesOf(to - from)),
      },
      ...rest.map(({ name, type }) => ({
        ...{ name, type: type as FlatType, nullable: false },
        chunk: (from: number, to: number): Chunk => {
          const some = values[name]!.subarray(from, to);
          const numbers = some instanceof Float64Array ? some : Float64Array.from(some);
          return numberChunk(numbers, physicals[type as FlatType]!, pagesOf(to - from));
        },
      })),
    ],
    by.offsets.at(-1)!,
    groupRows,
  );
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
