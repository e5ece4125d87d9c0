import { existsSync, readdirSync } from 'node:fs';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { decodeArrowTable } from '../../../src/archive/parquet/rows.ts';
import { encodeTicks } from '../../../src/archive/parquet/ticks-file.ts';
import type { Query, WriteFormat } from '../../../src/archive/query/query.ts';
import { archiveFolder, collector, open } from './files.ts';

const folder = archiveFolder();
const start = Date.parse('2026-07-01T00:00:00Z');
const rows = 300_000;
let query: Query;

beforeAll(async () => {
  const half = rows / 2;
  const bytes = encodeTicks({
    symbols: ['A', 'B😀'],
    offsets: Float64Array.from([0, half, rows]),
    t: Float64Array.from({ length: rows }, (_, i) => start + (i % half) * 500),
    p: Float64Array.from({ length: rows }, (_, i) => i / rows),
  });
  query = await open({ ticks: [folder.put('ticks/date=2026-07-01/part-00.parquet', bytes)] }, folder.scratch);
});

afterAll(async () => {
  await query.close();
  folder.remove();
});

async function written(sql: string, format: WriteFormat): Promise<string> {
  const { out, text } = collector();
  await query.write(sql, format, out);
  return text();
}

const awkward = `SELECT 'a,"b"' AS "x,y", '' AS empty, NULL AS none, E'l1\\nl2 😀' AS lines, 9007199254740993 AS wide,
  CAST('nan' AS DOUBLE) AS nan, CAST('-inf' AS FLOAT) AS inf, 1.50 AS dec, [1, NULL] AS list, ['p"q'] AS texts,
  TIMESTAMPTZ '2026-07-01 02:00:00.123+02' AS t, TIMESTAMPTZ '2026-07-01 00:00:00.000001Z' AS us,
  TIMESTAMP '2026-07-01 00:00:00' AS local, {'t': [TIMESTAMPTZ '2026-07-01 00:00:00Z']} AS nested, DATE '2026-07-01' AS d,
  MAP {'k': 1} AS map, true AS yes, 0.1 + 0.2e0 AS sum, 1 AS twice, 2 AS twice`;

test('csv quotes fields if needed, distinguishes NULL from empty, and writes times as ISO in UTC', async () => {
  expect(await written(awkward, 'csv')).toBe(
    `"x,y",empty,none,lines,wide,nan,inf,dec,list,texts,t,us,local,nested,d,map,yes,sum,twice,twice:1
"a,""b""","",,"l1
l2 😀",9007199254740993,NaN,-Infinity,1.50,"[1,null]","[""p\\""q""]",2026-07-01T00:00:00.123Z,2026-07-01T00:00:00.000001Z,2026-07-01T00:00:00.000,"{""t"":[""2026-07-01T00:00:00.000Z""]}",2026-07-01,"{""k"":1}",true,0.30000000000000004,1,2
`,
  );
});

test('json is a valid array of objects', async () => {
  const text = await written(awkward, 'json');
  expect(text).toContain('"wide":9007199254740993,');
  expect(JSON.parse(text)).toEqual([
    {
      'x,y': 'a,"b"',
      empty: '',
      none: null,
      lines: 'l1\nl2 😀',
      wide: expect.any(Number),
      nan: null,
      inf: null,
      dec: 1.5,
      list: [1, null],
      texts: ['p"q'],
      t: '2026-07-01T00:00:00.123Z',
      us: '2026-07-01T00:00:00.000001Z',
      local: '2026-07-01T00:00:00.000',
      nested: { t: ['2026-07-01T00:00:00.000Z'] },
      d: '2026-07-01',
      map: { k: 1 },
      yes: true,
      sum: 0.1 + 0.2,
      twice: 1,
      'twice:1': 2,
    },
  ]);
});

test('json of several, one and no rows is valid', async () => {
  for (const n of [0, 1, 3, 5000]) {
    expect(JSON.parse(await written(`SELECT range AS i FROM range(${n})`, 'json'))).toHaveLength(n);
  }
});

const formulas = `SELECT * FROM (VALUES
  ('=HYPERLINK("http://a.example","b")', -1, -0.5::DOUBLE, -1.50), ('-1+2', 2, NULL, 0), ('+1', 3, 'inf'::DOUBLE, 0),
  ('@SUM(A1)', 4, '-inf'::DOUBLE, 0), (E'\\tx', 5, 0, 0), (E'\\r=1', 6, 0, 0), (E'\\n=1', 7, 0, 0), ('a=1', 8, 0, 0),
  ('', 9, 0, 0), (NULL, 10, 0, 0)) AS rows("=cmd", n, p, dec)`;

test('csv for spreadsheets has no text that begins a formula, and the same numbers', async () => {
  expect(await written(formulas, 'csv_safe')).toBe(
    `'=cmd,n,p,dec
"'=HYPERLINK(""http://a.example"",""b"")",-1,-0.5,-1.50
'-1+2,2,,0.00
'+1,3,Infinity,0.00
'@SUM(A1),4,-Infinity,0.00
'\tx,5,0,0.00
"'\r=1",6,0,0.00
"'\n=1",7,0,0.00
a=1,8,0,0.00
"",9,0,0.00
,10,0,0.00
`,
  );
  const unions =
    "SELECT union_value(t := '=1') AS text, union_value(n := -1) AS number, ['=1'] AS list, INTERVAL (-1) DAY AS i";
  expect(await written(unions, 'csv_safe')).toBe(`text,number,list,i\n'=1,-1,"[""=1""]",'-1 day\n`);
});

test('csv is unchanged without the flag', async () => {
  const text = await written(formulas, 'csv');
  expect(text).not.toContain("'");
  expect(text).toContain('\n-1+2,2,,0.00\n');
});

test('ndjson is one object per line, and empty without rows', async () => {
  expect(await written('SELECT * FROM range(2)', 'ndjson')).toBe('{"range":0}\n{"range":1}\n');
  expect(await written('SELECT * FROM range(0)', 'ndjson')).toBe('');
});

test('csv without rows has a header', async () => {
  expect(await written('SELECT symbol, p FROM ticks WHERE false', 'csv')).toBe('symbol,p\n');
});

test('writes 300,000 rows as csv in pieces, in order and once each', async () => {
  const { out, pieces, text } = collector();
  await query.write('SELECT * FROM ticks ORDER BY symbol, t', 'csv', out);
  expect(Math.max(...pieces.map((piece) => piece.length))).toBeLessThan(1_000_000);
  const lines = text().split('\n');
  expect(lines).toHaveLength(rows + 2);
  expect(lines.slice(0, 3)).toEqual([
    'symbol,t,p,date',
    'A,2026-07-01T00:00:00.000Z,0,2026-07-01',
    `A,2026-07-01T00:00:00.500Z,${1 / rows},2026-07-01`,
  ]);
  expect(new Set(lines).size).toBe(rows + 2);
});

test('every kind of statement can be written as csv and json', async () => {
  for (const sql of ['DESCRIBE ticks', 'SHOW TABLES;', 'SUMMARIZE ticks', 'EXPLAIN FROM ticks', 'FROM ticks LIMIT 1']) {
    expect(JSON.parse(await written(sql, 'json')).length).toBeGreaterThan(0);
    expect(await written(sql, 'csv')).toContain('\n');
  }
});

describe('parquet', () => {
  test('has the rows in order, and leaves no file behind', async () => {
    const { out, bytes } = collector();
    await query.write('SELECT symbol, t, p FROM ticks ORDER BY p DESC LIMIT 3; -- the last; three\n', 'parquet', out);
    const table = decodeArrowTable(new Uint8Array(bytes()));
    expect(table.schema.fields.map((field) => `${field.name} ${field.type}`)).toEqual([
      'symbol Utf8',
      't Timestamp<MICROSECOND, UTC>',
      'p Float64',
    ]);
    expect([...table.getChild('p')!]).toEqual([3, 2, 1].map((i) => (rows - 4 + i) / rows));
    expect(
      readdirSync(folder.scratch, { recursive: true }).filter((name) => String(name).includes('.parquet')),
    ).toEqual([]);
  });

  test('works for DESCRIBE but not for EXPLAIN', async () => {
    const { out, bytes } = collector();
    await query.write('DESCRIBE ticks', 'parquet', out);
    expect(decodeArrowTable(new Uint8Array(bytes())).numRows).toBe(4);
    await expect(query.write('EXPLAIN FROM ticks', 'parquet', out)).rejects.toThrow('no rows');
  });
});

const endless = 'SELECT count(*) FROM range(1000000) a, range(1000000) b WHERE a.range * b.range = 7';

/** A signal that is aborted some milliseconds after the query listens to it, while DuckDB is working. */
function abortedAmid(reason: Error): AbortSignal {
  const controller = new AbortController();
  const { signal } = controller;
  const listen = signal.addEventListener.bind(signal);
  signal.addEventListener = (...reported: Parameters<typeof listen>) => {
    listen(...reported);
    setTimeout(() => controller.abort(reason), 20);
  };
  return signal;
}

describe('an abort', () => {
  test.each(['csv', 'parquet'] as const)('stops a computation, with its own reason: %s', async (format) => {
    // Without an abort it would run for years.
    const signal = abortedAmid(new Error('SIGINT'));
    await expect(query.write(endless, format, collector().out, signal)).rejects.toThrow('SIGINT');
  });

  test('stops readTable and readRows', async () => {
    await expect(query.readTable(endless, 5, abortedAmid(new Error('SIGINT')))).rejects.toThrow('SIGINT');
    await expect(query.readRows(endless, [], abortedAmid(new Error('SIGINT')))).rejects.toThrow('SIGINT');
  });

  test('does not look like the end of the rows', async () => {
    const rows = 'SELECT range AS n, sin(range) AS x FROM range(200000)';
    const readers = {
      texts: (signal: AbortSignal) => query.readTexts([rows], 'csv', signal),
      chunks: (signal: AbortSignal) => query.readChunks(['SELECT range::DOUBLE AS n FROM range(200000)'], signal),
    };
    for (const read of Object.values(readers)) {
      for (let pieces = 1; pieces <= 8; pieces++) {
        const controller = new AbortController();
        let left = pieces;
        const reading = (async () => {
          for await (const _ of read(controller.signal)) {
            if (--left === 0) setTimeout(() => controller.abort(new Error('enough')), pieces % 3);
            // Yield, as a writer of the rows does.
            await new Promise((resolve) => setImmediate(resolve));
          }
        })();
        await expect(reading).rejects.toThrow('enough');
      }
    }
  });

  test('stops a result whose reader is stalled', async () => {
    const stuck = new Writable({ write() {}, highWaterMark: 1 });
    const signal = abortedAmid(new Error('SIGINT'));
    await expect(query.write('FROM ticks', 'csv', stuck, signal)).rejects.toThrow('SIGINT');
    expect(await query.readRows('SELECT 1 AS one')).toEqual([{ one: 1 }]);
  });
});

test('a closed output ends the query with its error', async () => {
  const closedOutput = new Writable({
    write(_, __, done) {
      done(Object.assign(new Error('write EPIPE'), { code: 'EPIPE' }));
    },
  });
  await expect(query.write('FROM ticks', 'csv', closedOutput)).rejects.toMatchObject({ code: 'EPIPE' });
});

test('several statements may run at a time', async () => {
  const counts = await Promise.all([1, 2, 3].map((n) => query.readRows(`SELECT count(*) + ${n} AS n FROM ticks`)));
  expect(counts).toEqual([1, 2, 3].map((n) => [{ n: rows + n }]));
});

test('spills to scratch if memory is exceeded, and clears it on close', async () => {
  const scratch = join(folder.root, 'spilled');
  const small = await open({}, scratch, 40);
  const sorted = small.readTable('SELECT md5(CAST(range AS VARCHAR)) AS m FROM range(2000000) ORDER BY m', 2);
  expect((await sorted).isComplete).toBe(false);
  expect(existsSync(scratch)).toBe(true);
  await small.close();
  expect(readdirSync(scratch)).toEqual([]);
});

test('exceeding memory without scratch is not a usage error', async () => {
  const small = await open({}, folder.scratch, 20);
  const failure = await small
    .readRows('SELECT len(string_agg(md5(CAST(range AS VARCHAR)))) FROM range(4000000)')
    .catch((e) => e);
  expect(failure).toMatchObject({ exitCode: 1, message: expect.stringContaining('memory limit') });
  await small.close();
});

describe('a table', () => {
  test('ends at the row limit and reports whether there are more', async () => {
    const sql = "SELECT symbol, t, p, date FROM ticks WHERE symbol = 'A' ORDER BY t";
    const { columns, rows, isComplete } = await query.readTable(`${sql} LIMIT 3`, 2);
    expect(columns.map(({ kind }) => kind)).toEqual(['text', 'fixed', 'number', 'fixed']);
    expect(rows[1]).toEqual(['A', '2026-07-01T00:00:00.500Z', String(1 / 300_000), '2026-07-01']);
    expect(isComplete).toBe(false);
    expect((await query.readTable(`${sql} LIMIT 2`, 2)).isComplete).toBe(true);
  });

  test('shows whole seconds without a fraction, and NULL as null', async () => {
    const sql = "SELECT TIMESTAMPTZ '2026-07-01 00:00:00Z' AS t, NULL AS n UNION ALL SELECT NULL, 1 ORDER BY n";
    expect((await query.readTable(sql, 5)).rows).toEqual([
      [null, '1'],
      ['2026-07-01T00:00:00Z', null],
    ]);
  });
});
