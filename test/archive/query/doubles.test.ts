import { type DuckDBDoubleVector, DuckDBInstance } from '@duckdb/node-api';
import { expect, onTestFinished, test } from 'vitest';
import { openQuery } from '../../../src/archive/query/open-query.ts';
import { copyVectorItems, readVectorItems } from '../../../src/archive/query/results.ts';
import { scratchFolder } from '../scratch.ts';

async function doubles(sql: string): Promise<number[][]> {
  const query = await openQuery([], { threads: 1, memoryBytesMax: 2 ** 28, scratch: scratchFolder() });
  onTestFinished(() => query.close());
  const rows: number[][] = [];
  for await (const columns of query.readDoubles(sql))
    for (const row of columns[0]!.keys()) rows.push(columns.map((column) => column[row]!));
  return rows;
}

test('streams columns of doubles in chunks', async () => {
  const rows = await doubles('SELECT i::DOUBLE, (i / 3)::DOUBLE FROM range(5000) r(i)');
  expect(rows).toEqual(Array.from({ length: 5000 }, (_, i) => [i, i / 3]));
  expect(await doubles('SELECT 1::DOUBLE WHERE false')).toEqual([]);
});

test('accepts nullable columns without NULLs', async () => {
  expect(await doubles('SELECT coalesce(nullif(i, 3), 7)::DOUBLE FROM range(5) r(i)')).toEqual([
    [0],
    [1],
    [2],
    [7],
    [4],
  ]);
  const rows = await doubles(
    'SELECT x FROM (SELECT nullif(i, 3)::DOUBLE AS x FROM range(3000) r(i)) WHERE x IS NOT NULL',
  );
  expect(rows.length).toBe(2999);
  expect(rows[3]).toEqual([4]);
});

test('throws a TypeError for a NULL and for another column type', async () => {
  await expect(doubles('SELECT nullif(i, 2999)::DOUBLE FROM range(3000) r(i)')).rejects.toThrow(
    'a column of doubles with a NULL',
  );
  await expect(doubles('SELECT i::INTEGER FROM range(3) r(i)')).rejects.toThrow('not of type DOUBLE');
});

test('reads the same values at once as one by one', async () => {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  const result = await connection.stream('SELECT sin(i) FROM range(2500) r(i)');
  let seen = 0;
  for (let chunk = await result.fetchChunk(); chunk !== null && chunk.rowCount > 0; chunk = await result.fetchChunk()) {
    const vector = chunk.getColumnVector(0) as DuckDBDoubleVector;
    // Fails if the library changes its internals: results would still be right, but slow.
    expect(readVectorItems(vector)).not.toBeNull();
    expect(readVectorItems(vector)).toEqual(copyVectorItems(vector, ''));
    seen += chunk.rowCount;
  }
  expect(seen).toBe(2500);
  connection.closeSync();
  instance.closeSync();
});
