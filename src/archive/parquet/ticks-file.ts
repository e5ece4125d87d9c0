import type { PartColumns } from '../../core/merge.ts';
import { type FileColumn, startColumns } from './column-file.ts';
import { type Groups, rowGroupRows } from './parquet.ts';
import { decodeTicksPlain } from './ticks-plain.ts';

/** Encodes the ticks of one part; at least one row. The same columns give the same bytes. */
export function encodeTicks(part: PartColumns, groupRows = rowGroupRows): Uint8Array {
  const file = startTicks(groupRows);
  file.add(part);
  return file.end();
}

/** Begins the ticks of one part, to which those of further symbols can be added; see `ColumnFile`. */
export function startTicks(groupRows: number): { add(part: PartColumns): void; end(): Uint8Array } {
  const file = startColumns(groupRows);
  return {
    add: (part) => file.add(part, columnsOf(part)),
    end: () => file.end(),
  };
}

const columnsOf = ({ t, p }: PartColumns): FileColumn[] => [
  { name: 'symbol', type: 'symbol' },
  { name: 't', type: 'timestamp', values: t },
  { name: 'p', type: 'double', values: p },
];

/** Decodes a part that `encodeTicks` wrote, or some row groups of it; throws where it cannot be read, or is not sorted with unique keys. */
export function decodeTicks(bytes: Uint8Array, groups?: Groups): PartColumns {
  return decodeTicksPlain(bytes, groups);
}
