import type { Data, RecordBatch, Utf8 } from 'apache-arrow';
import { findSymbolIndex, type SymbolOffsets } from '../format/tick-columns.ts';
import { loadArrow, toInt64Array } from './arrow-data.ts';
import type { ColumnEncodings } from './rows.ts';
import { rowGroupRows } from './writer.ts';

/** Chooses the encoding of times. `t` holds the times of some or all ticks. */
export const chooseTimeEncoding = (t: Float64Array): ColumnEncodings => ({
  deltaColumns: hasRepeatedTimes(t) ? [] : ['t'],
});

/**
 * Whether times repeat enough for a dictionary to be smaller. With polls at fixed times all symbols share their times;
 * otherwise nearly all differ, and deltas are far smaller.
 */
function hasRepeatedTimes(t: Float64Array): boolean {
  const sample = t.subarray(0, rowGroupRows);
  // Linear counting with a million slots: within a few per cent of the distinct count, fifty times as fast as a Set.
  const slots = new Uint8Array(1 << 20);
  let distinct = 0;
  for (let i = 0; i < sample.length; i++) {
    const slot = (sample[i]! % 4_294_967_291) & 0xfffff;
    if (slots[slot] === 0) distinct++;
    slots[slot] = 1;
  }
  return distinct * 4 < sample.length;
}

/** Returns a function that finds a column of a batch by name. It throws Error if there is no such column. */
export function createColumnLookup(batch: RecordBatch): (name: string) => Data {
  const names = batch.schema.fields.map((field) => field.name);
  return (name) => {
    const at = names.indexOf(name);
    if (at < 0) throw new Error(`column ${name} is missing`);
    return batch.data.children[at]!;
  };
}

/** Copies the times of a batch into `out`, starting at row `at`. */
export function copyTimes(data: Data, out: Float64Array, at: number): void {
  const values = data.values as BigInt64Array;
  const halves = new Int32Array(values.buffer, values.byteOffset, values.length * 2);
  for (let i = 0; i < data.length; i++) out[at + i] = (halves[2 * i]! >>> 0) + halves[2 * i + 1]! * 4_294_967_296;
}

/** Collects runs of equal symbols. A run that continues from the previous batch is not started again. */
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

// Typed arrays as Arrow columns, for files with too many rows to convert value by value.

/** Row groups per Arrow batch. Bounds the rows that are held twice while a part is encoded. */
const rowGroupsPerBatch = 8;

/** Splits `length` rows into batches. `batchOf` builds the batch of rows `from` to `to`. */
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

/** Builds the symbol column of rows `from` to `to`. */
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

/** Converts integer epoch milliseconds to UTC timestamps. */
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
