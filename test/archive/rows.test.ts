import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type Column,
  type ColumnType,
  type DatasetDefinition,
  type DatasetName,
  datasetNames,
  datasets,
} from '../../src/archive/format/datasets.ts';
import type { PartColumns } from '../../src/archive/format/tick-columns.ts';
import { type CellValue, decodeRows, encodeRows } from '../../src/archive/parquet/rows.ts';
import { decodeTicks, encodeTicks } from '../../src/archive/parquet/ticks-file.ts';
import { rowGroupRows } from '../../src/archive/parquet/writer.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';
import { checkProperty, printSeed } from '../harness/properties.ts';
import { day0, dayMs, scratchFolder } from './scratch.ts';

const seed = printSeed('parquet');

/** Text as venues have it: dots, spaces, quotes, characters beyond the basic plane, empty. */
const text = fc.oneof(fc.string({ unit: 'grapheme' }), fc.constantFrom('', '🚀', 'é', 'a\'b"c', '\u0000x', 'A.B-C?'));
/** The years 2000 to 2100 in epoch ms. */
const time = fc.integer({ min: Date.UTC(2000, 0), max: Date.UTC(2100, 0) });
const values: Record<ColumnType, fc.Arbitrary<CellValue>> = {
  string: text,
  timestamp: time,
  timestamp_us: fc.integer({ min: 1000 * Date.UTC(2000, 0), max: 1000 * Date.UTC(2100, 0) }),
  double: fc.double({ noNaN: true }),
  int32: fc.integer(),
  int64: fc.maxSafeInteger(),
  boolean: fc.boolean(),
  strings: fc.array(text, { maxLength: 4 }),
};
const rowOf = (columns: readonly Column[]): fc.Arbitrary<CellValue[]> =>
  fc.tuple(...columns.map((c) => (c.nullable ? fc.option(values[c.type]) : values[c.type])));

describe('every dataset', () => {
  test.each(datasetNames)('%s decodes from Parquet as written, with nulls, emoji and lists', (name: DatasetName) => {
    const { columns }: DatasetDefinition = datasets[name];
    checkProperty([fc.array(rowOf(columns), { minLength: 1, maxLength: 12 })], 25, (rows) => {
      const bytes = encodeRows(columns, rows);
      expect(decodeRows(columns, bytes)).toEqual(rows);
      expect(Buffer.compare(bytes, encodeRows(columns, rows))).toBe(0);
    });
  });

  test.each(datasetNames)('%s has the column types of the contract in DuckDB', async (name) => {
    const types = {
      string: 'VARCHAR',
      timestamp: 'TIMESTAMP WITH TIME ZONE',
      timestamp_us: 'TIMESTAMP WITH TIME ZONE',
      double: 'DOUBLE',
      int32: 'INTEGER',
      int64: 'BIGINT',
      boolean: 'BOOLEAN',
      strings: 'VARCHAR[]',
    };
    const { columns }: DatasetDefinition = datasets[name];
    const [row] = fc.sample(rowOf(columns), { numRuns: 1, seed });
    const path = join(scratchFolder(), 'x.parquet');
    writeFileSync(path, encodeRows(columns, [row!]));
    const duckdb = await (await DuckDBInstance.create(':memory:')).connect();
    const described = await duckdb.runAndReadAll(`describe from '${path}'`);
    expect(described.getRows().map(([column, type]) => [column, type])).toEqual(
      columns.map((c) => [c.name, types[c.type]]),
    );
    duckdb.closeSync();
  });
});

/** A part of some symbols with `rows` ticks each. */
function partOf(
  symbols: readonly string[],
  rows: number,
  timeOf: (i: number) => number,
  priceOf: (i: number) => number,
): PartColumns {
  const sorted = [...symbols].sort(compareUtf8);
  const t = new Float64Array(sorted.length * rows).map((_, i) => timeOf(i % rows));
  const p = new Float64Array(sorted.length * rows).map((_, i) => priceOf(i));
  return { symbols: sorted, offsets: Float64Array.from({ length: sorted.length + 1 }, (_, i) => i * rows), t, p };
}

const bits = (values: Float64Array): Buffer => Buffer.from(values.buffer, values.byteOffset, values.byteLength);

function expectSame(part: PartColumns, groupRows = rowGroupRows): void {
  const bytes = encodeTicks(part, groupRows);
  const decoded = decodeTicks(bytes);
  expect(decoded.symbols).toEqual(part.symbols);
  expect([...decoded.offsets]).toEqual([...part.offsets]);
  expect(bits(decoded.t).equals(bits(part.t))).toBe(true);
  expect(bits(decoded.p).equals(bits(part.p))).toBe(true);
  expect(Buffer.compare(encodeTicks(decoded, groupRows), bytes)).toBe(0);
}

describe('a part of ticks', () => {
  test('decodes bit for bit for any doubles, row groups and batches', () => {
    const symbol = fc.uniqueArray(text, { minLength: 1, maxLength: 5 });
    const ticks = fc.array(fc.tuple(fc.nat({ max: dayMs - 1 }), fc.double({ noNaN: true })), {
      minLength: 1,
      maxLength: 40,
    });
    checkProperty([symbol, ticks, fc.integer({ min: 1, max: 12 })], 60, (symbols, partArbitrary, groupRows) => {
      const times = [...new Set(partArbitrary.map(([t]) => t))].sort((a, b) => a - b);
      expectSame(
        partOf(
          symbols,
          times.length,
          (i) => day0 + times[i]!,
          (i) => partArbitrary[i % partArbitrary.length]![1],
        ),
        groupRows,
      );
    });
  });

  test.each([
    ['every two seconds for all symbols, with repeated times', 43_200, (i: number) => day0 + i * 2_000],
    ['at times that hardly repeat, with deltas', 40_000, (i: number) => day0 + i * 661 + (i % 7)],
  ])(
    'decodes from several row groups, with ticks %s',
    (_, rows, timeOf) => {
      const part = partOf(['AAA', '🚀', 'Ünï', '￿'], rows, timeOf, (i) => (i % 1_001) / 1_000);
      expect(part.t.length).toBeGreaterThan(rowGroupRows);
      expectSame(part);
    },
    30_000,
  );

  test('keeps times at both ends of the valid range, and below 2^32 ms', () => {
    const times = [0, 2 ** 31, 2 ** 32 - 1, 2 ** 32, Date.UTC(2000, 0), Date.UTC(2100, 0) - 1];
    expectSame(
      partOf(
        ['A'],
        times.length,
        (i) => times[i]!,
        () => 0.1 + 0.2,
      ),
    );
  });

  test('cannot be read if truncated', () => {
    const bytes = encodeTicks(
      partOf(
        ['A'],
        100,
        (i) => day0 + i,
        () => 0.5,
      ),
    );
    for (const length of [0, 4, 50, bytes.length - 1]) expect(() => decodeTicks(bytes.subarray(0, length))).toThrow();
  });

  test('cannot be read without one of its columns', () => {
    const columns = [{ name: 'symbol', type: 'string', nullable: false, meaning: '' }] as const;
    expect(() => decodeTicks(encodeRows(columns, [['A']]))).toThrow('does not have the columns of ticks');
  });
});
