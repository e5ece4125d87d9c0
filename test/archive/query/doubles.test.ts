import { type DuckDBDoubleVector, DuckDBInstance } from '@duckdb/node-api';
import { expect, onTestFinished, test } from 'vitest';
import { openQuery } from '../../../src/archive/query/query.ts';
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

test('gives columns of doubles, chunk after chunk', async () => {
  const rows = await doubles('SELECT i::DOUBLE, (i / 3)::DOUBLE FROM range(5000) r(i)');
  expect(rows).toEqual(Array.from({ length: 5000 }, (_, i) => [i, i / 3]));
  expect(await doubles('SELECT 1::DOUBLE WHERE false')).toEqual([]);
});

test('what might have been null and is not, is given as well', async () => {
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

test('a null, and a column of something else, is a TypeError', async () => {
  await expect(doubles('SELECT nullif(i, 2999)::DOUBLE FROM range(3000) r(i)')).rejects.toThrow('holds a null');
  await expect(doubles('SELECT i::INTEGER FROM range(3) r(i)')).rejects.toThrow('holds no doubles');
});

test('the values that are had at once are those that the library gives one by one', async () => {
  const instance = await DuckDBInstance.create(':memory:');
  const connection = await instance.connect();
  const result = await connection.stream('SELECT sin(i) FROM range(2500) r(i)');
  let seen = 0;
  for (let chunk = await result.fetchChunk(); chunk !== null && chunk.rowCount > 0; chunk = await result.fetchChunk()) {
    const vector = chunk.getColumnVector(0) as DuckDBDoubleVector;
    // Where the library keeps them elsewhere one day, this says so: all would be right still, and slow.
    expect(readVectorItems(vector)).not.toBeNull();
    expect(readVectorItems(vector)).toEqual(copyVectorItems(vector, ''));
    seen += chunk.rowCount;
  }
  expect(seen).toBe(2500);
  connection.closeSync();
  instance.closeSync();
});
