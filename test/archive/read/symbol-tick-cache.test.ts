import { expect, test } from 'vitest';
import { datasets } from '../../../src/archive/format/datasets.ts';
import type { PublishedFile } from '../../../src/archive/format/manifest.ts';
import { encodeRows } from '../../../src/archive/parquet/rows.ts';
import { encodeTicks, indexTickFile } from '../../../src/archive/parquet/ticks-file.ts';
import { openSymbolTickCache } from '../../../src/archive/read/read-ticks.ts';
import { DamageError } from '../../../src/base/errors.ts';
import { day0 } from '../scratch.ts';

const rows = [
  ['A', day0, 0.5],
  ['B', day0, 0.25],
  ['B', day0 + 1, 0.75],
];
/** The same as a part. */
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
  generation: 1,
};

/** The symbols of a file of these bytes, and how often they were asked for. */
function over(bytes: Uint8Array, bytesMax: number) {
  const asked = { times: 0 };
  const files = {
    readBytes() {
      asked.times++;
      return bytes;
    },
  };
  const parts = openSymbolTickCache(files as unknown as Parameters<typeof openSymbolTickCache>[0], bytesMax);
  const pairs = (symbol: string) => {
    const { t, p } = parts.readTicks(file, symbol);
    return [...t].map((time, i) => [time - day0, p[i]]);
  };
  return { asked, pairs };
}

test('what was read stays in memory, and the index of a file tells which symbols it lacks', () => {
  const { asked, pairs } = over(published, 1 << 20);
  for (let round = 0; round < 2; round++) {
    expect(pairs('B')).toEqual([
      [0, 0.25],
      [1, 0.75],
    ]);
    expect(pairs('C')).toEqual([]);
  }
  expect(asked.times).toBe(1);
});

test('without memory each read begins with the file, to the same result', () => {
  const { asked, pairs } = over(published, 0);
  for (let round = 0; round < 2; round++) expect(pairs('A')).toEqual([[0, 0.5]]);
  expect(asked.times).toBe(2);
});

test('a file that is stored in another way than our writer stores ticks is read all the same', () => {
  const bytes = encodeRows(
    datasets.ticks.map((column) => ({ ...column, nullable: true })),
    rows,
  );
  expect(() => indexTickFile(bytes)).toThrow();
  const { pairs } = over(bytes, 1 << 20);
  expect(pairs('B')).toEqual([
    [0, 0.25],
    [1, 0.75],
  ]);
  expect(pairs('C')).toEqual([]);
});

test('a file that nothing can read is damage', () => {
  const { pairs } = over(Buffer.from('no Parquet at all'), 1 << 20);
  expect(() => pairs('A')).toThrow(DamageError);
});
