import { describe, expect, test } from 'vitest';
import { sha256 } from '../../src/archive/disk/file-system.ts';
import { type Column, datasets } from '../../src/archive/format/datasets.ts';
import { magic } from '../../src/archive/parquet/metadata.ts';
import {
  createFileRecord,
  createRowKeyReader,
  createSymbolKeyReader,
  readFileKeys,
} from '../../src/archive/parquet/row-group-index.ts';
import { encodeRows } from '../../src/archive/parquet/rows.ts';
import { encodeTicks } from '../../src/archive/parquet/ticks-file.ts';

// Footers are written by hand, for files that our writer does not produce.

interface Chunk {
  readonly data?: number;
  readonly dictionary?: number;
  readonly size?: number;
}

const varint = (n: number): number[] => (n < 128 ? [n] : [(n % 128) + 128, ...varint(Math.floor(n / 128))]);
const i32 = (delta: number, value: number): number[] => [(delta << 4) | 5, ...varint(2 * value)];
const i64 = (delta: number, value: number | undefined): number[] =>
  value === undefined ? [] : [(delta << 4) | 6, ...varint(2 * value)];
const list = (delta: number, structs: readonly number[][]): number[] => [
  (delta << 4) | 9,
  (structs.length << 4) | 12,
  ...structs.flat(),
];
/** An empty list of numbers. */
const noNumbers = (delta: number): number[] => [(delta << 4) | 9, 5];
/** An empty list of strings. */
const noTexts = (delta: number): number[] => [(delta << 4) | 9, 8];
/** Fields 1 to 7, 9 and 11 of a column's metadata, which is field 3 of its chunk. */
const chunkOf = ({ size, data, dictionary }: Chunk): number[] => [
  ...i64(2, 0),
  0x1c,
  ...i32(1, 0),
  ...noNumbers(1),
  ...noTexts(1),
  ...i32(1, 6),
  ...i64(1, 0),
  ...i64(1, 0),
  ...i64(1, size),
  ...i64(size === undefined ? 3 : 2, data),
  ...i64(2, dictionary),
  0,
  0,
];
const groupOf = (rows: number | undefined, chunks: readonly Chunk[]): number[] => [
  ...list(1, chunks.map(chunkOf)),
  ...i64(1, 0),
  ...i64(1, rows),
  0,
];
/** Fields 1 to 4 of a footer. */
const footerOf = (groups: readonly number[][]): number[] => [
  ...i32(1, 1),
  ...list(1, []),
  ...i64(1, 0),
  ...list(1, groups),
  0,
];

function fileOf(bodyBytes: number, footer: readonly number[]): Uint8Array {
  const length = Buffer.alloc(4);
  length.writeUInt32LE(footer.length);
  return Buffer.concat([magic, Buffer.alloc(bodyBytes, 7), Uint8Array.from(footer), length, magic]);
}

const keyAt = (row: number) => [row];
const recorded = (bodyBytes: number, groups: readonly number[][]) =>
  createFileRecord('path', fileOf(bodyBytes, footerOf(groups)), 'hash', keyAt);

describe('the record of a file', () => {
  test('has row groups from the first byte of any column to the last', () => {
    const bytes = fileOf(
      30,
      footerOf([
        groupOf(5, [
          { data: 12, size: 3 },
          { data: 6, dictionary: 4, size: 8 },
        ]),
        groupOf(1, [{ data: 15, dictionary: 20, size: 19 }]),
      ]),
    );
    const { groups, footer, ...rest } = createFileRecord('path', bytes, 'hash', keyAt);
    expect(rest).toEqual({ path: 'path', sha256: 'hash' });
    expect(groups).toEqual([
      { start: 4, end: 15, rows: 5, sha256: sha256(bytes.subarray(4, 15)), first: [0], last: [4] },
      { start: 15, end: 34, rows: 1, sha256: sha256(bytes.subarray(15, 34)), first: [5], last: [5] },
    ]);
    expect([...footer]).toEqual([...bytes.subarray(34)]);
  });

  test('works on a view of other bytes', () => {
    const bytes = encodeTicks({
      symbols: ['A'],
      offsets: Float64Array.of(0, 3),
      t: Float64Array.of(1, 2, 3),
      p: new Float64Array(3),
    });
    const within = Buffer.concat([Buffer.alloc(11, 9), bytes, Buffer.alloc(5, 9)]).subarray(11, 11 + bytes.length);
    expect(createFileRecord('path', within, 'hash', keyAt)).toEqual({
      ...createFileRecord('path', bytes, 'hash', keyAt),
      footer: expect.anything(),
    });
    expect(readFileKeys('ticks', within)(2)).toEqual(['A', 3]);
  });

  test.each([
    ['before the first', [groupOf(1, [{ data: 5, size: 5 }])]],
    ['between two', [groupOf(1, [{ data: 4, size: 5 }]), groupOf(1, [{ data: 10, size: 5 }])]],
    ['shared by two', [groupOf(1, [{ data: 4, size: 5 }]), groupOf(1, [{ data: 8, size: 5 }])]],
  ])('is rejected if there are bytes %s row groups', (_, groups) => {
    expect(() => recorded(20, groups)).toThrow('the row groups of path are not adjacent');
  });

  test('is rejected if the footer has missing fields', () => {
    const start = [...i32(1, 1), ...list(1, []), ...i64(1, 0)];
    const rejects = (footer: readonly number[], field: string) =>
      expect(() => createFileRecord('path', fileOf(9, footer), 'hash', keyAt)).toThrow(
        `the field ${field} is missing in a header`,
      );
    rejects([0], 'version');
    rejects([...start, 0], 'row_groups');
    rejects([...start, 0x16, 2, 0], 'row_groups');
    rejects(footerOf([[...i64(3, 5), 0]]), 'columns');
    rejects(footerOf([groupOf(undefined, [{ data: 4, size: 9 }])]), 'num_rows');
    rejects(footerOf([groupOf(1, [{ size: 9 }])]), 'data_page_offset');
    rejects(footerOf([groupOf(1, [{ data: 4 }])]), 'total_compressed_size');
  });
});

describe('sort keys of rows', () => {
  test('are the sort columns of the dataset, from rows as from the file', () => {
    const rows = [
      ['m', null, null, [], null, null, null, null, null, null, null, 3, 4, null],
      ['m', 'A', null, [], null, null, null, null, null, null, null, 5, 6, null],
    ];
    const expected = [
      ['m', null, 3],
      ['m', 'A', 5],
    ];
    expect([0, 1].map(createRowKeyReader('markets', rows))).toEqual(expected);
    expect([0, 1].map(readFileKeys('markets', encodeRows(datasets.markets.columns, rows)))).toEqual(expected);
    const without: Column[] = datasets.conflicts.columns.filter(({ name }) => name !== 'seen_at');
    expect(() => readFileKeys('conflicts', encodeRows(without, [['A', 1, 2, 3, 0]]))).toThrow(
      'column seen_at is missing',
    );
  });

  test('of rows grouped by symbol name the symbol of each', () => {
    const sizes = [3, 1, 4, 1, 5];
    const offsets = Float64Array.from([0, 3, 4, 8, 9, 14]);
    const at = createSymbolKeyReader({ symbols: ['A', 'B', 'C', 'D', 'E'], offsets }, (row) => [row * 2]);
    const symbols = sizes.flatMap((size, i) => Array<string>(size).fill('ABCDE'[i]!));
    expect(symbols.map((_, row) => at(row))).toEqual(symbols.map((symbol, row) => [symbol, row * 2]));
  });
});
