import type { PartColumns } from '../../core/merge.ts';
import { encodeColumns } from './column-file.ts';
import { type Groups, rowGroupRows } from './parquet.ts';
import { decodeTicksPlain } from './ticks-plain.ts';

/** Encodes the ticks of one part; at least one row. The same columns give the same bytes. */
export const encodeTicks = (part: PartColumns, groupRows = rowGroupRows): Uint8Array =>
  encodeColumns(
    part,
    [
      { name: 'symbol', type: 'symbol' },
      { name: 't', type: 'timestamp', values: part.t },
      { name: 'p', type: 'double', values: part.p },
    ],
    groupRows,
  );

/** Decodes a part that `encodeTicks` wrote, or some row groups of it; throws where it cannot be read, or is not sorted with unique keys. */
export function decodeTicks(bytes: Uint8Array, groups?: Groups): PartColumns {
  return decodeTicksPlain(bytes, groups);
}
