import type { Data, Utf8 } from 'apache-arrow';
import { datasets } from '../format/datasets.ts';
import { askSide, type BookColumns, bidSide } from '../format/order-book.ts';
import {
  chooseTimeEncoding,
  collectSymbolRuns,
  copyTimes,
  createColumnLookup,
  splitIntoBatches,
  toDoubleData,
  toInt32Data,
  toSymbolData,
  toTimestampData,
} from './arrow-columns.ts';
import { loadArrow } from './arrow-data.ts';
import { decodeArrowTable, encodeBatches, type RowGroupIndexes } from './rows.ts';
import { rowGroupRows } from './writer.ts';

/** Encodes the order books of one part, at least one row. Deterministic: the same columns give the same bytes. */
export function encodeBooks(part: BookColumns, groupRows = rowGroupRows): Uint8Array {
  const batches = splitIntoBatches(part.t.length, groupRows, (from, to) => [
    toSymbolData(part, from, to),
    toTimestampData(part.t.subarray(from, to)),
    toSideData(part.side.subarray(from, to)),
    toInt32Data(part.level.slice(from, to)),
    toDoubleData(part.price.slice(from, to)),
    toDoubleData(part.quantity.slice(from, to)),
  ]);
  return encodeBatches(datasets.orderbooks.columns, batches, chooseTimeEncoding(part.t), groupRows);
}

const sideNames: readonly Uint8Array[] = [Buffer.from('ask'), Buffer.from('bid')];
const sideNameBytes = 3;

/** Encodes the side names, which have equal length. */
function toSideData(side: Uint8Array): Data {
  const data = new Uint8Array(sideNameBytes * side.length);
  side.forEach((value, i) => {
    data.set(sideNames[value]!, sideNameBytes * i);
  });
  const valueOffsets = Int32Array.from({ length: side.length + 1 }, (_, i) => sideNameBytes * i);
  const { makeData, Utf8 } = loadArrow();
  return makeData({ type: new Utf8(), length: side.length, nullCount: 0, valueOffsets, data });
}

/** Decodes a part written by `encodeBooks`, or some of its row groups. @throws Error if it cannot be read */
export function decodeBooks(bytes: Uint8Array, groups?: RowGroupIndexes): BookColumns {
  const table = decodeArrowTable(bytes, groups);
  const rows = table.numRows;
  const [t, price, quantity] = [new Float64Array(rows), new Float64Array(rows), new Float64Array(rows)];
  const side = new Uint8Array(rows);
  const level = new Int32Array(rows);
  const symbols: string[] = [];
  const starts: number[] = [];
  let row = 0;
  for (const batch of table.batches) {
    const child = createColumnLookup(batch);
    copyTimes(child('t'), t, row);
    readSides(child('side') as Data<Utf8>, side, row);
    level.set(child('level').values.subarray(0, batch.numRows), row);
    price.set(child('price').values.subarray(0, batch.numRows), row);
    quantity.set(child('quantity').values.subarray(0, batch.numRows), row);
    collectSymbolRuns(child('symbol') as Data<Utf8>, batch.numRows, row, symbols, starts);
    row += batch.numRows;
  }
  return { symbols, offsets: Float64Array.from([...starts, row]), t, side, level, price, quantity };
}

function readSides(data: Data<Utf8>, out: Uint8Array, at: number): void {
  const { valueOffsets, values } = data;
  for (let i = 0; i < data.length; i++)
    out[at + i] = values[valueOffsets[i]!] === sideNames[askSide]![0] ? askSide : bidSide;
}
