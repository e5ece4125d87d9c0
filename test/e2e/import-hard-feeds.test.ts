import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { expect, test } from 'vitest';
import { day0, imported, importFile, put, refused, storedTicks, writeParquet } from './import-lake.ts';
import { folder, ticksOf } from './lake.ts';
import { run } from './run-program.ts';

// Feeds that are easily misread.

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
  const columns = ['--columns', 'symbol=data/asset_id'];
  const path = put(files, 'a.ndjson', text);
  const listed = async (...flags: string[]) => [...ticksOf(await imported(path, [...columns, ...flags])).keys()];
  expect((await listed()).sort()).toEqual(tokens);
  expect(await listed('--where', `data/asset_id=${tokens[0]}`)).toEqual([tokens[0]]);
  const books = await imported(path, ['--dataset', 'orderbooks', ...columns]);
  for (const token of tokens) expect((await run(['symbols', '--output', books])).stdout).toContain(token);
  const rounded = put(files, 'b.ndjson', `{"symbol":7.1e76,"t":${day0},"bids":[[0.4,1]],"asks":[]}\n`);
  await refused(rounded, 4, /1 × symbol is not text/);
  const csv = put(files, 'c.csv', `symbol,t,p\n7.132104567925221e+76,${day0},0.5\n`);
  await refused(csv, 4, /1 × symbol is a rounded number: its last digits are lost/);
});

test('prices in cents are refused although the first rows do not show them', async () => {
  const penny = Array.from({ length: 1500 }, (_, i) => ({ type: 'a', symbol: 'A', t: day0 + i, p: 1 }));
  const late = put(folder(), 'a.ndjson', linesOf([...penny, { type: 'b', symbol: 'B', t: day0, p: 45 }]));
  for (const more of [[], ['--where', 'type=b']]) {
    const output = folder();
    const shown = await importFile(late, [...more, '--dry-run'], output);
    expect(shown.stdout).toMatch(/nothing would be imported: the prices look like cents/);
    const taken = await importFile(late, more, output);
    expect([taken.code, taken.stdout]).toEqual([
      4,
      expect.stringMatching(/nothing was imported: the prices look like/),
    ]);
    expect(existsSync(join(output, 'ticks'))).toBe(false);
    await imported(late, [...more, '--price-scale', '0.01'], output);
    expect(ticksOf(output).get('B')![0]!.p).toBe(0.45);
  }
});

test('a filter that selects no row is a warning', async () => {
  const path = put(folder(), 'a.csv', `type,symbol,t,p\nticker,A,${day0},0.5\n`);
  expect((await importFile(path, ['--where', 'type=trade', '--json'])).summary).toMatchObject({
    exit_code: 0,
    warnings: [`No row matches --where type=trade: ${path}.`],
  });
});

test('prices above 1 beside fractions are a warning', async () => {
  const rows = Array.from({ length: 9 }, (_, i) => `A ,${day0 + i},${i < 3 ? 45 : 0.45}\n`);
  const path = put(folder(), 'a.csv', `symbol,t,p\n${rows.join('')}`);
  const shown = await importFile(path, ['--dry-run']);
  expect(shown.stdout).toContain('  3 prices above 1\n');
  expect(shown.stdout).toMatch(/"A " +2026-07-11T00:00:00Z +45\n/);
  const warnings = async (...flags: string[]) => (await importFile(path, ['--json', ...flags])).summary.warnings;
  expect(await warnings()).toEqual([
    `3 prices above 1 were stored as received (${path}). --price-scale 1 confirms that.`,
  ]);
  expect(await warnings('--price-scale', '1')).toEqual([]);
});

test('folders of a partitioned data set are named, and a column may have one filter', async () => {
  const root = join(folder(), 'date=2026', 'ticker=A');
  mkdirSync(root, { recursive: true });
  const path = await writeParquet(join(root, 'a.parquet'), `SELECT ${day0} AS t, 0.5 AS p`);
  await refused(path, 2, /missing column symbol .*; date=2026, ticker=A in the names of the folders are not read/);
  await refused(path, 2, /--where names t twice/, '--where', 't=1', '--where', 't=2');
});

test('the flags for compressed Parquet are on the line of its error', async () => {
  const path = await writeParquet(join(folder(), 'a.parquet'), `SELECT 'A' AS ticker, ${day0} AS ts, 0.5 AS price`);
  writeFileSync(`${path}.gz`, gzipSync(readFileSync(path)));
  await refused(`${path}.gz`, 2, /can be read with: --columns symbol=ticker,t=ts,p=price\n/);
});

test('a Parquet file with columns whose names differ only in case is refused', async () => {
  const sql = `SELECT 'A' AS symbol, ${day0} AS "T", ${day0 + 1} AS u, 0.5 AS p`;
  const path = await writeParquet(join(folder(), 'a.parquet'), sql);
  // DuckDB does not write such a file.
  const bytes = readFileSync(path);
  for (let at = bytes.indexOf('u', 40); at >= 0; at = bytes.indexOf('u', at + 1))
    if (bytes[at - 1] === 1) bytes[at] = 't'.charCodeAt(0);
  writeFileSync(path, bytes);
  await refused(path, 2, /two columns are named t, or their names differ only in case/);
});

test('values of --where are text, as they are written', async () => {
  const path = put(folder(), 'a.csv', `id,live,symbol,t,p\n007,true,A,${day0},0.5\n7,true,B,${day0},0.5\n`);
  const flags = ['--where', 'id=007', '--where', 'live=true', '--truncate-time', '--price-scale', '0.5'];
  expect(storedTicks(await imported(path, flags))).toEqual([{ symbol: 'A', t: day0, p: 0.25 }]);
});

test('an order book with one level a row is imported whole or not at all', async () => {
  const level = (t: string, side: string, of: number, price: number): string => `A,${t},${side},${of},${price},1\n`;
  const write = (...levels: string[]): string =>
    put(folder(), 'a.csv', `symbol,t,side,level,price,quantity\n${levels.join('')}`);
  const one = level(`${day0}`, 'bid', 0, 0.4);
  const more = level(`${day0}`, 'ask', 0, 0.5);
  const torn = write(one, `A,${day0},bid,1\n`, more);
  await refused(torn, 2, /a line cannot be read .* its order book would be incomplete/);
  await refused(write(one, `,${day0},bid,1,0.3,1\n`), 2, /a level has no symbol/);
  await refused(write(one, more, one), 4, /bid level 0 is there twice/);
  await refused(write(one, level(`${day0}`, 'YES', 0, 0.5)), 4, /side is "YES", expected bid or ask/);
  await refused(write(level(`${day0}`, 'bid', 0, 40)), 4, /Use --price-scale 0.01/);
  const times = ['5Z', '55Z', '555Z', '555001Z', '555002Z'].map((t) => `2026-07-11T00:00:00.${t}`);
  await imported(write(...times.map((t) => level(t, 'bid', 0, 0.4))), ['--truncate-time']);
});

test('the sides of an order book may map prices to quantities, as a dict or a map', async () => {
  const rows = [
    { symbol: 'A', t: day0, bids: { 0.4: 1 }, asks: { 0.5: 1 } },
    { symbol: 'C', t: day0, bids: [['0,4', '10']], asks: {} },
    { symbol: 'B', t: day0, bids: '{0.4: 1, 0.3: 2}', asks: '{0.5=1.5}' },
  ];
  const taken = await importFile(put(folder(), 'a.ndjson', linesOf(rows)), ['--decimal-comma', '--json']);
  expect(taken.summary).toMatchObject({ exit_code: 0, warnings: [] });
  const nested = { Book: { ticker: 'A', ts: day0, Bids: { 0.4: 1 }, Asks: { 0.5: 1 } } };
  const flags = /--columns symbol=Book\/ticker,t=Book\/ts,bids=Book\/Bids,asks=Book\/Asks/;
  await refused(put(folder(), 'a.ndjson', linesOf([nested])), 2, flags);
});
