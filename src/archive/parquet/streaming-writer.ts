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

/** Some rows: for each column its values, times and counts as numbers. */
export type RowChunk = readonly (readonly CellValue[])[];

/** Rows that are turned into Arrow at once; a row group takes in several of these. */
const streamBatchRows = 32_768;

/**
 * A Parquet file as it is written, a row group at a time, with the types and settings of the archive's own files. What
 * is held does not grow with the file. `storage` looks at the first rows.
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
  // The writer takes an error of its source for the end of it: without this a broken export would be a short one.
  let broken: { readonly error: unknown } | undefined;
  const source = new ReadableStream<WasmBatch>(
    {
      async pull(controller) {
        try {
          const rows = next ?? (await batches.next()).value;
          next = undefined;
          if (rows === undefined) return controller.close();
          for (const batch of toWasmBatches(schema, toRecordBatch(columns, schema, rows))) controller.enqueue(batch);
        } catch (error) {
          broken = { error };
          controller.error(error);
        }
      },
    },
    { highWaterMark: 0 },
  );
  try {
    const pieces = await transformParquetStream(source, createWriterProperties(storage(first.value)));
    for await (const piece of pieces as AsyncIterable<Uint8Array>) {
      if (broken !== undefined) throw broken.error;
      yield piece;
    }
  } catch (error) {
    throw broken === undefined ? error : broken.error;
  } finally {
    await batches.return?.(undefined);
  }
  if (broken !== undefined) throw broken.error;
}

function toWasmBatches(schema: Schema, batch: RecordBatch): WasmBatch[] {
  const table = WasmTable.fromIPCStream(tableToIPC(new Table(schema, [batch]), 'stream'));
  try {
    return table.recordBatches();
  } finally {
    table.free();
  }
}

/** An Arrow IPC file (Feather version 2), or the IPC stream of one, not compressed, as it is written. */
export async function* streamArrow(
  columns: readonly Column[],
  chunks: AsyncIterable<RowChunk>,
  shape: 'file' | 'stream' = 'file',
): AsyncGenerator<Uint8Array, void, undefined> {
  const schema = toArrowSchema(columns);
  const sink = new PieceSink();
  const writer = shape === 'file' ? new RecordBatchFileWriter() : new RecordBatchStreamWriter();
  writer.reset(sink, schema);
  for await (const rows of regroupIntoBatches(columns, chunks)) {
    writer.write(toRecordBatch(columns, schema, rows));
    yield sink.take();
  }
  writer.close();
  yield sink.take();
}

/** What the writer has written so far; its own queue cannot be asked whether it is empty. */
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

/** The chunks put together to batches of `streamBatchRows` rows or a little more; none of them empty. */
async function* regroupIntoBatches(
  columns: readonly Column[],
  chunks: AsyncIterable<RowChunk>,
): AsyncGenerator<RowChunk> {
  let held: CellValue[][] = columns.map(() => []);
  for await (const chunk of chunks) {
    chunk.forEach((values, c) => {
      for (const value of values) held[c]!.push(value);
    });
    if (held[0]!.length < streamBatchRows) continue;
    yield held;
    held = columns.map(() => []);
  }
  if (held[0]!.length > 0) yield held;
}
