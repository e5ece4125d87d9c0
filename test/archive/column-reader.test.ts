import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type Column, type ColumnType, datasets } from '../../src/archive/format/datasets.ts';
import { decodeFlatRows } from '../../src/archive/parquet/column-reader.ts';
import {
  type CellValue,
  decodeRows,
  decodeRowsWithArrow,
  encodeRows,
  encodeRowsWithArrow,
} from '../../src/archive/parquet/rows.ts';
import { drawFrom } from '../faults/seeds.ts';
import { expectSame } from '../harness/expect-same.ts';
import { checkProperty, printSeed } from '../harness/properties.ts';
import { share } from '../harness/share.ts';
import { day0 } from './scratch.ts';

// Rows decoded from pages, tested against Arrow and parquet-wasm.

const seed = printSeed('row-pages');

const types = ['string', 'timestamp', 'double', 'int32', 'int64', 'boolean'] as const satisfies readonly ColumnType[];
const columns: readonly Column[] = types.flatMap((type) =>
  [false, true].map((nullable) => ({ name: `${nullable ? 'n' : 'a'}_${type}`, type, nullable, meaning: '' })),
);

function rowsOf(count: number, distinct: number, wide: boolean, from: number): CellValue[][] {
  const draw = drawFrom(from);
  // Of each nullable column none, some or all values are missing.
  const shares = columns.map(({ nullable }) => (nullable ? draw.one([0, 0.3, 0.99, 1]) : 0));
  const drawnOf = (type: ColumnType): CellValue => {
    const n = draw.below(distinct);
    if (type === 'boolean') return n % 3 === 0;
    if (type === 'string') return ['', '🚀', 'é', `${n}`, 'A.B C?', 'x'.repeat(n % 300)][n % 6]!;
    if (type === 'timestamp') return wide ? [Date.UTC(2000, 0), Date.UTC(2100, 0) - 1, 0][n % 3]! : day0 + n * 60_000;
    if (type === 'int64') return wide ? [2 ** 53 - 1, -(2 ** 53) + 1, n][n % 3]! : n;
    if (type === 'int32') return wide ? [2 ** 31 - 1, -(2 ** 31), n][n % 3]! : n;
    return wide ? [-0, 0, 1e300, Number.NEGATIVE_INFINITY, n / 7][n % 5]! : n / 1000;
  };
  return Array.from({ length: count }, () =>
    columns.map(({ type }, c) => (draw() < shares[c]! ? null : drawnOf(type))),
  );
}

const arbitraryRows = fc.record({
  count: fc.constantFrom(0, 1, 7, 8, 9, 100, 101, 1000),
  distinct: fc.constantFrom(1, 2, 9, 300, 100_000),
  wide: fc.boolean(),
  group: fc.constantFrom(1, 8, 50, 1000),
  from: fc.nat(),
});

describe('rows without lists', () => {
  test('decode as written, completely or by row groups, some columns or all', () => {
    checkProperty([arbitraryRows, fc.subarray([...columns], { minLength: 1 })], share * 20, (of, some) => {
      const rows = rowsOf(of.count, of.distinct, of.wide, of.from);
      const bytes = encodeRows(columns, rows, of.group);
      expectSame(decodeFlatRows(columns, bytes), rows);
      expectSame(decodeFlatRows(some, bytes), decodeRowsWithArrow(some, bytes));
      const last = Math.ceil(of.count / of.group) - 1;
      for (const groups of [[], ...(last < 0 ? [] : [[0], [last], [0, last]])])
        expectSame(decodeFlatRows(columns, bytes, groups), decodeRowsWithArrow(columns, bytes, groups));
    });
  });

  test('from parquet-wasm decode to the same values', () => {
    checkProperty([arbitraryRows], share * 20, (of) => {
      const rows = rowsOf(of.count, of.distinct, of.wide, of.from);
      expectSame(decodeRows(columns, encodeRowsWithArrow(columns, rows, of.group)), rows);
    });
  });

  test('decode from more than one page', () => {
    for (const distinct of [50, 100_000]) {
      const rows = rowsOf(25_000, distinct, false, seed);
      expectSame(decodeFlatRows(columns, encodeRows(columns, rows, 40_960)), rows);
    }
  });
});

describe('files with other columns', () => {
  const rows = rowsOf(20, 9, false, seed);
  const bytes = encodeRows(columns, rows, 50);
  const withColumn = (change: Partial<Column>): Column[] =>
    columns.map((column, i) => (i === 0 ? { ...column, ...change } : column));

  test('have columns of other types or too few, which is an error', () => {
    expect(() => decodeRows(withColumn({ type: 'double' }), bytes)).toThrow('another physical type');
    expect(() => decodeRows(withColumn({ name: 'b' }), bytes)).toThrow('column b is missing');
    expect(() => decodeRows(columns, encodeRows(withColumn({ nullable: true }), rows, 50))).toThrow('is nullable');
    expect(() => decodeRows(withColumn({ name: 'b', nullable: true }), bytes)).toThrow('column b is missing');
  });

  test('are truncated, which is an error', () => {
    for (const end of [0, 3, 8, bytes.length - 20, bytes.length - 1]) {
      expect(() => decodeRows(columns, bytes.subarray(0, end))).toThrow();
    }
  });
});

test('a day of coverage needs no Arrow', () => {
  const rows: CellValue[][] = Array.from({ length: 3000 }, (_, i) => [
    'ticks',
    `S${String(i).padStart(5, '0')}`,
    day0,
    day0 + 86_400_000,
    i % 2000,
    day0 + 90_000_000 + i,
    'poll',
    i % 2 === 0 ? 'confirmed' : 'inferred',
    null,
  ]);
  expectSame(decodeFlatRows(datasets.coverage.columns, encodeRows(datasets.coverage.columns, rows)), rows);
});
