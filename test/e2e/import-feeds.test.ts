import { execFileSync } from 'node:child_process';
import { statSync } from 'node:fs';
import { join } from 'node:path';
import { gzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { collected as collectedBooks } from './books.ts';
import { csvOf, day0, importInto, ndjsonOf, put, writeParquet } from './import-lake.ts';
import { folder, ticksOf } from './lake.ts';
import { run } from './run-program.ts';

// Files as feeds write them. The first command names only the file: it refuses, and says which flags may help. The second one
// adds exactly these.

interface FeedTick {
  readonly symbol: string;
  readonly t: number;
  readonly p: number;
}

const n = 50;
const ticks: readonly FeedTick[] = Array.from({ length: n }, (_, i) => ({
  symbol: i % 2 === 0 ? 'KXBTCD-26NOV20-B90025' : 'KXRAIN-26NOV20',
  t: day0 + i * 61_000 + (i % 7) * 100,
  p: (i + 20) / 100,
}));
const iso = (t: number, rest = 'Z'): string => new Date(t).toISOString().replace('Z', rest);
const lines = (header: string, row: (tick: FeedTick, i: number) => string): string =>
  `${[header, ...ticks.map(row)].join('\n')}\n`;
const cents = (p: number): number => Math.round(p * 100);

type Write = (files: string) => string | Promise<string>;

const tickFeeds: Readonly<Record<string, { readonly write: Write; readonly flags: string }>> = {
  'a CSV of isoformat() with microseconds': {
    write: (files) =>
      put(
        files,
        'feed.csv',
        lines('ticker,timestamp,price,bid,ask,volume', (x) => `${x.symbol},${iso(x.t, '456+00:00')},${x.p},0.1,0.9,7`),
      ),
    flags: '--columns symbol=ticker,t=timestamp,p=price --truncate-time',
  },
  'Parquet of DuckDB in nanoseconds': {
    write: (files) =>
      writeParquet(
        join(files, 'feed.parquet'),
        `SELECT symbol AS ticker, make_timestamp_ns(t * 1000000 + 123) AS ts, p::DOUBLE AS last_price FROM (VALUES ${ticks.map((x) => `('${x.symbol}', ${x.t}::BIGINT, '${x.p}')`).join(', ')}) v(symbol, t, p)`,
      ),
    flags: '--columns symbol=ticker,t=ts,p=last_price --tz UTC --truncate-time',
  },
  'prices in cents': {
    write: (files) =>
      put(
        files,
        'feed.csv',
        lines('symbol,t,p', (x) => `${x.symbol},${x.t},${cents(x.p)}`),
      ),
    flags: '--price-scale 0.01',
  },
  'semicolons and decimal commas': {
    write: (files) =>
      put(
        files,
        'feed.csv',
        lines('Ticker;Timestamp;Price', (x) => `${x.symbol};${x.t};${String(x.p).replace('.', ',')}`),
      ),
    flags: '--columns symbol=Ticker,t=Timestamp,p=Price --decimal-comma',
  },
  'JSON lines of a websocket': {
    write: (files) =>
      put(
        files,
        'feed.jsonl',
        lines('{"id":1,"type":"subscribed","msg":{"channel":"ticker","sid":1}}', (x, i) =>
          JSON.stringify({
            type: 'ticker',
            sid: 1,
            seq: i,
            msg: { market_ticker: x.symbol, price: cents(x.p), yes_bid: cents(x.p) - 1, ts: x.t },
          }),
        ),
      ),
    flags: '--columns symbol=msg/market_ticker,t=msg/ts,p=msg/price --where type=ticker --price-scale 0.01',
  },
  'seconds and milliseconds mixed': {
    write: (files) =>
      put(
        files,
        'feed.csv',
        lines('symbol,t,p', (x, i) => `${x.symbol},${i % 2 === 0 ? x.t : x.t / 1000},${x.p}`),
      ),
    flags: '--time-unit auto',
  },
  'two zones, one of them not stated': {
    write: (files) =>
      put(
        files,
        'feed.csv',
        lines('symbol,time,price', (x, i) =>
          i % 2 === 0
            ? `${x.symbol},${iso(x.t - 4 * 3_600_000, '-04:00')},${x.p}`
            : `${x.symbol},${iso(x.t, '')},${x.p}`,
        ),
      ),
    flags: '--columns t=time,p=price --tz UTC',
  },
  'a header in capitals': {
    write: (files) =>
      put(
        files,
        'FEED.CSV',
        lines('TICKER,TIMESTAMP,PRICE', (x) => `${x.symbol},${iso(x.t)},${x.p}`),
      ),
    flags: '--columns symbol=TICKER,t=TIMESTAMP,p=PRICE',
  },
  'gzip without an extension': {
    write: (files) => put(files, 'feed', gzipSync(lines('symbol,t,p', (x) => `${x.symbol},${x.t},${x.p}`))),
    flags: '--format csv',
  },
};

/** The flags that a refusal suggests, split as a shell splits them. */
function suggestedFlags(text: string): string[] {
  const flags = /can be read with:\n {2}(--.*)/.exec(text)?.[1] ?? /Use (--.*?)(?:\. |\.?$)/m.exec(text)?.[1];
  expect(flags, text).toBeDefined();
  return execFileSync('sh', ['-c', `printf '%s\\n' ${flags}`], { encoding: 'utf8' })
    .trimEnd()
    .split('\n');
}

const common = ['--set', 'source.name=box'];

describe('a feed is imported by the command that the first one suggests', () => {
  test.each(Object.entries(tickFeeds))('%s', async (_, { write, flags }) => {
    const path = await write(folder());
    const output = folder();
    const refused = await run(['import', path, '--output', output, ...common]);
    expect(refused.code, refused.stderr).toBeGreaterThanOrEqual(2);
    expect(ticksOf(output).size).toBe(0);
    const suggested = suggestedFlags(refused.stderr + refused.stdout);
    expect(suggested.join(' ')).toBe(flags);
    const taken = await run(['import', path, '--output', output, ...common, ...suggested]);
    expect(taken.code, taken.stderr).toBe(0);
    const stored = [...ticksOf(output)].flatMap(([symbol, of]) => of.map(({ t, p }) => ({ symbol, t, p })));
    const expected = ticks.map(({ symbol, t, p }) => ({ symbol, t, p: cents(p) / 100 }));
    expect(stored.sort((a, b) => a.t - b.t)).toEqual(expected);
  });

  test('order books as lists in text', async () => {
    const books = ticks.map(({ symbol, t, p }) => ({ symbol, t, bid: p, ask: Number((p + 0.02).toFixed(2)) }));
    const rows = books.map((x) => `${x.symbol},${x.t},"[(${x.bid}, 100), (0.01, 5)]","[[${x.ask}, 7]]"`);
    const path = put(folder(), 'books.csv', `asset_id,timestamp,bids,asks\n${rows.join('\n')}\n`);
    const output = folder();
    const refused = await run(['import', path, '--output', output, ...common]);
    expect(refused.code, refused.stderr).toBe(2);
    const suggested = suggestedFlags(refused.stderr);
    expect(suggested.join(' ')).toBe('--dataset orderbooks --columns symbol=asset_id,t=timestamp');
    const args = ['import', path, '--output', output, ...common, ...suggested];
    const taken = await run(args);
    expect(taken.code, taken.stderr).toBe(0);
    expect(taken.stdout).toMatch(/books +2 of 2 symbols · 50 snapshots/);
    expect((await run(['symbols', '--output', output])).stdout).toContain('KXRAIN-26NOV20');
    const sql =
      'SELECT symbol, epoch_ms(t) AS t, side, level, price, quantity FROM orderbooks ORDER BY t, side DESC, level';
    const read = async () => JSON.parse((await run(['sql', sql, '--format', 'json', '--output', output])).stdout);
    const expected = books.flatMap(({ symbol, t, bid, ask }) => [
      { symbol, t, side: 'bid', level: 0, price: bid, quantity: 100 },
      { symbol, t, side: 'bid', level: 1, price: 0.01, quantity: 5 },
      { symbol, t, side: 'ask', level: 0, price: ask, quantity: 7 },
    ]);
    expect(await read()).toEqual(expected);
    // Again changes nothing.
    expect(await run(args)).toMatchObject({ code: 0 });
    expect(await read()).toEqual(expected);
    const coverage = await run(['sql', 'SELECT count(*) AS n FROM coverage', '--format', 'json', '--output', output]);
    expect(JSON.parse(coverage.stdout)).toEqual([{ n: 0 }]);
    const covers = await run([...args, '--covers', '2026-07-11..2026-07-12']);
    expect(covers.code).toBe(2);
    expect(covers.stderr).toMatch(/--covers applies to ticks, quotes and trades only/);
    const bad = put(folder(), 'bad.csv', `symbol,t,bids,asks\n${'A,1783771200000,many,few\n'.repeat(3)}`);
    const rejected = await run(['import', bad, '--output', output, ...common]);
    expect(rejected.code).toBe(4);
    expect(rejected.stdout + rejected.stderr).toMatch(/3 of 3 rows rejected.*bids is not a list of levels/s);
    expect(await read()).toEqual(expected);
  });
});

test('order books that an archive exported are the same in another one', async () => {
  const { output } = await collectedBooks();
  const path = join(folder(), 'books.parquet');
  const exported = await run(['export', '--out', path, '--dataset', 'orderbooks', '--output', output]);
  expect(exported.code, exported.stderr).toBe(0);
  const copy = folder();
  const taken = await run(['import', path, '--output', copy, ...common]);
  expect(taken.code, taken.stderr).toBe(0);
  const all = async (root: string) =>
    (await run(['sql', 'SELECT * FROM orderbooks ORDER BY ALL', '--format', 'csv', '--output', root])).stdout;
  const expected = await all(output);
  expect(expected.split('\n').length).toBeGreaterThan(10);
  expect(await all(copy)).toBe(expected);
});

test('order books of raw responses are imported alone, if a flag says so', async () => {
  const { output } = await collectedBooks();
  const copy = folder();
  const args = ['import', join(output, '.oddslake/raw'), '--dataset', 'orderbooks', '--output', copy, ...common];
  const taken = await run([...args, '--json']);
  expect(taken.code, taken.stderr).toBe(0);
  const count = async (root: string, table: string) =>
    (await run(['sql', `SELECT count(*) AS n FROM ${table}`, '--format', 'csv', '--output', root])).stdout;
  expect(await count(copy, 'orderbooks')).toBe(await count(output, 'orderbooks'));
  for (const table of ['ticks', 'markets']) expect(await count(copy, table), table).toBe('n\n0\n');
});

test('levels whose time is written in two ways are refused', async () => {
  const level = (t: string, price: number): string => `A,${t},bid,${price},1\n`;
  // The same time in two forms: the levels of one order book are apart.
  const text = `symbol,t,side,price,quantity\n${level('2026-07-11T00:00:00Z', 0.4)}${level('2026-07-11T00:00:01Z', 0.4)}${level('2026-07-11T02:00:00+02:00', 0.3)}`;
  const output = folder();
  const args = ['import', put(folder(), 'a.csv', text), '--dataset', 'orderbooks', '--output', output, ...common];
  const refused = await run(args);
  expect(refused.code, refused.stderr).toBe(2);
  expect(refused.stderr + refused.stdout).toMatch(/the time 2026-07-11T00:00:00Z of A is written in two ways/);
});

test('a dry run shows the first rows as they would be stored, and names what is not imported', async () => {
  const path = await tickFeeds['a CSV of isoformat() with microseconds']!.write(folder());
  const output = folder();
  const flags = tickFeeds['a CSV of isoformat() with microseconds']!.flags.split(' ');
  const args = ['import', path, '--output', output, ...common, ...flags];
  const shown = await run([...args, '--dry-run']);
  expect(shown.stdout).toContain(`${path}: 50 rows, 0 rejected\n`);
  const both = '--dataset ticks,quotes --columns symbol=ticker,t=timestamp,p=price imports ticks and quotes';
  expect(shown.stdout).toContain(`  not imported: bid, ask, volume\n  ${both}\n`);
  expect(shown.stdout).toMatch(/KXBTCD-26NOV20-B90025 +2026-07-11T00:00:00Z +0\.2\n/);
  expect(shown.stdout).toMatch(/the first 5 rows/);
  const json = JSON.parse((await run([...args, '--dry-run', '--json'])).stdout.split('\n')[0]!);
  expect(json.files[0].first_rows).toHaveLength(5);
  expect(json.files[0].first_rows[1]).toEqual({ symbol: 'KXRAIN-26NOV20', t: ticks[1]!.t, p: 0.21 });
  expect(json.files[0].unused_columns).toEqual(['bid', 'ask', 'volume']);
  const taken = await run([...args, '--json']);
  expect(JSON.parse(taken.stdout)).toMatchObject({
    exit_code: 0,
    warnings: [`Columns that were not imported: bid, ask, volume (${path}). ${both}.`],
  });
});

test('a mapping that was saved reads the next file of the feed, and flags have precedence', async () => {
  const { write, flags } = tickFeeds['JSON lines of a websocket']!;
  const files = folder();
  const path = await write(files);
  const mapping = join(files, 'feed.yaml');
  const saved = await run([
    'import',
    path,
    '--output',
    folder(),
    ...common,
    ...flags.split(' '),
    '--save-mapping',
    mapping,
  ]);
  expect(saved.code, saved.stderr).toBe(0);
  const output = folder();
  const taken = await run(['import', path, '--output', output, ...common, '--mapping', mapping]);
  expect(taken.code, taken.stderr).toBe(0);
  expect([...ticksOf(output).values()].flat()).toHaveLength(n);
  const others = ['--mapping', mapping, '--where', 'type=trade', '--json'];
  const none = await run(['import', path, '--output', folder(), ...common, ...others]);
  expect(JSON.parse(none.stdout)).toMatchObject({ exit_code: 0, ticks: { fetched: 0 } });
  for (const [text, reason] of [
    ['timeunit: s', /unknown key timeunit/],
    ['time_unit: m', /time_unit is "m", expected one of s, ms, us, ns, auto/],
    ['columns: [a]', /columns is \["a"\], expected names and their columns/],
    ['truncate_time: 1', /truncate_time is "1", expected true or false/],
    ['- a', /expected keys and values/],
    ['a: [', /cannot be read/],
  ] as const) {
    const refused = await run(['import', path, '--output', folder(), '--mapping', put(files, 'bad.yaml', text)]);
    expect(refused.code, text).toBe(2);
    expect(refused.stderr).toMatch(reason);
  }
});

test('prices that look like cents are stored as they are, if a flag says so', async () => {
  const path = put(
    folder(),
    'a.csv',
    lines('symbol,t,p', (x) => `${x.symbol},${x.t},${cents(x.p)}`),
  );
  const output = folder();
  expect(await run(['import', path, '--output', output, ...common, '--price-scale', '1'])).toMatchObject({ code: 0 });
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
