import { type DuckDBConnection, DuckDBInstance, DuckDBVarCharVector } from '@duckdb/node-api';
import fc from 'fast-check';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readNumberVector, readTextVector } from '../../../src/archive/query/read-vectors.ts';
import { checkAsyncProperty } from '../../harness/properties.ts';
import { share } from '../../harness/share.ts';

// Values of DuckDB's vectors, tested against the library's own method, which reads them one by one.

let instance: DuckDBInstance;
let connection: DuckDBConnection;

beforeAll(async () => {
  instance = await DuckDBInstance.create(':memory:', { threads: '1' });
  connection = await instance.connect();
});

afterAll(() => {
  connection.closeSync();
  instance.closeSync();
});

/** Reads the only column of a query in both ways, and expects the same values. Returns them. */
async function readBoth(sql: string): Promise<unknown[]> {
  const all: unknown[] = [];
  const result = await connection.stream(sql);
  for (let chunk = await result.fetchChunk(); chunk !== null && chunk.rowCount > 0; chunk = await result.fetchChunk()) {
    const vector = chunk.getColumnVector(0);
    const values = vector instanceof DuckDBVarCharVector ? readTextVector(vector) : readNumberVector(vector);
    expect(values).toEqual(Array.from({ length: vector.itemCount }, (_, i) => vector.getItem(i)));
    for (const value of values) all.push(value);
  }
  return all;
}

const quote = (text: string | null): string => (text === null ? 'NULL' : `'${text.replaceAll("'", "''")}'`);
const readTexts = (texts: readonly (string | null)[]): Promise<unknown[]> =>
  readBoth(`SELECT unnest([${texts.map(quote).join(', ')}]::VARCHAR[])`);

const anyText = fc.oneof(
  fc.constant(null),
  fc.constantFrom('', 'buy', 'sell', 'twelve bytes', 'thirteen byte', 'x'.repeat(300), 'é'.repeat(7), '😀 '.repeat(9)),
  fc.string({ unit: fc.integer({ min: 32, max: 126 }).map((code) => String.fromCharCode(code)), maxLength: 40 }),
);

describe('the texts of a vector', () => {
  test('are those that the library reads, whatever their lengths', async () => {
    await checkAsyncProperty([fc.array(anyText, { maxLength: 100 })], share * 100, async (texts) => {
      expect(await readTexts(texts)).toEqual(texts);
    });
  });

  test.each([
    ['long', `'a text of more than 12 bytes ' || i`],
    ['short', `'t' || i`],
    ['missing', `NULL::VARCHAR`],
    [
      'sometimes missing',
      `CASE WHEN i % 3 = 0 THEN 'a text of more than 12 bytes ' || i WHEN i % 3 = 1 THEN 'few' END`,
    ],
    ['not ASCII at the end', `'a text of more than 12 bytes ' || CASE WHEN i % 1000 = 999 THEN 'é' ELSE 'e' END`],
    ['longer than a run', `repeat('0123456789', 3000 * (i % 5)::INTEGER)`],
    ['with a byte order mark', `chr(65279) || 'a text of more than 12 bytes'`],
    ['from a dictionary', `['a text of more than 12 bytes', 'another text of that length', 'b'][i % 3 + 1]`],
  ])('are the same in several chunks: %s', async (_, sql) => {
    expect(await readBoth(`SELECT ${sql} FROM range(5000) r(i)`)).toHaveLength(5000);
  });

  test('are read one by one if the vector is not what is expected', () => {
    const items = ['a', null, 'b'];
    const vector = { itemCount: items.length, getItem: (i: number) => items[i]! };
    expect(readTextVector(vector as unknown as DuckDBVarCharVector)).toEqual(items);
  });
});

describe('the numbers of a vector', () => {
  test.each([
    ['doubles', 'i / 7'],
    ['doubles of which some are missing', `CASE WHEN i % 3 > 0 THEN i / 7 END`],
    ['no doubles', 'NULL::DOUBLE'],
    ['codes', '(i % 250)::UTINYINT'],
    ['more codes', 'CASE WHEN i % 9 > 0 THEN i::USMALLINT END'],
    ['many codes', 'i::UINTEGER'],
  ])('are those that the library reads: %s', async (_, sql) => {
    expect(await readBoth(`SELECT ${sql} FROM range(5000) r(i)`)).toHaveLength(5000);
  });

  test('are read one by one if the vector is not what is expected', () => {
    const items = [1, null, 0.5];
    const vector = { itemCount: items.length, getItem: (i: number) => items[i]! };
    expect(readNumberVector(vector as never)).toEqual(items);
  });
});
