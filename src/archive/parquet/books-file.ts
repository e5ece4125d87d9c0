import type { Data, RecordBatch, Utf8 } from 'apache-arrow';
import { askSide, type BookColumns, bidSide } from '../../core/merge-books.ts';
import { batchesOf, doubleData, int32Data, symbolData, timeData } from './arrow-columns.ts';
import { arrow } from './lazy-arrow.ts';
import { decode, encodeBatches, type Groups, rowGroupRows } from './rows.ts';
import { datasets } from './schema.ts';
import { readSymbols, readTimes, storageOf } from './ticks-arrow.ts';

/** Encodes the order books of one part; at least one row. The same columns give the same bytes. */
export function encodeBooks(part: BookColumns, groupRows = rowGroupRows): Uint8Array {
  const batches = batchesOf(part.t.length, groupRows, (from, to) => [
    symbolData(part, from, to),
    timeData(part.t.subarray(from, to)),
    sideData(part.side.subarray(from, to)),
    int32Data(part.level.slice(from, to)),
    doubleData(part.price.slice(from, to)),
    doubleData(part.quantity.slice(from, to)),
  ]);
  return encodeBatches(datasets.orderbooks, batches, storageOf(part.t), groupRows);
}

const words: readonly Uint8Array[] = [Buffer.from('ask'), Buffer.from('bid')];
const wordBytes = 3;

/** The words of sides, all of them of one length. */
function sideData(side: Uint8Array): Data {
  const data = new Uint8Array(wordBytes * side.length);
  side.forEach((value, i) => {
    data.set(words[value]!, wordBytes * i);
  });
  const valueOffsets = Int32Array.from({ length: side.length + 1 }, (_, i) => wordBytes * i);
  const { makeData, Utf8 } = arrow();
  return makeData({ type: new Utf8(), length: side.length, nullCount: 0, valueOffsets, data });
}

/** Decodes a part that `encodeBooks` wrote, or some row groups of it; throws where it cannot be read. */
export function decodeBooks(bytes: Uint8Array, groups?: Groups): BookColumns {
  const table = decode(bytes, groups);
  const rows = table.numRows;
  const [t, price, quantity] = [new Float64Array(rows), new Float64Array(rows), new Float64Array(rows)];
  const side = new Uint8Array(rows);
  const level = new Int32Array(rows);
  const symbols: string[] = [];
  const starts: number[] = [];
  let row = 0;
  for (const batch of table.batches) {
    const child = childrenOf(batch);
    readTimes(child('t'), t, row);
    readSides(child('side') as Data<Utf8>, side, row);
    level.set(child('level').values.subarray(0, batch.numRows), row);
    price.set(child('price').values.subarray(0, batch.numRows), row);
    quantity.set(child('quantity').values.subarray(0, batch.numRows), row);
    readSymbols(child('symbol') as Data<Utf8>, batch.numRows, row, symbols, starts);
    row += batch.numRows;
  }
  return { symbols, offsets: Float64Array.from([...starts, row]), t, side, level, price, quantity };
}

function childrenOf(batch: RecordBatch): (name: string) => Data {
  const names = batch.schema.fields.map((field) => field.name);
  return (name) => {
    const at = names.indexOf(name);
    if (at < 0) throw new Error(`column ${name} is missing`);
    return batch.data.children[at]!;
  };
}

function readSides(data: Data<Utf8>, out: Uint8Array, at: number): void {
  const { valueOffsets, values } = data;
  for (let i = 0; i < data.length; i++)
    out[at + i] = values[valueOffsets[i]!] === words[askSide]![0] ? askSide : bidSide;
}
