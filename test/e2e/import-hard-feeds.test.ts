import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { day0, put, writeParquet } from './import-lake.ts';
import { folder, ticksOf } from './lake.ts';
import { run } from './run-program.ts';

// Feeds that are easily misread.

const common = ['--set', 'source.name=box'];
const linesOf = (rows: readonly unknown[]): string => rows.map((row) => `${JSON.stringify(row)}\n`).join('');

const tokens = [
  '71321045679252212594626385532706912750332728571942532289631379312455583992563',
  '7132104567925221259463',
];

test('symbols that are long numbers keep all their digits', async () => {
  const files = folder();
  const text = tokens
    .map((id, i) => `{"data":{"asset_id":${id}},"t":${day0 + i},"p":0.4,"bids":[[0.4,1]],"asks":[[0.5,1]]}\n`)
    .join('');
  const columns = ['--columns', 'symbol=data/asset_id', ...common];
  const output = folder();
  const path = put(files, 'a.ndjson', text);
  expect(await run(['import', path, '--output', output, ...columns])).toMatchObject({ code: 0 });
  expect([...ticksOf(output).keys()].sort()).toEqual(tokens);
  const one = folder();
  const where = ['--where', `data/asset_id=${tokens[0]}`];
  expect(await run(['import', path, '--output', one, ...columns, ...where])).toMatchObject({ code: 0 });
  expect([...ticksOf(one).keys()]).toEqual([tokens[0]]);
  const books = folder();
  const taken = await run(['import', path, '--output', books, '--dataset', 'orderbooks', ...columns]);
  expect(taken.code, taken.stderr).toBe(0);
  for (const token of tokens) expect((await run(['symbols', '--output', books])).stdout).toContain(token);
  const rounded = put(files, 'b.ndjson', `{"symbol":7.1e76,"t":${day0},"bids":[[0.4,1]],"asks":[]}\n`);
  const refused = await run(['import', rounded, '--output', folder(), ...common]);
  expect(refused.code).toBe(4);
  expect(refused.stdout + refused.stderr).toMatch(/1 × symbol is not text/);
  const csv = put(files, 'c.csv', `symbol,t,p\n7.132104567925221e+76,${day0},0.5\n`);
  const lost = await run(['import', csv, '--output', folder(), ...common]);
  expect(lost.code).toBe(4);
  expect(lost.stdout + lost.stderr).toMatch(/1 × symbol is a rounded number: its last digits are lost/);
});

test('prices in cents are refused although the first rows do not show them', async () => {
  const files = folder();
  const penny = Array.from({ length: 1500 }, (_, i) => ({ type: 'a', symbol: 'A', t: day0 + i, p: 1 }));
  const late = put(files, 'a.ndjson', linesOf([...penny, { type: 'b', symbol: 'B', t: day0, p: 45 }]));
  for (const more of [[], ['--where', 'type=b']]) {
    const output = folder();
    const args = ['import', late, '--output', output, ...common, ...more];
    const shown = await run([...args, '--dry-run']);
    expect(shown.stdout).toMatch(/nothing would be imported: the prices look like cents/);
    const refused = await run(args);
    expect(refused.code).toBe(4);
    expect(refused.stdout + refused.stderr).toMatch(/nothing was imported: the prices look like cents/);
    expect(existsSync(join(output, 'ticks'))).toBe(false);
    expect(await run([...args, '--price-scale', '0.01'])).toMatchObject({ code: 0 });
    expect(ticksOf(output).get('B')![0]!.p).toBe(0.45);
  }
});

test('a filter that selects no row is a warning', async () => {
  const path = put(folder(), 'a.csv', `type,symbol,t,p\nticker,A,${day0},0.5\n`);
  const taken = await run(['import', path, '--output', folder(), ...common, '--where', 'type=trade', '--json']);
  expect(JSON.parse(taken.stdout)).toMatchObject({
    exit_code: 0,
    warnings: [`No row matches --where type=trade: ${path}.`],
  });
});

test('prices above 1 beside fractions are a warning', async () => {
  const rows = Array.from({ length: 9 }, (_, i) => `A ,${day0 + i},${i < 3 ? 45 : 0.45}\n`);
  const path = put(folder(), 'a.csv', `symbol,t,p\n${rows.join('')}`);
  const args = ['import', path, '--output', folder(), ...common];
  const shown = await run([...args, '--dry-run']);
  expect(shown.stdout).toContain('  3 prices above 1\n');
  expect(shown.stdout).toMatch(/"A " +2026-07-11T00:00:00Z +45\n/);
  expect(JSON.parse((await run([...args, '--json'])).stdout).warnings).toEqual([
    `3 prices above 1 were stored as received (${path}). --price-scale 1 confirms that.`,
  ]);
  expect(JSON.parse((await run([...args, '--json', '--price-scale', '1'])).stdout).warnings).toEqual([]);
});

test('--save-mapping replaces a mapping, and no other file', async () => {
  const files = folder();
  const text = `symbol,t,p\nA,${day0},0.5\n`;
  const path = put(files, 'a.csv', text);
  const mapping = join(files, 'feed.yaml');
  const save = (to: string) =>
    run(['import', path, '--output', folder(), ...common, '--tz', 'UTC', '--save-mapping', to]);
  expect(await save(mapping)).toMatchObject({ code: 0 });
  expect(await save(mapping)).toMatchObject({ code: 0 });
  const refused = await save(path);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toMatch(/the file exists and is not a mapping/);
  expect(readFileSync(path, 'utf8')).toBe(text);
  // A file that is refused leaves no mapping behind.
  const bad = ['import', put(files, 'b.csv', 'a,b\n1,2\n'), '--output', folder(), ...common];
  expect(await run([...bad, '--save-mapping', join(files, 'bad.yaml')])).toMatchObject({ code: 2 });
  expect(existsSync(join(files, 'bad.yaml'))).toBe(false);
});

test('folders of a partitioned data set are named, and a column may have one filter', async () => {
  const root = join(folder(), 'date=2026', 'ticker=A');
  mkdirSync(root, { recursive: true });
  const path = await writeParquet(join(root, 'a.parquet'), `SELECT ${day0} AS t, 0.5 AS p`);
  const refused = await run(['import', path, '--output', folder(), ...common]);
  expect(refused.code).toBe(2);
  expect(refused.stderr).toMatch(
    /missing column symbol .*; date=2026, ticker=A in the names of the folders are not read/,
  );
  const twice = await run(['import', path, '--output', folder(), ...common, '--where', 't=1', '--where', 't=2']);
  expect(twice.code).toBe(2);
  expect(twice.stderr).toMatch(/--where names t twice/);
});

test('the flags for compressed Parquet are on the line of its error', async () => {
  const files = folder();
  const path = await writeParquet(join(files, 'a.parquet'), `SELECT 'A' AS ticker, ${day0} AS ts, 0.5 AS price`);
  writeFileSync(`${path}.gz`, gzipSync(readFileSync(path)));
  const refused = await run(['import', `${path}.gz`, '--output', folder(), ...common]);
  expect(refused.code).toBe(2);
  expect(refused.stdout + refused.stderr).toContain('can be read with: --columns symbol=ticker,t=ts,p=price\n');
});

test('a Parquet file with columns whose names differ only in case is refused', async () => {
  const sql = `SELECT 'A' AS symbol, ${day0} AS "T", ${day0 + 1} AS u, 0.5 AS p`;
  const path = await writeParquet(join(folder(), 'a.parquet'), sql);
  // DuckDB does not write such a file.
  const bytes = readFileSync(path);
  for (let at = bytes.indexOf('u', 40); at >= 0; at = bytes.indexOf('u', at + 1))
    if (bytes[at - 1] === 1) bytes[at] = 't'.charCodeAt(0);
  writeFileSync(path, bytes);
  const refused = await run(['import', path, '--output', folder(), ...common]);
  expect(refused.code, refused.stdout).toBe(2);
  expect(refused.stderr).toMatch(/two columns are named t, or their names differ only in case/);
});

test('values in a mapping are text, as they are written', async () => {
  const files = folder();
  const path = put(files, 'a.csv', `id,live,symbol,t,p\n007,true,A,${day0},0.5\n7,true,B,${day0},0.5\n`);
  const mapping = put(files, 'feed.yaml', 'where: {id: 007, live: true}\ntruncate_time: true\nprice_scale: 0.5\n');
  const output = folder();
  const taken = await run(['import', path, '--output', output, ...common, '--mapping', mapping]);
  expect(taken.code, taken.stderr).toBe(0);
  expect([...ticksOf(output)]).toMatchObject([['A', [{ p: 0.25 }]]]);
});

test('an order book with one level a row is imported whole or not at all', async () => {
  const files = folder();
  const level = (t: string, side: string, of: number, price: number): string => `A,${t},${side},${of},${price},1\n`;
  const write = (name: string, ...levels: string[]): string =>
    put(files, name, `symbol,t,side,level,price,quantity\n${levels.join('')}`);
  const one = level(`${day0}`, 'bid', 0, 0.4);
  const more = level(`${day0}`, 'ask', 0, 0.5);
  for (const [path, code, reason] of [
    [
      write('torn.csv', one, `A,${day0},bid,1\n`, more),
      2,
      /a line cannot be read .* its order book would be incomplete/,
    ],
    [write('nameless.csv', one, `,${day0},bid,1,0.3,1\n`), 2, /a level has no symbol/],
    [write('twice.csv', one, more, one), 4, /bid level 0 is there twice/],
    [write('side.csv', one, level(`${day0}`, 'YES', 0, 0.5)), 4, /side is "YES", expected bid or ask/],
    [write('cents.csv', level(`${day0}`, 'bid', 0, 40)), 4, /Use --price-scale 0.01/],
  ] as const) {
    const refused = await run(['import', path, '--output', folder(), ...common]);
    expect(refused.code, path).toBe(code);
    expect(refused.stdout + refused.stderr).toMatch(reason);
  }
  const fine = write(
    'fine.csv',
    ...['5Z', '55Z', '555Z', '555001Z', '555002Z'].map((t) => level(`2026-07-11T00:00:00.${t}`, 'bid', 0, 0.4)),
  );
  const output = folder();
  const taken = await run(['import', fine, '--output', output, ...common, '--truncate-time']);
  expect(taken.code, taken.stderr).toBe(0);
});

test('the sides of an order book may map prices to quantities, as a dict or a map', async () => {
  const rows = [
    { symbol: 'A', t: day0, bids: { 0.4: 1 }, asks: { 0.5: 1 } },
    { symbol: 'C', t: day0, bids: [['0,4', '10']], asks: {} },
    { symbol: 'B', t: day0, bids: '{0.4: 1, 0.3: 2}', asks: '{0.5=1.5}' },
  ];
  const path = put(folder(), 'a.ndjson', linesOf(rows));
  const taken = await run(['import', path, '--output', folder(), ...common, '--decimal-comma', '--json']);
  expect(JSON.parse(taken.stdout)).toMatchObject({ exit_code: 0, warnings: [] });
  const nested = put(
    folder(),
    'a.ndjson',
    linesOf([{ Book: { ticker: 'A', ts: day0, Bids: { 0.4: 1 }, Asks: { 0.5: 1 } } }]),
  );
  const refused = await run(['import', nested, '--output', folder(), ...common]);
  expect(refused.stderr).toContain('--columns symbol=Book/ticker,t=Book/ts,bids=Book/Bids,asks=Book/Asks');
});
