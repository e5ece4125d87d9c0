import { type Data, Float64, makeData, TimestampMillisecond, Utf8 } from 'apache-arrow';
import type { PartColumns } from '../core/merge.ts';
import { datasets } from './datasets.ts';
import { decode, encodeBatches, rowGroupRows } from './parquet.ts';

/** Rows of one Arrow batch: bounds what is held twice while a part is encoded. */
export const batchRows = 8 * rowGroupRows;

/** Encodes the ticks of one part; at least one row. The same columns give the same bytes. */
export function encodeTicks(part: PartColumns): Uint8Array {
  const batches: Data[][] = [];
  for (let from = 0; from < part.t.length; from += batchRows) {
    batches.push(batchOf(part, from, Math.min(part.t.length, from + batchRows)));
  }
  return encodeBatches(datasets.ticks, batches, { delta: repeats(part.t) ? [] : ['t'] });
}

/**
 * Whether times repeat enough for a dictionary to be the smaller encoding: polled at fixed moments the times of all
 * symbols are the same; otherwise nearly all differ, and differences are far smaller.
 */
export function repeats(t: Float64Array): boolean {
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

function batchOf(part: PartColumns, from: number, to: number): Data[] {
  const length = to - from;
  return [
    symbolsOf(part, from, to),
    timesOf(part.t.subarray(from, to)),
    makeData({ type: new Float64(), length, nullCount: 0, data: part.p.slice(from, to) }),
  ] as Data[];
}

/** Rows grouped by symbol: symbol i holds rows offsets[i] to offsets[i + 1]. */
type Grouped = Pick<PartColumns, 'symbols' | 'offsets'>;

/** The symbol column of some rows. */
export function symbolsOf(part: Grouped, from: number, to: number): Data {
  const length = to - from;
  const symbolBytes = part.symbols.map((symbol) => Buffer.from(symbol, 'utf8'));
  let size = 0;
  const spans: { bytes: Buffer; rows: number }[] = [];
  for (let s = symbolAt(part, from); s < part.symbols.length && part.offsets[s]! < to; s++) {
    const rows = Math.min(to, part.offsets[s + 1]!) - Math.max(from, part.offsets[s]!);
    spans.push({ bytes: symbolBytes[s]!, rows });
    size += rows * symbolBytes[s]!.length;
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
  return makeData({ type: new Utf8(), length, nullCount: 0, valueOffsets, data });
}

/** A time column. */
export const timesOf = (t: Float64Array): Data =>
  makeData({ type: new TimestampMillisecond('UTC'), length: t.length, nullCount: 0, data: int64Of(t) });

/** The symbol that holds a row, by bisection. */
function symbolAt(part: Grouped, row: number): number {
  let low = 0;
  let high = part.symbols.length - 1;
  while (low < high) {
    const middle = (low + high + 1) >> 1;
    if (part.offsets[middle]! <= row) low = middle;
    else high = middle - 1;
  }
  return low;
}

/** Whole epoch milliseconds as 64-bit integers, by two 32-bit halves: five times a loop over BigInt. */
function int64Of(t: Float64Array): BigInt64Array {
  const out = new BigInt64Array(t.length);
  const halves = new Int32Array(out.buffer);
  for (let i = 0; i < t.length; i++) {
    const high = Math.floor(t[i]! / 4_294_967_296);
    halves[2 * i] = t[i]! - high * 4_294_967_296;
    halves[2 * i + 1] = high;
  }
  return out;
}

/** Decodes a part that `encodeTicks` wrote; throws where it cannot be read, or is not sorted with unique keys. */
export function decodeTicks(bytes: Uint8Array): PartColumns {
  const table = decode(bytes);
  const t = new Float64Array(table.numRows);
  const p = new Float64Array(table.numRows);
  const symbols: string[] = [];
  const starts: number[] = [];
  let row = 0;
  for (const batch of table.batches) {
    const [symbol, time, price] = childrenOf(
      batch.schema.fields.map((f) => f.name),
      batch.data.children,
    );
    readTimes(time, t, row);
    p.set(price.values.subarray(0, batch.numRows), row);
    readSymbols(symbol, batch.numRows, row, symbols, starts);
    row += batch.numRows;
  }
  return { symbols, offsets: Float64Array.from([...starts, row]), t, p };
}

function childrenOf(names: readonly string[], children: readonly Data[]): [Data<Utf8>, Data, Data<Float64>] {
  const child = (name: string): Data => {
    const at = names.indexOf(name);
    if (at < 0) throw new Error(`column ${name} is missing`);
    return children[at]!;
  };
  return [child('symbol') as Data<Utf8>, child('t'), child('p') as Data<Float64>];
}

/** Reads a batch's times into `out` from row `at` on. */
export function readTimes(data: Data, out: Float64Array, at: number): void {
  const values = data.values as BigInt64Array;
  const halves = new Int32Array(values.buffer, values.byteOffset, values.length * 2);
  for (let i = 0; i < data.length; i++) out[at + i] = (halves[2 * i]! >>> 0) + halves[2 * i + 1]! * 4_294_967_296;
}

/** Collects runs of equal symbols; a run that goes on from the batch before is not begun again. */
export function readSymbols(data: Data<Utf8>, rows: number, at: number, symbols: string[], starts: number[]): void {
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
