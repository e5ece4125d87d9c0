import type { PartColumns } from '../../core/merge.ts';
import { readColumnValues } from './page-decoder.ts';
import { openPartFileWriter } from './partition-file.ts';
import { type RowGroupIndexes, rowGroupRows } from './rows.ts';
import { datasets } from './schema.ts';
import { readTickPages, visitSymbols } from './tick-page-reader.ts';
import { decodeTicksWithArrow } from './ticks-arrow.ts';

/** Encodes the ticks of one part; at least one row. The same columns give the same bytes. */
export function encodeTicks(part: PartColumns, groupRows = rowGroupRows): Uint8Array {
  const file = openTickFileWriter(groupRows);
  file.add(part);
  return file.end();
}

/** Begins the ticks of one part, to which those of further symbols can be added; see `StartedPart`. */
export function openTickFileWriter(groupRows: number): { add(part: PartColumns): void; end(): Uint8Array } {
  const file = openPartFileWriter(datasets.ticks, groupRows);
  return {
    add: (part) => file.add({ symbolOffsets: part, values: { t: part.t, p: part.p } }),
    end: () => file.finish(),
  };
}

/**
 * Decodes a part that `encodeTicks` wrote, or some row groups of it; throws where it cannot be read, or is not sorted with
 * unique keys. What is stored otherwise than our writers store it goes the plain way, which says what is wrong with it.
 */
export function decodeTicks(bytes: Uint8Array, groups?: RowGroupIndexes): PartColumns {
  try {
    return decodeTicksStrict(bytes, groups);
  } catch {
    return decodeTicksWithArrow(bytes, groups);
  }
}

/** The same for what our writers store; whatever is stored otherwise is an error. */
export function decodeTicksStrict(bytes: Uint8Array, groups?: RowGroupIndexes): PartColumns {
  const pages = readTickPages(bytes, groups);
  const symbols: string[] = [];
  const starts: number[] = [];
  let row = 0;
  visitSymbols(bytes, pages, (symbol, count) => {
    if (symbols.at(-1) !== symbol) {
      symbols.push(symbol);
      starts.push(row);
    }
    row += count;
  });
  const t = readColumnValues(bytes, pages.t, 'int64', 0, row);
  const p = readColumnValues(bytes, pages.p, 'double', 0, row);
  return { symbols, offsets: Float64Array.from([...starts, row]), t, p };
}
