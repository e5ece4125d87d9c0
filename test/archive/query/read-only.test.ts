import { createHash } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { Query } from '../../../src/archive/query/query.ts';
import { UsageError } from '../../../src/base/errors.ts';
import { archiveFolder, collector, open } from './files.ts';

const folder = archiveFolder('read-only');
let query: Query;
let path: string;
let before: string;

const state = (): string =>
  JSON.stringify([
    readdirSync(folder.root, { recursive: true })
      .filter((name) => !String(name).startsWith('.oddslake'))
      .sort(),
    createHash('sha256').update(readFileSync(path)).digest('hex'),
  ]);

beforeAll(async () => {
  path = folder.ticks('2026-07-01', [['A', '2026-07-01T00:00:00Z', 0.5]]);
  query = await open({ ticks: [path] }, folder.scratch);
  before = state();
});

afterAll(async () => {
  await query.close();
  folder.remove();
});

describe('accepts read-only statements:', () => {
  test.each([
    'SELECT * FROM ticks',
    'select 1;',
    'WITH a AS (SELECT p FROM ticks) SELECT * FROM a -- a comment; with a semicolon',
    'FROM ticks',
    'TABLE ticks',
    'VALUES (1), (2)',
    'DESCRIBE ticks',
    'SHOW TABLES',
    "FROM query('SELECT 1 AS enable_logging')",
    'SUMMARIZE ticks',
    "PIVOT ticks ON symbol IN ('A') USING sum(p)",
    'EXPLAIN SELECT * FROM ticks',
    'explain analyze\nfrom ticks;',
  ])('%s', async (sql) => {
    expect((await query.readTable(sql, 5)).rows.length).toBeGreaterThan(0);
  });
});

describe('rejects other statements as usage errors, without side effects:', () => {
  const refusals = (target: string) => [
    `COPY (SELECT 1) TO '${target}'`,
    `COPY ticks TO '${target}' (FORMAT parquet)`,
    `EXPLAIN ANALYZE COPY (SELECT 1) TO '${target}'`,
    `explain /* x */ analyze copy (select 1) to '${target}'`,
    `EXPLAIN /* SELECT 1 -- */ ANALYZE COPY (SELECT 1) TO '${target}'`,
    `EXPLAIN (ANALYZE) COPY (SELECT 1) TO '${target}'`,
    `WITH x AS (COPY (SELECT 1) TO '${target}') SELECT * FROM x`,
    `WITH x AS (SELECT 1) INSERT INTO ticks FROM x`,
    `SELECT 1) TO '${target}'; COPY (SELECT 2`,
    `SELECT * FROM query('COPY (SELECT 1) TO ''${target}''')`,
    `SELECT 1; COPY (SELECT 1) TO '${target}'`,
    `ATTACH '${target}' AS other`,
    `EXPORT DATABASE '${target}'`,
    `IMPORT DATABASE '${target}'`,
    `SELECT * FROM enable_logging('QueryLog', storage := 'file', storage_path := '${target}')`,
    `FROM query('FROM enable' || '_logging(storage := ''file'', storage_path := ''${target}'')')`,
    `EXPLAIN ANALYZE FROM enable_logging(storage := 'file', storage_path := '${target}')`,
    `SELECT (SELECT count(*) FROM enable_profiling(save_location := '${target}.txt')) FROM ticks`,
  ];
  test.each([
    'INSERT INTO ticks VALUES (1)',
    'CREATE TABLE x AS SELECT 1',
    'CREATE MACRO x() AS 1',
    'DROP VIEW ticks',
    "SET TimeZone = 'Asia/Tokyo'",
    'RESET lock_configuration',
    'SET enable_external_access = true',
    'PRAGMA enable_profiling',
    "CALL enable_logging('QueryLog')",
    'FROM force_checkpoint()',
    "FROM json_execute_serialized_sql(json_serialize_sql('FROM disable_logging()'))",
    'BEGIN',
    'INSTALL httpfs',
    'LOAD httpfs',
    'SELECT 1; SELECT 2',
    'PIVOT ticks ON symbol USING sum(p)',
    '',
    ' -- nothing',
    ';',
    'SELEC 1',
    'SELECT nope FROM ticks',
    'SELECT * FROM nope',
    'SELECT CAST(symbol AS INTEGER) FROM ticks',
    'SELECT $1',
  ])('%s', async (sql) => {
    await expect(query.readTable(sql, 5)).rejects.toThrow(UsageError);
    await expect(query.write(sql, 'parquet', collector().out)).rejects.toThrow(UsageError);
    expect(state()).toBe(before);
  });

  test.each([
    'INSERT INTO ticks VALUES (1)',
    'WITH x AS (SELECT 1) DELETE FROM ticks',
    'UPDATE ticks SET p = 1',
    'BEGIN',
  ])('says that sql is read-only: %s', async (sql) => {
    await expect(query.readTable(sql, 5)).rejects.toThrow(/^sql is read-only: /);
  });

  test('any form of writing to a new or a published file', async () => {
    for (const target of [join(folder.root, 'new'), path]) {
      for (const sql of refusals(target)) {
        for (const format of ['csv', 'parquet'] as const) {
          await expect(query.write(sql, format, collector().out), sql).rejects.toThrow(UsageError);
          expect(state(), sql).toBe(before);
        }
      }
    }
  });
});

describe('cannot read other files:', () => {
  test.each([
    "FROM read_text('/etc/passwd')",
    "FROM read_csv('/etc/passwd')",
    "FROM read_blob('/etc/passwd')",
    "FROM '/etc/passwd'",
    "FROM glob('/etc/*')",
    "FROM sniff_csv('/etc/passwd')",
    "FROM read_parquet('/proc/self/environ')",
    "FROM query('FROM read_text(''/etc/passwd'')')",
    "SELECT getenv('HOME')",
  ])('%s', async (sql) => {
    await expect(query.readRows(sql)).rejects.toThrow(UsageError);
  });

  test('even next to the published ones', async () => {
    const neighbour = folder.put('manifest.json', Buffer.from('{}'));
    await expect(query.readRows(`FROM read_text('${neighbour}')`)).rejects.toThrow('Only the datasets can be read');
    await expect(query.readRows(`FROM read_text('${path}/../../../manifest.json')`)).rejects.toThrow(UsageError);
  });
});

test("reports invalid SQL with DuckDB's message", async () => {
  await expect(query.readRows('SELECT pp FROM ticks')).rejects.toThrow(/"pp" not found[\s\S]*LINE 1/);
  await expect(query.readRows('SELEC 1')).rejects.toThrow(/syntax error at or near "SELEC"/);
});

test('a statement leaves no settings for the next one', async () => {
  await query.readRows('SELECT setseed(0.5)');
  expect(await query.readRows("SELECT current_setting('TimeZone') AS zone")).toEqual([{ zone: 'UTC' }]);
});
