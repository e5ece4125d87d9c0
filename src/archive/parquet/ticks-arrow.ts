import type { Data, Float64, Utf8 } from 'apache-arrow';
import { datasets } from '../format/datasets.ts';
import type { PartColumns } from '../format/tick-columns.ts';
import { loadArrow, toInt64Array } from './arrow-data.ts';
import { type ColumnEncodings, decodeArrowTable, encodeBatches, type RowGroupIndexes, rowGroupRows } from './rows.ts';
import { findSymbolIndex, type SymbolOffsets } from './symbol-offsets.ts';

/** Encodes the ticks of one part; at least one row. The same columns give the same bytes. */
export function encodeTicksWithArrow(part: PartColumns, groupRows = rowGroupRows): Uint8Array {
  const batches = splitIntoBatches(part.t.length, groupRows, (from, to) => toTickBatch(part, from, to));
  return encodeBatches(datasets.ticks, batches, chooseTimeEncoding(part.t), groupRows);
}

/** How ticks are stored, `t` being the times of some or all of them. */
export const chooseTimeEncoding = (t: Float64Array): ColumnEncodings => ({
  deltaColumns: hasRepeatedTimes(t) ? [] : ['t'],
});

/**
 * Whether times repeat enough for a dictionary to be the smaller encoding: polled at fixed moments the times of all
 * symbols are the same; otherwise nearly all differ, and differences are far smaller.
 */
function hasRepeatedTimes(t: Float64Array): boolean {
  const sample = t.subarray(0, rowGroupRows);
  // Linear counting in a million slots: within a few per cent of the distinct values, fifty times as fast as a Set.
  const slots = new Uint8Array(1 << 20);
  let distinct = 0;
  for (let i = 0; i < sample.length; i++) {
    const slot = (sample[i]! % 4_294_967_291) & 0xfffff;
    if (slots[slot] === 0) distinct++;
    slots[slot] = 1;
  }
  return distinct * 4 < sample.length;
}

const toTickBatch = (part: PartColumns, from: number, to: number): Data[] => [
  toSymbolData(part, from, to),
  toTimestampData(part.t.subarray(from, to)),
  toDoubleData(part.p.slice(from, to)),
];

/** Decodes a part that `encodeTicksWithArrow` wrote, or some row groups of it; throws where it cannot be read, or is not sorted with unique keys. */
export function decodeTicksWithArrow(bytes: Uint8Array, groups?: RowGroupIndexes): PartColumns {
  const table = decodeArrowTable(bytes, groups);
  const t = new Float64Array(table.numRows);
  const p = new Float64Array(table.numRows);
  const symbols: string[] = [];
  const starts: number[] = [];
  let row = 0;
  for (const batch of table.batches) {
    const [symbol, time, price] = findTickColumns(
      batch.schema.fields.map((f) => f.name),
      batch.data.children,
    );
    copyTimes(time, t, row);
    p.set(price.values.subarray(0, batch.numRows), row);
    collectSymbolRuns(symbol, batch.numRows, row, symbols, starts);
    row += batch.numRows;
  }
  return { symbols, offsets: Float64Array.from([...starts, row]), t, p };
}

function findTickColumns(names: readonly string[], children: readonly Data[]): [Data<Utf8>, Data, Data<Float64>] {
  const child = (name: string): Data => {
    const at = names.indexOf(name);
    if (at < 0) throw new Error(`column ${name} is missing`);
    return children[at]!;
  };
  return [child('symbol') as Data<Utf8>, child('t'), child('p') as Data<Float64>];
}

/** Reads a batch's times into `out` from row `at` on. */
export function copyTimes(data: Data, out: Float64Array, at: number): void {
  const values = data.values as BigInt64Array;
  const halves = new Int32Array(values.buffer, values.byteOffset, values.length * 2);
  for (let i = 0; i < data.length; i++) out[at + i] = (halves[2 * i]! >>> 0) + halves[2 * i + 1]! * 4_294_967_296;
}

/** Collects runs of equal symbols; a run that goes on from the batch before is not begun again. */
export function collectSymbolRuns(
  data: Data<Utf8>,
  rows: number,
  at: number,
  symbols: string[],
  starts: number[],
): void {
  const { valueOffsets } = data;
  const bytes = Buffer.from(data.values.buffer, data.values.byteOffset, data.values.byteLength);
  let from = -1;
  let to = -1;
  for (let i = 0; i < rows; i++) {
    const a = valueOffsets[i]!;
    const b = valueOffsets[i + 1]!;
    if (from >= 0 && b - a === to - from && bytes.compare(bytes, a, b, from, to) === 0) continue;
    from = a;
    to = b;
    const symbol = bytes.toString('utf8', a, b);
    if (i === 0 && symbols.at(-1) === symbol) continue;
    symbols.push(symbol);
    starts.push(at + i);
  }
}

// Columns of typed arrays as Arrow has them, for files of too many rows to go through single values.

/** Row groups of one Arrow batch: bounds what is held twice while a part is encoded. */
const rowGroupsPerBatch = 8;

/** Cuts `length` rows into batches, each made by `batchOf` from the rows `from` to `to`. */
export function splitIntoBatches(
  length: number,
  groupRows: number,
  batchOf: (from: number, to: number) => Data[],
): Data[][] {
  const batchRows = rowGroupsPerBatch * groupRows;
  const batches: Data[][] = [];
  for (let from = 0; from < length; from += batchRows) batches.push(batchOf(from, Math.min(length, from + batchRows)));
  return batches;
}

/** The symbol of each of the rows `from` to `to`. */
export function toSymbolData({ symbols, offsets }: SymbolOffsets, from: number, to: number): Data {
  const length = to - from;
  let size = 0;
  const spans: { bytes: Buffer; rows: number }[] = [];
  for (let s = findSymbolIndex(offsets, from); s < symbols.length && offsets[s]! < to; s++) {
    const bytes = Buffer.from(symbols[s]!, 'utf8');
    const rows = Math.min(to, offsets[s + 1]!) - Math.max(from, offsets[s]!);
    spans.push({ bytes, rows });
    size += rows * bytes.length;
  }
  const data = new Uint8Array(size);
  const valueOffsets = new Int32Array(length + 1);
  let at = 0;
  let row = 0;
  for (const { bytes, rows } of spans) {
    for (let r = 0; r < rows; r++) {
      data.set(bytes, at);
      at += bytes.length;
      valueOffsets[++row] = at;
    }
  }
  const { makeData, Utf8 } = loadArrow();
  return makeData({ type: new Utf8(), length, nullCount: 0, valueOffsets, data });
}

/** Whole epoch milliseconds as a UTC timestamp. */
export function toTimestampData(t: Float64Array): Data {
  const { makeData, TimestampMillisecond } = loadArrow();
  return makeData({ type: new TimestampMillisecond('UTC'), length: t.length, nullCount: 0, data: toInt64Array(t) });
}

export function toDoubleData(values: Float64Array): Data {
  const { Float64, makeData } = loadArrow();
  return makeData({ type: new Float64(), length: values.length, nullCount: 0, data: values });
}

export function toInt32Data(values: Int32Array): Data {
  const { Int32, makeData } = loadArrow();
  return makeData({ type: new Int32(), length: values.length, nullCount: 0, data: values });
}
