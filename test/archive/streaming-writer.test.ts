import { type Table, tableFromIPC } from 'apache-arrow';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Column, datasets } from '../../src/archive/format/datasets.ts';
import { type CellValue, decodeArrowTable, decodeRows } from '../../src/archive/parquet/rows.ts';
import { type RowChunk, streamArrow, streamParquet } from '../../src/archive/parquet/streaming-writer.ts';
import { rowGroupRows } from '../../src/archive/parquet/writer.ts';
import { checkAsyncProperty } from '../harness/properties.ts';

const noDelta = () => ({ deltaColumns: [] });

async function readAll(pieces: AsyncIterable<Uint8Array>): Promise<Buffer> {
  const all: Uint8Array[] = [];
  for await (const piece of pieces) all.push(piece);
  return Buffer.concat(all);
}

/** Rows as chunks of columns, `size` rows each. */
async function* chunked(columns: readonly Column[], rows: readonly (readonly CellValue[])[], size: number) {
  for (let at = 0; at < rows.length; at += size)
    yield columns.map((_, c) => rows.slice(at, at + size).map((row) => row[c]!));
}

const values: Record<Column['type'], fc.Arbitrary<CellValue>> = {
  string: fc.string({ unit: 'grapheme', maxLength: 9 }),
  timestamp: fc.integer({ min: -1e12, max: 4.1e12 }),
  timestamp_us: fc.integer({ min: 0, max: 4.1e15 }),
  double: fc.double(),
  int32: fc.integer(),
  int64: fc.maxSafeInteger(),
  boolean: fc.boolean(),
  strings: fc.array(fc.string({ maxLength: 3 }), { maxLength: 3 }),
};

const everyType: readonly Column[] = (Object.keys(values) as Column['type'][]).flatMap((type) =>
  [true, false].map((nullable) => ({ name: `${type}${nullable}`, type, nullable, meaning: '' })),
);
const rowOf = fc.tuple(
  ...everyType.map(({ type, nullable }) => (nullable ? fc.option(values[type], { freq: 3 }) : values[type])),
);

/** Rows as text, including 64-bit counts. */
const formatRows = (table: Table): string[] =>
  table.toArray().map((row) => JSON.stringify(row, (_, value) => (typeof value === 'bigint' ? String(value) : value)));

describe('a streamed file', () => {
  test('holds every value of every type, with nulls, in Parquet and Arrow', async () => {
    await checkAsyncProperty(
      [fc.array(rowOf, { maxLength: 70 }), fc.integer({ min: 1, max: 30 })],
      40,
      async (rows, size) => {
        const parquet = await readAll(streamParquet(everyType, chunked(everyType, rows, size), noDelta));
        expect(decodeRows(everyType, parquet)).toEqual(rows);
        const table = tableFromIPC(await readAll(streamArrow(everyType, chunked(everyType, rows, size))));
        expect(table.numRows).toBe(rows.length);
        const asParquet = decodeArrowTable(parquet);
        expect(table.schema.fields.map(String)).toEqual(asParquet.schema.fields.map(String));
        expect(formatRows(table)).toEqual(formatRows(asParquet));
      },
    );
  });

  test.each(Object.entries(datasets))('without rows has the schema of %s', async (_, { columns }) => {
    const none = () => chunked(columns, [], 1);
    expect(decodeRows(columns, await readAll(streamParquet(columns, none(), noDelta)))).toEqual([]);
    const { schema, numRows } = tableFromIPC(await readAll(streamArrow(columns, none())));
    expect(numRows).toBe(0);
    expect(schema.fields.map(({ name, nullable }) => [name, nullable])).toEqual(
      columns.map(({ name, nullable }) => [name, nullable]),
    );
  });

  test('is written a row group at a time, before the last rows are known', async () => {
    const chunk: RowChunk = [Array(2048).fill('AAA'), Array.from({ length: 2048 }, (_, i) => i), Array(2048).fill(0.5)];
    let produced = 0;
    let isEnded = false;
    async function* endless() {
      try {
        for (;;) {
          produced += 2048;
          yield chunk;
        }
      } finally {
        isEnded = true;
      }
    }
    const pieces = streamParquet(datasets.ticks.columns, endless(), noDelta);
    let bytes = 0;
    while (bytes < 100_000) bytes += (await pieces.next()).value!.length;
    expect(produced).toBeGreaterThan(rowGroupRows);
    expect(produced).toBeLessThan(20 * rowGroupRows);
    await pieces.return();
    // A generator that has ended returns nothing more.
    expect(isEnded).toBe(true);
  });

  test.each([0, 1, 40, 200])(
    'fails if its source fails after %i chunks, instead of being shorter',
    async (chunkCount) => {
      const chunk: RowChunk = [Array(2048).fill('AAA'), Array(2048).fill(1), Array(2048).fill(0.5)];
      async function* breaking() {
        for (let i = 0; i < chunkCount; i++) yield chunk;
        throw new Error('the disk is gone');
      }
      await expect(readAll(streamParquet(datasets.ticks.columns, breaking(), noDelta))).rejects.toThrow(
        'the disk is gone',
      );
      await expect(readAll(streamArrow(datasets.ticks.columns, breaking()))).rejects.toThrow('the disk is gone');
    },
  );
});
