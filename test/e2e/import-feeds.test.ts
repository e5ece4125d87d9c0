import { statSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { collected as collectedBooks } from './books.ts';
import {
  csvOf,
  day0,
  imported,
  importFile,
  importInto,
  ndjsonOf,
  put,
  refused,
  select,
  storedTicks,
  suggestedFlags,
  type Tick,
  writeParquet,
} from './import-lake.ts';
import { expectDone, folder, ticksOf } from './lake.ts';
import { run } from './run-program.ts';

// Files as feeds write them. The first command names only the file: it refuses, and says which flags may help. The second one
// adds exactly these.

const n = 50;
const ticks: readonly Tick[] = Array.from({ length: n }, (_, i) => ({
  symbol: i % 2 === 0 ? 'KXBTCD-26NOV20-B90025' : 'KXRAIN-26NOV20',
  t: day0 + i * 61_000 + (i % 7) * 100,
  p: (i + 20) / 100,
}));
const iso = (t: number, rest = 'Z'): string => new Date(t).toISOString().replace('Z', rest);
const lines = (header: string, row: (tick: Tick, i: number) => string): string =>
  `${[header, ...ticks.map(row)].join('\n')}\n`;
const cents = (p: number): number => Math.round(p * 100);
/** A message of a websocket. */
const toMessage = ({ symbol, t, p }: Tick, seq: number): string => {
  const msg = { market_ticker: symbol, price: cents(p), yes_bid: cents(p) - 1, ts: t };
  return JSON.stringify({ type: 'ticker', sid: 1, seq, msg });
};

/** A file of each feed, and the flags that are suggested for it. */
const feeds: Readonly<Record<string, readonly [file: string, content: string | Buffer, flags: string]>> = {
  'a CSV of isoformat() with microseconds': [
    'feed.csv',
    lines('ticker,timestamp,price,bid,ask,volume', (x) => `${x.symbol},${iso(x.t, '456+00:00')},${x.p},0.1,0.9,7`),
    '--columns symbol=ticker,t=timestamp,p=price --truncate-time',
  ],
  'prices in cents': ['feed.csv', lines('symbol,t,p', (x) => `${x.symbol},${x.t},${cents(x.p)}`), '--price-scale 0.01'],
  'semicolons and decimal commas': [
    'feed.csv',
    lines('Ticker;Timestamp;Price', (x) => `${x.symbol};${x.t};${String(x.p).replace('.', ',')}`),
    '--columns symbol=Ticker,t=Timestamp,p=Price --decimal-comma',
  ],
  'JSON lines of a websocket': [
    'feed.jsonl',
    lines('{"id":1,"type":"subscribed","msg":{"channel":"ticker","sid":1}}', toMessage),
    '--columns symbol=msg/market_ticker,t=msg/ts,p=msg/price --where type=ticker --price-scale 0.01',
  ],
  'seconds and milliseconds mixed': [
    'feed.csv',
    lines('symbol,t,p', (x, i) => `${x.symbol},${i % 2 === 0 ? x.t : x.t / 1000},${x.p}`),
    '--time-unit auto',
  ],
  'two zones, one of them not stated': [
    'feed.csv',
    lines(
      'symbol,time,price',
      (x, i) => `${x.symbol},${i % 2 === 0 ? iso(x.t - 4 * 3_600_000, '-04:00') : iso(x.t, '')},${x.p}`,
    ),
    '--columns t=time,p=price --tz UTC',
  ],
  'a header in capitals': [
    'FEED.CSV',
    lines('TICKER,TIMESTAMP,PRICE', (x) => `${x.symbol},${iso(x.t)},${x.p}`),
    '--columns symbol=TICKER,t=TIMESTAMP,p=PRICE',
  ],
  'gzip without an extension': [
    'feed',
    gzipSync(lines('symbol,t,p', (x) => `${x.symbol},${x.t},${x.p}`)),
    '--format csv',
  ],
};

async function expectSuggested(path: string, flags: string): Promise<void> {
  const output = folder();
  const { code, stdout, stderr } = await importFile(path, [], output);
  expect(code, stderr).toBeGreaterThanOrEqual(2);
  expect(ticksOf(output).size).toBe(0);
  const suggested = suggestedFlags(stderr + stdout);
  expect(suggested.join(' ')).toBe(flags);
  await imported(path, suggested, output);
  expect(storedTicks(output)).toEqual(ticks.map((tick) => ({ ...tick, p: cents(tick.p) / 100 })));
}

describe('a feed is imported by the command that the first one suggests', () => {
  test.each(Object.entries(feeds))('%s', (_, [file, content, flags]) =>
    expectSuggested(put(folder(), file, content), flags),
  );

  test('Parquet of DuckDB in nanoseconds', async () => {
    const values = ticks.map((x) => `('${x.symbol}', ${x.t}::BIGINT, '${x.p}')`).join(', ');
    const sql = `SELECT symbol AS ticker, make_timestamp_ns(t * 1000000 + 123) AS ts, p::DOUBLE AS last_price FROM (VALUES ${values}) v(symbol, t, p)`;
    const path = await writeParquet(join(folder(), 'feed.parquet'), sql);
    await expectSuggested(path, '--columns symbol=ticker,t=ts,p=last_price --tz UTC --truncate-time');
  });

  test('order books as lists in text', async () => {
    const books = ticks.map(({ symbol, t, p }) => ({ symbol, t, bid: p, ask: Number((p + 0.02).toFixed(2)) }));
    const rows = books.map((x) => `${x.symbol},${x.t},"[(${x.bid}, 100), (0.01, 5)]","[[${x.ask}, 7]]"`);
    const path = put(folder(), 'books.csv', `asset_id,timestamp,bids,asks\n${rows.join('\n')}\n`);
    const suggested = suggestedFlags(await refused(path, 2, /can be read with/));
    expect(suggested.join(' ')).toBe('--dataset orderbooks --columns symbol=asset_id,t=timestamp');
    const output = folder();
    const taken = await expectDone(importFile(path, suggested, output));
    expect(taken.stdout).toMatch(/books +2 of 2 symbols · 50 snapshots/);
    expect((await run(['symbols', '--output', output])).stdout).toContain('KXRAIN-26NOV20');
    const sql =
      'SELECT symbol, epoch_ms(t) AS t, side, level, price, quantity FROM orderbooks ORDER BY t, side DESC, level';
    const expected = books.flatMap(({ symbol, t, bid, ask }) => [
      { symbol, t, side: 'bid', level: 0, price: bid, quantity: 100 },
      { symbol, t, side: 'bid', level: 1, price: 0.01, quantity: 5 },
      { symbol, t, side: 'ask', level: 0, price: ask, quantity: 7 },
    ]);
    expect(await select(output, sql)).toEqual(expected);
    // Again changes nothing.
    await imported(path, suggested, output);
    expect(await select(output, sql)).toEqual(expected);
    expect(await select(output, 'SELECT count(*) AS n FROM coverage')).toEqual([{ n: 0 }]);
    const covers = ['--covers', '2026-07-11..2026-07-12'];
    await refused(path, 2, /--covers applies to ticks, quotes and trades only/, ...suggested, ...covers);
    const bad = put(folder(), 'bad.csv', `symbol,t,bids,asks\n${'A,1783771200000,many,few\n'.repeat(3)}`);
    await refused(bad, 4, /3 of 3 rows rejected.*bids is not a list of levels/s);
  });
});

test('order books of an archive are the same in another one, from its export and from its raw responses', async () => {
  const { output } = await collectedBooks();
  const path = join(folder(), 'books.parquet');
  await expectDone(run(['export', '--out', path, '--dataset', 'orderbooks', '--output', output]));
  const all = (root: string) => select(root, 'SELECT * FROM orderbooks ORDER BY ALL');
  const expected = await all(output);
  expect(expected.length).toBeGreaterThan(10);
  expect(await all(await imported(path))).toEqual(expected);
  // Alone, if a flag says so.
  const raw = await imported(join(output, '.oddslake/raw'), ['--dataset', 'orderbooks']);
  expect(await all(raw)).toEqual(expected);
  for (const table of ['ticks', 'markets']) expect(await select(raw, `FROM ${table}`), table).toEqual([]);
});

test('levels whose time is written in two ways are refused', async () => {
  const level = (t: string, price: number): string => `A,${t},bid,${price},1\n`;
  // The same time in two forms: the levels of one order book are apart.
  const text = `symbol,t,side,price,quantity\n${level('2026-07-11T00:00:00Z', 0.4)}${level('2026-07-11T00:00:01Z', 0.4)}${level('2026-07-11T02:00:00+02:00', 0.3)}`;
  const sentence = /the time 2026-07-11T00:00:00Z of A is written in two ways/;
  await refused(put(folder(), 'a.csv', text), 2, sentence, '--dataset', 'orderbooks');
});

test('a dry run shows the first rows as they would be stored, and names what is not imported', async () => {
  const [file, content, text] = feeds['a CSV of isoformat() with microseconds']!;
  const path = put(folder(), file, content);
  const flags = text.split(' ');
  const shown = await importFile(path, [...flags, '--dry-run']);
  expect(shown.stdout).toContain(`${path}: 50 rows, 0 rejected\n`);
  const both = '--dataset ticks,quotes --columns symbol=ticker,t=timestamp,p=price imports ticks and quotes';
  expect(shown.stdout).toContain(`  not imported: bid, ask, volume\n  ${both}\n`);
  expect(shown.stdout).toMatch(/KXBTCD-26NOV20-B90025 +2026-07-11T00:00:00Z +0\.2\n/);
  expect(shown.stdout).toMatch(/the first 5 rows/);
  const json = JSON.parse((await importFile(path, [...flags, '--dry-run', '--json'])).stdout.split('\n')[0]!);
  expect(json.files[0].first_rows).toHaveLength(5);
  expect(json.files[0].first_rows[1]).toEqual({ symbol: 'KXRAIN-26NOV20', t: ticks[1]!.t, p: 0.21 });
  expect(json.files[0].unused_columns).toEqual(['bid', 'ask', 'volume']);
  expect((await importFile(path, [...flags, '--json'])).summary).toMatchObject({
    exit_code: 0,
    warnings: [`Columns that were not imported: bid, ask, volume (${path}). ${both}.`],
  });
});

test('prices that look like cents are stored as they are, if a flag says so', async () => {
  const [file, content] = feeds['prices in cents']!;
  const output = await imported(put(folder(), file, content), ['--price-scale', '1']);
  expect(ticksOf(output).get('KXRAIN-26NOV20')![0]!.p).toBe(21);
});

test('progress moves within a file, in every format', async () => {
  const files = folder();
  const many = Array.from({ length: 30_000 }, (_, i) => ({ symbol: `S${i % 10}`, t: day0 + i, p: (i % 100) / 128 }));
  const text = csvOf(many);
  const paths = [
    put(files, 'a.csv', text),
    put(files, 'a.csv.gz', text),
    put(files, 'a.ndjson', ndjsonOf(many)),
    await writeParquet(
      join(files, 'a.parquet'),
      `SELECT 'S' || i % 10 AS symbol, ${day0} + i AS t, (i % 100) / 128 AS p FROM range(30000) r(i)`,
    ),
  ];
  for (const path of paths) {
    const seen: number[] = [];
    const summary = await importInto(folder(), [path], {}, ['source.name=box'], 1, (done) => void seen.push(done));
    expect(summary, path).toMatchObject({ exit_code: 0, ticks: { accepted: 30_000 } });
    const total = statSync(path).size;
    expect(seen.at(-1), path).toBe(total);
    expect(seen.filter((done) => done > 0 && done < total).length, path).toBeGreaterThan(0);
    expect(seen, path).toEqual(seen.toSorted((a, b) => a - b));
  }
});
