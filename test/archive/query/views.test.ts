import { execFileSync } from 'node:child_process';
import { readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Query } from '../../../src/archive/query/query.ts';
import { DamageError, OddslakeError } from '../../../src/base/errors.ts';
import { addDays } from '../../../src/base/time.ts';
import { archiveFolder, open } from './files.ts';

const folder = archiveFolder();
let query: Query;

beforeAll(async () => {
  const ticks = [
    folder.ticks('2026-07-01', [
      ['A.B-😀', '2026-07-01T00:00:00Z', 0.25],
      ['A.B-😀', '2026-07-01T23:59:59.999Z', 0.5],
    ]),
    folder.ticks('2026-07-02', [['KX', '2026-07-02T12:00:00Z', 0.75]]),
    folder.ticks('2026-07-03', [['KX', '2026-07-03T12:00:00Z', 1]]),
  ];
  const at = Date.parse('2026-07-01T10:00:00Z');
  const market = ['m1', 'KX', null, ['a', 'b "c"'], null, 0.5, true, 'Q, "quoted"?', null, null, null, at, at, '{}'];
  const markets = [folder.rows('markets', 'markets/date=2026-07-01/part-00.parquet', [market])];
  const symbol = ['KX', 'm1', null, null, null, true, null, null, null, null, at, at, null, null, 5_000_000_000];
  const symbols = [folder.rows('symbols', 'symbols/part-00.parquet', [symbol])];
  query = await open({ ticks, markets, symbols }, folder.scratch);
});

afterAll(async () => {
  await query.close();
  folder.remove();
});

test('each dataset is a view with its columns, and a date column if it has days', async () => {
  const types = async (dataset: string) =>
    (await query.readRows(`DESCRIBE ${dataset}`)).map((row) => `${row.column_name} ${row.column_type}`);
  expect(await types('ticks')).toEqual(['symbol VARCHAR', 't TIMESTAMP WITH TIME ZONE', 'p DOUBLE', 'date DATE']);
  expect(await types('symbols')).not.toContain('date DATE');
  expect(await types('markets')).toContain('views VARCHAR[]');
});

test('a dataset without files is empty, with the same column types', async () => {
  expect(await query.readRows('SELECT count(*) AS n FROM coverage')).toEqual([{ n: 0 }]);
  expect((await query.readRows('DESCRIBE conflicts')).map((row) => row.column_type)).toEqual([
    'VARCHAR',
    'TIMESTAMP WITH TIME ZONE',
    'DOUBLE',
    'DOUBLE',
    'TIMESTAMP WITH TIME ZONE',
    'INTEGER',
    'DATE',
  ]);
});

test('returns plain values: times as milliseconds, days as text, wide integers and lists', async () => {
  expect(await query.readRows("SELECT * FROM ticks WHERE symbol = 'A.B-😀' ORDER BY t DESC LIMIT 1")).toEqual([
    { symbol: 'A.B-😀', t: Date.parse('2026-07-01T23:59:59.999Z'), p: 0.5, date: '2026-07-01' },
  ]);
  expect(await query.readRows('SELECT ticks, is_active, source FROM symbols')).toEqual([
    { ticks: 5_000_000_000, is_active: true, source: null },
  ]);
  expect(await query.readRows('SELECT views, question FROM markets')).toEqual([
    { views: ['a', 'b "c"'], question: 'Q, "quoted"?' },
  ]);
});

test('binds any parameter values', async () => {
  const sql = 'SELECT p FROM ticks WHERE symbol = $1 AND t >= epoch_ms(CAST($2 AS BIGINT))';
  expect(await query.readRows(sql, ['A.B-😀', Date.parse('2026-07-01T12:00:00Z')])).toEqual([{ p: 0.5 }]);
  expect(await query.readRows(sql, ["'; --", 0])).toEqual([]);
});

test('rejects integers beyond 2^53 instead of rounding them', async () => {
  await expect(query.readRows('SELECT 9007199254740993 AS n')).rejects.toThrow(RangeError);
});

test('takes the day from the file, also if the archive is in a folder named like a day', async () => {
  expect(await query.readRows('SELECT DISTINCT date FROM ticks ORDER BY ALL')).toEqual(
    ['2026-07-01', '2026-07-02', '2026-07-03'].map((date) => ({ date })),
  );
});

test.each([
  ["date = '2026-07-02'", '1/3'],
  ["date BETWEEN '2026-07-01' AND DATE '2026-07-02' AND p > 0", '2/3'],
  ["date < '2020-01-01'", '0/3'],
])('a condition on the day leaves files out: %s', async (condition, files) => {
  const { plan } = await query.readTable(`EXPLAIN ANALYZE SELECT * FROM ticks WHERE ${condition}`, 10);
  expect(plan).toMatch(new RegExp(`Scanning Files:\\D*${files}`));
});

test('times are UTC in a session from New York', async () => {
  const script = `
    import { openQuery } from ${JSON.stringify(new URL('../../../src/archive/query/open-query.ts', import.meta.url).href)};
    const sources = JSON.parse(process.argv[1]);
    const query = await openQuery(sources, { threads: 1, memoryBytesMax: 1e8, scratch: '/dev/null/none' });
    await query.write("SELECT t, hour(t) AS h FROM ticks WHERE t >= '2026-07-01 12:00' ORDER BY t", 'csv', process.stdout);
    await query.close();`;
  const path = join(folder.root, 'ticks/date=2026-07-02/part-00.parquet');
  const columns = [{ name: 't', type: 'timestamp' }];
  const output = execFileSync(
    process.execPath,
    ['--input-type=module', '-e', script, JSON.stringify([{ dataset: 'ticks', columns, dated: true, paths: [path] }])],
    { env: { ...process.env, TZ: 'America/New_York' }, encoding: 'utf8' },
  );
  expect(output).toBe('t,h\n2026-07-02T12:00:00.000Z,12\n');
});

test('queries thousands of files', async () => {
  const many = archiveFolder('many');
  const bytes = readFileSync(many.ticks('2018-01-01', [['A', '2018-01-01T00:00:00Z', 0.5]]));
  const paths = Array.from({ length: 3000 }, (_, i) =>
    many.put(`ticks/date=${addDays('2018-01-01', i)}/part-00.parquet`, bytes),
  );
  const large = await open({ ticks: paths }, many.scratch);
  expect(await large.readRows("SELECT count(*) AS n, sum(p) AS s FROM ticks WHERE date >= '2018-01-02'")).toEqual([
    { n: 2999, s: 2999 / 2 },
  ]);
  await large.close();
  many.remove();
});

test('reports an unreadable file as damage, but not a removed one', async () => {
  const other = archiveFolder('other');
  const paths = ['2026-07-01', '2026-07-02'].map((day) => other.ticks(day, [['A', `${day}T00:00:00Z`, 0]]));
  const damaged = await open({ ticks: paths }, other.scratch);
  writeFileSync(paths[1]!, 'PAR1 no more');
  await expect(damaged.readRows('SELECT count(p) FROM ticks')).rejects.toThrow(DamageError);
  await expect(damaged.readRows('SELECT count(p) FROM ticks')).rejects.toThrow(paths[1]!);
  other.remove();
  const gone = await damaged.readRows('SELECT count(p) FROM ticks').catch((error: unknown) => error);
  expect(gone).toBeInstanceOf(OddslakeError);
  expect(gone).toMatchObject({ exitCode: 1 });
  await damaged.close();
});
