import {
  AsyncByteQueue,
  type RecordBatch,
  RecordBatchFileWriter,
  RecordBatchStreamWriter,
  type Schema,
  Table,
  tableToIPC,
} from 'apache-arrow';
import { transformParquetStream, type RecordBatch as WasmBatch, Table as WasmTable } from 'parquet-wasm';
import type { Column } from '../format/datasets.ts';
import { type CellValue, createRecordBatch, toArrowData, toArrowSchema } from './arrow-data.ts';
import { type ColumnEncodings, createWriterProperties, encodeRows } from './rows.ts';
import { rowGroupRows } from './writer.ts';

/** A chunk of rows as columns. Times and counts are numbers. */
export type RowChunk = readonly (readonly CellValue[])[];

/** Rows per Arrow batch. A row group holds several batches. */
const streamBatchRows = 32_768;

/**
 * Writes a Parquet file as a stream, one row group at a time, with the types and settings of the archive's own files.
 * Memory use does not grow with the file. `storage` chooses encodings from the first rows.
 */
export async function* streamParquet(
  columns: readonly Column[],
  chunks: AsyncIterable<RowChunk>,
  storage: (first: RowChunk) => ColumnEncodings,
): AsyncGenerator<Uint8Array, void, undefined> {
  const schema = toArrowSchema(columns);
  const batches = regroupIntoBatches(columns, chunks)[Symbol.asyncIterator]();
  const first = await batches.next();
  if (first.done === true) {
    yield encodeRows(columns, []);
    return;
  }
  let next: RowChunk | undefined = first.value;
  // The writer treats an error of its source as the end of the input. Without this check a failed export would be a
  // truncated file.
  let failure: { readonly error: unknown } | undefined;
  const source = new ReadableStream<WasmBatch>(
    {
      async pull(controller) {
        try {
          const rows = next ?? (await batches.next()).value;
          next = undefined;
          if (rows === undefined) return controller.close();
          for (const batch of toWasmBatches(schema, toRecordBatch(columns, schema, rows))) controller.enqueue(batch);
        } catch (error) {
          failure = { error };
          controller.error(error);
        }
      },
    },
    { highWaterMark: 0 },
  );
  try {
    const pieces = await transformParquetStream(source, createWriterProperties(storage(first.value)));
    for await (const piece of pieces as AsyncIterable<Uint8Array>) {
      if (failure !== undefined) throw failure.error;
      yield piece;
    }
  } catch (error) {
    throw failure === undefined ? error : failure.error;
  } finally {
    await batches.return?.(undefined);
  }
  if (failure !== undefined) throw failure.error;
}

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

function toWasmBatches(schema: Schema, batch: RecordBatch): WasmBatch[] {
  const table = WasmTable.fromIPCStream(tableToIPC(new Table(schema, [batch]), 'stream'));
  try {
    return table.recordBatches();
  } finally {
    table.free();
  }
}

/** Writes an Arrow IPC file (Feather version 2) or IPC stream, uncompressed, as it is produced. */
export async function* streamArrow(
  columns: readonly Column[],
  chunks: AsyncIterable<RowChunk>,
  format: 'file' | 'stream' = 'file',
): AsyncGenerator<Uint8Array, void, undefined> {
  const schema = toArrowSchema(columns);
  const sink = new PieceSink();
  const writer = format === 'file' ? new RecordBatchFileWriter() : new RecordBatchStreamWriter();
  writer.reset(sink, schema);
  for await (const rows of regroupIntoBatches(columns, chunks)) {
    writer.write(toRecordBatch(columns, schema, rows));
    yield sink.take();
  }
  writer.close();
  yield sink.take();
}

/** Collects the writer's output. Arrow's own queue cannot report whether it is empty. */
class PieceSink extends AsyncByteQueue {
  private pieces: Uint8Array[] = [];
  override write(piece: ArrayBufferLike | ArrayBufferView): void {
    const bytes = ArrayBuffer.isView(piece)
      ? new Uint8Array(piece.buffer, piece.byteOffset, piece.byteLength)
      : new Uint8Array(piece);
    this.pieces.push(bytes);
  }
  take(): Uint8Array {
    const bytes = Buffer.concat(this.pieces);
    this.pieces = [];
    return bytes;
  }
}

const toRecordBatch = (columns: readonly Column[], schema: Schema, rows: RowChunk): RecordBatch =>
  createRecordBatch(
    schema,
    columns.map((column, c) => toArrowData(column.type, rows[c]!)),
  );

/** Regroups chunks into batches of `streamBatchRows` rows or slightly more, none of them empty. */
async function* regroupIntoBatches(
  columns: readonly Column[],
  chunks: AsyncIterable<RowChunk>,
): AsyncGenerator<RowChunk> {
  let buffered: CellValue[][] = columns.map(() => []);
  for await (const chunk of chunks) {
    chunk.forEach((values, c) => {
      for (const value of values) buffered[c]!.push(value);
    });
    if (buffered[0]!.length < streamBatchRows) continue;
    yield buffered;
    buffered = columns.map(() => []);
  }
  if (buffered[0]!.length > 0) yield buffered;
}
