import type { Data } from 'apache-arrow';
import { toInt64Array } from './arrow-data.ts';
import { loadArrow } from './lazy-arrow.ts';
import { findSymbolIndex, type SymbolOffsets } from './symbol-offsets.ts';

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
