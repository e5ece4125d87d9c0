import { writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Column, type ColumnType, datasets } from '../../src/archive/format/datasets.ts';
import { type CellValue, decodeRows, encodeRows, encodeRowsWithArrow } from '../../src/archive/parquet/rows.ts';
import { encodeCandles } from '../../src/archive/parquet/ticks-file.ts';
import { drawFrom } from '../faults/seeds.ts';
import { expectSame } from '../harness/expect-same.ts';
import { checkAsyncProperty, checkProperty, printSeed } from '../harness/properties.ts';
import { share } from '../harness/share.ts';
import { day0, scratchFolder } from './scratch.ts';

// Rows of our own writer, tested against parquet-wasm and DuckDB.

const seed = printSeed('row-file');

const types = ['string', 'timestamp', 'double', 'int32', 'int64', 'boolean'] as const satisfies readonly ColumnType[];
/** A nullable and a required column of each type. */
const columns: readonly Column[] = types.flatMap((type) =>
  [false, true].map((nullable) => ({
    name: `${type}_${nullable ? 'or_null' : 'always'}`,
    type,
    nullable,
    meaning: '',
  })),
);

/** The shares of nulls and of repeated values. */
interface Kind {
  readonly nulls: 'none' | 'some' | 'all';
  readonly distinct: number;
  readonly wide: boolean;
}

function rowsOf(count: number, { nulls, distinct, wide }: Kind, from: number): CellValue[][] {
  const draw = drawFrom(from);
  const drawFor = (type: ColumnType): CellValue => {
    const n = draw.below(distinct);
    if (type === 'string') return ['', '🚀', 'é', `${n}`, 'A.B C?', 'x'.repeat(n % 300)][n % 6]!;
    if (type === 'boolean') return n % 2 === 0;
    if (type === 'timestamp') return wide ? [Date.UTC(2000, 0), Date.UTC(2100, 0) - 1, 0][n % 3]! : day0 + n * 60_000;
    if (type === 'int64') return wide ? [2 ** 53 - 1, -(2 ** 53) + 1, n][n % 3]! : n;
    if (type === 'int32') return wide ? [2 ** 31 - 1, -(2 ** 31), n][n % 3]! : n;
    return wide ? [-0, 0, 1e300, Number.NEGATIVE_INFINITY, n / 7][n % 5]! : n / 1000;
  };
  return Array.from({ length: count }, () =>
    columns.map(({ type, nullable }): CellValue => {
      if (nullable && (nulls === 'all' || (nulls === 'some' && draw.below(3) === 0))) return null;
      return drawFor(type);
    }),
  );
}

const kind = fc.record({
  nulls: fc.constantFrom<Kind['nulls'][]>('none', 'some', 'all'),
  distinct: fc.constantFrom(1, 2, 9, 300, 100_000),
  wide: fc.boolean(),
});
const counts = fc.constantFrom(0, 1, 7, 8, 9, 15, 16, 17, 100, 101);
const groupRows = fc.constantFrom(8, 50, 1000);

describe('rows of every type but lists', () => {
  test('decode with parquet-wasm as written, including nulls', () => {
    checkProperty([kind, counts, groupRows, fc.nat()], share * 50, (made, count, group, from) => {
      const rows = rowsOf(count, made, from);
      const bytes = encodeRows(columns, rows, group);
      expectSame(decodeRows(columns, bytes), rows);
      expect(Buffer.compare(encodeRows(columns, rows, group), bytes)).toBe(0);
    });
  });

  test.each(share === 1 ? [20_480, 20_481] : [20_481])('decode from more than one page: %i', (count) => {
    for (const nulls of share === 1 ? (['none', 'some', 'all'] as const) : (['some'] as const)) {
      const rows = rowsOf(count, { nulls, distinct: nulls === 'some' ? 100_000 : 50, wide: false }, seed);
      expectSame(decodeRows(columns, encodeRows(columns, rows, 40_960)), rows);
    }
  });

  test('decode from pages of nulls beside others', () => {
    const rows = rowsOf(42_100, { nulls: 'none', distinct: 50, wide: false }, seed).map((row, i) =>
      row.map((value, c) => (columns[c]!.nullable && i >= 20_000 && i < 42_000 ? null : value)),
    );
    expectSame(decodeRows(columns, encodeRows(columns, rows)), rows);
  });

  test('are the same in DuckDB as by parquet-wasm, with correct bounds', async () => {
    const folder = scratchFolder();
    const duckdb = await (await DuckDBInstance.create(':memory:')).connect();
    const described = async (sql: string) => (await duckdb.runAndReadAll(sql)).getRowsJson();
    let file = 0;
    await checkAsyncProperty([kind, counts, groupRows, fc.nat()], share * 15, async (made, count, group, from) => {
      const rows = rowsOf(count, made, from);
      const [native, reference] = [join(folder, `own-${file}.parquet`), join(folder, `plain-${file++}.parquet`)];
      writeFileSync(native, encodeRows(columns, rows, group));
      writeFileSync(reference, encodeRowsWithArrow(columns, rows, group));
      for (const query of [
        `describe from '%'`,
        `from '%'`,
        `select name, type, repetition_type, converted_type, logical_type from parquet_schema('%') offset 1`,
        `select row_group_id, path_in_schema, stats_null_count, num_values from parquet_metadata('%') order by all`,
      ])
        expect(await described(query.replace('%', native)), query).toEqual(
          await described(query.replace('%', reference)),
        );
      for (const { name } of columns) {
        const query = `select min(${name}), max(${name}), count(${name}) from '%'`;
        // 0 and -0 are equal, so either may be the minimum. JSON has one zero.
        const text = async (path: string) => JSON.stringify(await described(query.replace('%', path)));
        expect(await text(native), query).toBe(await text(reference));
      }
    });
    duckdb.closeSync();
  });

  test('with a null in a required column are rejected', () => {
    expect(() => encodeRows(datasets.conflicts.columns, [['A', day0, null, 0.5, day0]])).toThrow(
      'not nullable has a null',
    );
  });
});

test('candles decode as written in any row groups', () => {
  const draw = drawFrom(seed);
  const length = 150;
  const doubles = (of: number): Float64Array => Float64Array.from({ length }, () => draw.below(of) / of);
  const withNulls = (next: () => number): Float64Array =>
    Float64Array.from({ length }, () => (draw.below(3) === 0 ? Number.NaN : next()));
  const candles = {
    symbols: ['A', 'é', '🚀'],
    offsets: Float64Array.of(0, 1, 60, length),
    t: Float64Array.from({ length }, (_, i) => day0 + i * 3_600_000),
    open: doubles(3),
    high: doubles(1000),
    low: doubles(1e6),
    close: doubles(1),
    covered: doubles(2),
    ticks: Int32Array.from({ length }, () => draw.below(2 ** 31)),
    bid: withNulls(() => draw.below(100) / 100),
    ask: withNulls(() => draw.below(1e6) / 1e6),
    volume: doubles(1e6).fill(Number.NaN),
    trades: withNulls(() => draw.below(2 ** 31)),
    vwap: doubles(7),
  };
  const { symbols, offsets, t, open, high, low, close, ticks, covered, bid, ask, volume, trades, vwap } = candles;
  const columns = [t, open, high, low, close, ticks, covered, bid, ask, volume, trades, vwap];
  const rows = symbols.flatMap((symbol, s) =>
    Array.from({ length: offsets[s + 1]! - offsets[s]! }, (_, i) => {
      const row = offsets[s]! + i;
      return [symbol, ...columns.map((values) => (Number.isNaN(values[row]!) ? null : values[row]!))];
    }),
  );
  for (const group of [1, 59, 60, 61, 122_880]) {
    const bytes = encodeCandles(candles, group);
    expectSame(decodeRows(datasets.candles_1h.columns, bytes), rows);
    expect(
      decodeRows(datasets.candles_1h.columns, encodeRowsWithArrow(datasets.candles_1h.columns, rows, group)),
    ).toEqual(rows);
  }
});
