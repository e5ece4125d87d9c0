import type { Data, Utf8 } from 'apache-arrow';
import { datasets } from '../../src/archive/format/datasets.ts';
import type { PartColumns } from '../../src/archive/format/tick-columns.ts';
import {
  chooseTimeEncoding,
  collectSymbolRuns,
  copyTimes,
  createColumnLookup,
  splitIntoBatches,
  toDoubleData,
  toSymbolData,
  toTimestampData,
} from '../../src/archive/parquet/arrow-columns.ts';
import { decodeArrowTable, encodeBatches, type RowGroupIndexes } from '../../src/archive/parquet/rows.ts';
import { rowGroupRows } from '../../src/archive/parquet/writer.ts';

// Files of ticks by Arrow and parquet-wasm: the reference that our own writer and reader are tested against.

/** Encodes the ticks of one part, at least one row. Deterministic: the same columns give the same bytes. */
export function encodeTicksWithArrow(part: PartColumns, groupRows = rowGroupRows): Uint8Array {
  const batches = splitIntoBatches(part.t.length, groupRows, (from, to) => toTickBatch(part, from, to));
  return encodeBatches(datasets.ticks.columns, batches, chooseTimeEncoding(part.t), groupRows);
}

const toTickBatch = (part: PartColumns, from: number, to: number): Data[] => [
  toSymbolData(part, from, to),
  toTimestampData(part.t.subarray(from, to)),
  toDoubleData(part.p.slice(from, to)),
];

/** Decodes a part written by `encodeTicksWithArrow`, or some of its row groups. @throws Error if it cannot be read */
export function decodeTicksWithArrow(bytes: Uint8Array, groups?: RowGroupIndexes): PartColumns {
  const table = decodeArrowTable(bytes, groups);
  const t = new Float64Array(table.numRows);
  const p = new Float64Array(table.numRows);
  const symbols: string[] = [];
  const starts: number[] = [];
  let row = 0;
  for (const batch of table.batches) {
    const column = createColumnLookup(batch);
    copyTimes(column('t'), t, row);
    p.set(column('p').values.subarray(0, batch.numRows), row);
    collectSymbolRuns(column('symbol') as Data<Utf8>, batch.numRows, row, symbols, starts);
    row += batch.numRows;
  }
  return { symbols, offsets: Float64Array.from([...starts, row]), t, p };
}
