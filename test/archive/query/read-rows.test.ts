import { mkdtempSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { DuckDBInstance } from '@duckdb/node-api';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import {
  canBeNumber,
  canBeSymbol,
  canBeTime,
  type EpochUnit,
  isLocalTime,
  openRowReader,
  type RowFile,
  type RowReader,
} from '../../../src/archive/query/read-rows.ts';

const folder = mkdtempSync(join(tmpdir(), 'oddslake-rows-'));
let reader: RowReader;

beforeAll(async () => {
  reader = await openRowReader(join(folder, 'scratch'));
});

afterAll(async () => {
  await reader.close();
  rmSync(folder, { recursive: true, force: true });
});

async function parquet(select: string): Promise<RowFile> {
  const path = join(folder, `it's ${Math.floor(performance.now() * 1e6)}.parquet`);
  const instance = await DuckDBInstance.create(':memory:', { threads: '1' });
  const connection = await instance.connect();
  await connection.run("SET TimeZone = 'Asia/Kathmandu'");
  await connection.run(`COPY (${select}) TO '${path.replaceAll("'", "''")}' (FORMAT parquet)`);
  connection.closeSync();
  instance.closeSync();
  return { format: 'parquet', path };
}

/** Every row of a file as [symbol, t, text of t, p]. */
async function rowsOf(file: RowFile, unit: EpochUnit = 'ms'): Promise<unknown[][]> {
  const rows: unknown[][] = [];
  for await (const { symbol, t, tText, values } of reader.readSeries(file, await reader.readColumns(file), unit, {
    numbers: ['p'],
    texts: [],
  }))
    rows.push(...symbol.map((name, i) => [name, t[i], tText[i], values.p![i]]));
  return rows;
}

const typeOf = async (file: RowFile, name: string): Promise<string> =>
  (await reader.readColumns(file)).find((column) => column.name === name)!.type;

/** One row, A, 1, 0.1, the price a decimal256(50, 18); written by PyArrow. */
const wideDecimal = [
  'UEFSMRUAFRYVFiwVAhUAFQYVBhwAAAACAAAAAgEBAAAAQRUAFRwVHCwVAhUAFQYVBhwAAAACAAAAAgEBAAAAAAAAABUAFTYVNiwVAhUAFQYVBh',
  'wAAAACAAAAAgEAAAAAAAAAAAAAAAAAAWNFeF2KAAAVBBlMNQAYBnNjaGVtYRUGABUMJQIYBnN5bWJvbCUATBwAAAAVBCUCGAF0ABUOFSoVAhgB',
  'cCUKFSQVZCxcFSQVZAAAABYCGRwZPCYAHBUMGSUGABkYBnN5bWJvbBUAFgIWPBY8JghJHBUAFQAVAgA8FgIZBhkmAAIAAAAmABwVBBklBgAZGA',
  'F0FQAWAhZCFkImREkcFQAVABUCADwpBhkmAAIAAAAmABwVDhklBgAZGAFwFQAWAhZcFlwmhgFJHBUAFQAVAgA8KQYZJgACAAAAFtoBFgImCBba',
  'AQAoIHBhcnF1ZXQtY3BwLWFycm93IHZlcnNpb24gMjYuMC4xGTwcAAAcAAAcAAAACQEAAFBBUjE=',
];
const noon = Date.UTC(2026, 6, 11, 12);

describe('rows of Parquet', () => {
  test.each<[string, unknown, unknown, boolean]>([
    ["TIMESTAMP '2026-07-11 12:00:00.001'", noon + 1, null, true],
    ["TIMESTAMPTZ '2026-07-11 12:00:00.001+00'", noon + 1, null, false],
    ["TIMESTAMP_NS '2026-07-11 12:00:00.001'", noon + 1, null, true],
    ["TIMESTAMP_NS '2026-07-11 12:00:00.001000001'", noon + 1.5, '2026-07-11 12:00:00.001000001', true],
    ["TIMESTAMP '2026-07-11 12:00:00.00125'", noon + 1.25, '2026-07-11 12:00:00.00125', true],
    ["TIMESTAMP_S '2026-07-11 12:00:00'", noon, null, true],
    ["DATE '2026-07-11'", noon - 43_200_000, null, true],
    [`${noon}::BIGINT`, noon, null, false],
    [`${noon}::HUGEINT`, noon, null, false],
    [`${noon}::DOUBLE`, noon, null, false],
    [`${noon}.5::DECIMAL(20, 1)`, noon + 0.5, `${noon}.5`, false],
    ['9007199254740993::BIGINT', null, '9007199254740993', false],
    ["'2026-07-11 12:00'", '2026-07-11 12:00', null, false],
    ['NULL::BIGINT', null, null, false],
  ])('have the time %s', async (sql, t, text, local) => {
    const file = await parquet(`SELECT 'A' AS symbol, ${sql} AS t, 0.5 AS p`);
    expect(await rowsOf(file)).toEqual([['A', t, text, 0.5]]);
    expect(canBeTime(await typeOf(file, 't'))).toBe(true);
    expect(isLocalTime(await typeOf(file, 't'))).toBe(local);
  });

  test.each<[string, unknown]>([
    ['0.1::DOUBLE + 0.2::DOUBLE', 0.1 + 0.2],
    ['0.1::FLOAT', Math.fround(0.1)],
    ['0.123456789012345678::DECIMAL(18, 18)', Number('0.123456789012345678')],
    ['9999999999999999.99::DECIMAL(18, 2)', Number('9999999999999999.99')],
    ['1::TINYINT', 1],
    ["'NaN'::DOUBLE", Number.NaN],
    ["'0.5 '", '0.5 '],
    ['NULL::DOUBLE', null],
  ])('have the price %s', async (sql, p) => {
    const file = await parquet(`SELECT 'A' AS symbol, 1 AS t, ${sql} AS p`);
    expect(await rowsOf(file)).toEqual([['A', 1, null, p]]);
    expect(canBeNumber(await typeOf(file, 'p'))).toBe(true);
  });

  test.each(['true', '[0.5]', "INTERVAL '1' DAY"])('have no time and no price %s', async (sql) => {
    const type = await typeOf(await parquet(`SELECT 'A' AS symbol, ${sql} AS t, 1 AS p`), 't');
    expect([canBeTime(type), canBeNumber(type)]).toEqual([false, false]);
  });

  test.each([
    ["'A'", true],
    ['1::BIGINT', true],
    ["'a'::ENUM('a', 'b')", true],
    ["'A'::BLOB", false],
    ["{'a': 'x'}", false],
    ["['A']", false],
    ['0.5::DOUBLE', false],
  ])('may have the symbol %s: %s', async (sql, may) => {
    expect(canBeSymbol(await typeOf(await parquet(`SELECT ${sql} AS symbol, 1 AS t, 1 AS p`), 'symbol'))).toBe(may);
  });

  test('have no price with more digits than DuckDB supports: it reads 0.1 as 1677721.6', async () => {
    const path = join(folder, 'wide.parquet');
    writeFileSync(path, Buffer.from(wideDecimal.join(''), 'base64'));
    const type = await typeOf({ format: 'parquet', path }, 'p');
    expect(type).toBe('a decimal of 50 digits');
    expect(canBeNumber(type)).toBe(false);
  });

  test('keep their order and symbols', async () => {
    const symbol = "CASE i % 4 WHEN 0 THEN 'b' WHEN 1 THEN '' WHEN 2 THEN NULL ELSE 'é 😀' END";
    const file = await parquet(`SELECT ${symbol} AS symbol, i AS t, 0.5 AS p FROM range(300000) r(i)`);
    const rows = await rowsOf(file);
    expect(rows).toHaveLength(300_000);
    const wrong = rows.filter(([symbol, t], i) => t !== i || symbol !== ['b', '', null, 'é 😀'][i % 4]);
    expect(wrong).toEqual([]);
    expect(await rowsOf(await parquet("SELECT 'A' AS symbol, 1 AS t, 1 AS p WHERE false"))).toEqual([]);
    expect(await rowsOf(await parquet('SELECT NULL::VARCHAR AS symbol, 1 AS t, 1 AS p'))).toEqual([[null, 1, null, 1]]);
    expect(await rowsOf(await parquet('SELECT 78::BIGINT AS symbol, 1 AS t, 1 AS p'))).toEqual([['78', 1, null, 1]]);
  });
});

describe('rows of CSV', () => {
  const csv = (text: string, names: string[], delimiter = ','): RowFile => {
    const path = join(folder, `${Math.floor(performance.now() * 1e6)}.csv`);
    writeFileSync(path, text);
    return { format: 'csv', path, compression: 'none', delimiter, names };
  };

  test('are unchanged text; lines that do not match the header are reported', async () => {
    const text = '\ufeffsymbol,t,p\r\n"a ""b"",\nc",01,+1e-3\r\nA,1\r\nA,1,2,3\r\n\r\nA,2,\r\n007,3,nan\r\n"A,4,5\r\n';
    const file = csv(text, ['symbol', 't', 'p']);
    expect(await rowsOf(file)).toEqual([
      ['a "b",\nc', '01', null, '+1e-3'],
      ['A', '2', null, null],
      ['007', '3', null, 'nan'],
    ]);
    const bad: string[] = [];
    for await (const line of reader.readBadLines()) bad.push(line.text);
    expect(bad.slice(0, 2)).toEqual(['A,1', 'A,1,2,3']);
    expect(bad.at(-1)).toBe('"A,4,5');
    // Bad lines are those of the last file read.
    await rowsOf(csv('p;t;symbol\n1;2;A\n', ['p', 't', 'symbol'], ';'));
    for await (const line of reader.readBadLines()) expect.fail(line.text);
  });

  test('that are not UTF-8 are reported and skipped', async () => {
    const path = join(folder, 'latin.csv');
    writeFileSync(path, Buffer.from('symbol,t,p\n\xe9,1,2\nA,3,4\n', 'latin1'));
    const file: RowFile = { format: 'csv', path, compression: 'none', delimiter: ',', names: ['symbol', 't', 'p'] };
    expect(await rowsOf(file)).toEqual([['A', '3', null, '4']]);
    let bad = 0;
    for await (const _ of reader.readBadLines()) bad++;
    expect(bad).toBe(1);
  });
});

describe('columns as text', () => {
  const textsOf = async (file: RowFile, options?: Parameters<RowReader['readTexts']>[2]): Promise<unknown[][]> => {
    const rows: unknown[][] = [];
    for await (const texts of reader.readTexts(file, await reader.readColumns(file), options))
      for (let i = 0; i < texts[0]!.length; i++) rows.push(texts.map((column) => column[i]));
    return rows;
  };

  test('have the digits of numbers, times and lists', async () => {
    const file = await parquet(
      "SELECT 1783771200000000000::DOUBLE AS a, 0.1::DOUBLE AS b, TIMESTAMPTZ '2026-07-11 12:00:00.123456+00' AS c, TIMESTAMP_NS '2026-07-11 12:00:00.123456789' AS d, [[0.45, 100]] AS e, [{'price': 0.45, 'size': 7}] AS f, NULL::VARCHAR AS g, 9007199254740993 AS h",
    );
    expect(await textsOf(file)).toEqual([
      [
        '1783771200000000000',
        '0.1',
        '2026-07-11 12:00:00.123456+00',
        '2026-07-11 12:00:00.123456789',
        '[[0.45, 100.00]]',
        "[{'price': 0.45, 'size': 7}]",
        null,
        '9007199254740993',
      ],
    ]);
  });

  test('are filtered, sorted and limited, and counted without the filter', async () => {
    const file = await parquet(
      "SELECT 9 - i AS t, CASE WHEN i % 2 = 0 THEN 'it''s' ELSE 'x' END AS \"the kind\" FROM range(10) r(i)",
    );
    const filtered = { ...file, filters: [{ column: 'the kind', value: "it's" }] };
    expect(await textsOf(filtered)).toEqual(['9', '7', '5', '3', '1'].map((t) => [t, "it's"]));
    expect(await textsOf(filtered, { sortedBy: ['t'], limit: 2 })).toEqual([
      ['1', "it's"],
      ['3', "it's"],
    ]);
    const renamed = { ...filtered, renames: [['kind', 'the kind']] as const };
    expect(await textsOf(renamed, { limit: 1 })).toEqual([['9', "it's"]]);
    expect(await reader.countParquetRows(filtered)).toBe(10);
  });
});
