import { expect, test } from 'vitest';
import { datasets } from '../../../src/archive/format/datasets.ts';
import type { PublishedFile } from '../../../src/archive/format/manifest.ts';
import { encodeRows } from '../../../src/archive/parquet/rows.ts';
import { encodeTicks } from '../../../src/archive/parquet/ticks-file.ts';
import { openSymbolRowReader } from '../../../src/archive/read/symbol-row-reader.ts';
import { DamageError } from '../../../src/base/errors.ts';
import { day0 } from '../scratch.ts';

const rows = [
  ['A', day0, 0.5],
  ['B', day0, 0.25],
  ['B', day0 + 1, 0.75],
];
const nullableColumns = datasets.ticks.columns.map((column) => ({ ...column, nullable: true }));
/** The rows as a part file. */
const published = encodeTicks({
  symbols: ['A', 'B'],
  offsets: Float64Array.of(0, 1, 3),
  t: Float64Array.from(rows, ([, t]) => t as number),
  p: Float64Array.from(rows, ([, , p]) => p as number),
});
const file: PublishedFile = {
  path: 'ticks/date=2026-06-01/part-00.parquet',
  date: '2026-06-01',
  rows: 3,
  bytes: 1,
  sha256: 'a',
  t_min: day0,
  t_max: day0 + 1,
  symbols: 2,
  symbol_from: 'A',
  symbol_to: 'Z',
  generation: 1,
};

/** Opens a reader of a file with these bytes, and counts how often they are read. */
function over(bytes: Uint8Array, bytesMax: number) {
  const requested = { times: 0 };
  const reader = openSymbolRowReader(bytesMax);
  const allRows = { from: 0, to: Number.POSITIVE_INFINITY, rowsMax: Number.POSITIVE_INFINITY };
  const pairs = (symbol: string) => {
    const { count, columns } = reader.readRowsAtOnce({ dataset: 'ticks', file, key: symbol, ...allRows }, () => {
      requested.times++;
      return bytes;
    });
    return Array.from({ length: count }, (_, i) => [(columns.t![i] as number) - day0, columns.p![i]]);
  };
  return { requested, pairs };
}

test('caches ticks, and finds missing symbols by the index of the file', () => {
  const { requested: reads, pairs } = over(published, 1 << 20);
  for (let round = 0; round < 2; round++) {
    expect(pairs('B')).toEqual([
      [0, 0.25],
      [1, 0.75],
    ]);
    expect(pairs('C')).toEqual([]);
  }
  expect(reads.times).toBe(1);
});

test('reads several symbols of one page', () => {
  const { pairs } = over(published, 1 << 20);
  expect(['A', 'B', 'A'].map(pairs)).toEqual([
    [[0, 0.5]],
    [
      [0, 0.25],
      [1, 0.75],
    ],
    [[0, 0.5]],
  ]);
});

test('reads the file each time without a cache, with the same result', () => {
  const { requested: reads, pairs } = over(published, 0);
  for (let round = 0; round < 2; round++) expect(pairs('A')).toEqual([[0, 0.5]]);
  expect(reads.times).toBe(2);
});

test.each([
  ['another layout than our writer’s', encodeRows(nullableColumns, rows)],
  ['no Parquet at all', Buffer.from('no Parquet at all')],
])('reports a file of %s as damage, and names it', (_, bytes) => {
  const { pairs } = over(bytes, 1 << 20);
  for (const symbol of ['A', 'C']) {
    expect(() => pairs(symbol)).toThrow(DamageError);
    expect(() => pairs(symbol)).toThrow(`${file.path} cannot be decoded`);
  }
});
