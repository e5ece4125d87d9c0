import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { runDocumentedImport } from './documented-import.ts';
import { day0, imported, importFile, put, refused, select, suggestedFlags, writeParquet } from './import-lake.ts';
import { expectDone, folder, hashes } from './lake.ts';
import { run } from './run-program.ts';

// Files with trades, as feeds write them.

const asTrades = ['--dataset', 'trades'];
const n = 40;

/** Trades of two symbols, some of them several in one millisecond, and some of those equal. */
const trades = Array.from({ length: n }, (_, i) => ({
  symbol: i % 2 === 0 ? 'KXBTCD-26NOV20-B90025' : 'KXRAIN-26NOV20',
  t: day0 + 1000 + Math.floor(i / 6) * 61_000,
  trade_id: `${900 + i}`,
  price: (20 + (i % 3)) / 100,
  size: 1 + (i % 4 === 0 ? 0 : i % 5),
  aggressor: i % 3 === 0 ? 'buy' : 'sell',
}));

const tradesOf = (output: string) =>
  select(
    output,
    'SELECT symbol, epoch_ms(t) AS t, trade_id, price, size, aggressor FROM trades ORDER BY CAST(trade_id AS INTEGER)',
  );

type FeedTrade = (typeof trades)[number];
const lines = (row: (one: FeedTrade) => string): string => `${trades.map(row).join('\n')}\n`;

const inCents = `ticker,created_time,trade_id,yes_price,count,taker_side\n${lines((x) => {
  const side = x.aggressor === 'buy' ? 'yes' : 'no';
  return [x.symbol, new Date(x.t).toISOString(), x.trade_id, Math.round(x.price * 100), x.size, side].join();
})}`;
const centsFlags =
  '--columns symbol=ticker,t=created_time,price=yes_price,size=count,aggressor=taker_side --price-scale 0.01';

describe('a file of trades is imported by the command that the first one suggests', () => {
  async function expectSuggested(path: string, flags: string): Promise<void> {
    const suggested = suggestedFlags(await refused(path, 2, /can be read with/, ...asTrades));
    expect(suggested.join(' ')).toBe(flags);
    const output = folder();
    const all = [...asTrades, ...suggested, '--covers', '2026-07-11..2026-07-12', '--json'];
    const taken = await expectDone(importFile(path, all, output));
    const counts = { fetched: n, accepted: n, duplicates: 0, conflicts: 0, quarantined: 0, recovered: 0 };
    expect(taken.summary).toMatchObject({ trades: counts, ticks: { fetched: 0 }, symbols: { planned: 2, done: 2 } });
    expect(await tradesOf(output)).toEqual(trades);
    const coverage = 'SELECT dataset, symbol, ticks, evidence FROM coverage ORDER BY symbol';
    const row = { dataset: 'trades', ticks: n / 2, evidence: 'declared' };
    expect(await select(output, coverage)).toEqual(trades.slice(0, 2).map(({ symbol }) => ({ symbol, ...row })));
    // Again changes nothing.
    const before = hashes(output, 'trades', 'coverage', 'trade_conflicts');
    const again = await importFile(path, all, output);
    expect(again.summary).toMatchObject({ trades: { ...counts, accepted: 0, duplicates: n }, published: { files: 0 } });
    expect(hashes(output, 'trades', 'coverage', 'trade_conflicts')).toEqual(before);
    await expectDone(run(['verify', '--output', output]));
  }

  test('a CSV of trades in cents', () => expectSuggested(put(folder(), 'feed.csv', inCents), centsFlags));

  test('JSON lines with nested fields', async () => {
    const text = lines((x) => {
      const msg = { price: String(x.price), size: String(x.size), side: x.aggressor.toUpperCase(), id: x.trade_id };
      return JSON.stringify({ asset_id: x.symbol, timestamp: x.t, msg });
    });
    const columns = 'symbol=asset_id,t=timestamp,price=msg/price,size=msg/size,trade_id=msg/id,aggressor=msg/side';
    await expectSuggested(put(folder(), 'feed.jsonl', text), `--columns ${columns}`);
  });

  test('Parquet with decimals', async () => {
    const values = trades.map(
      (x) => `('${x.symbol}', ${x.t}::BIGINT, ${x.trade_id}, '${x.price}', ${x.size}, '${x.aggressor}')`,
    );
    const sql = `SELECT symbol AS ticker, make_timestamp(t * 1000) AS ts, id::BIGINT AS trade_id, price::DECIMAL(30, 20) AS price, size::BIGINT AS size, side FROM (VALUES ${values.join()}) v(symbol, t, id, price, size, side)`;
    const path = await writeParquet(join(folder(), 'feed.parquet'), sql);
    await expectSuggested(path, '--columns symbol=ticker,t=ts,aggressor=side --tz UTC');
  });
});

describe('a file of trades that is imported without --dataset', () => {
  const hint = `trade_id, count and taker_side look like trades: --dataset trades ${centsFlags} imports them; without it, prices are stored as ticks`;
  const ticksFlags = centsFlags.replace('price=', 'p=').replace(/,size=count.*taker_side/, '');
  const write = (): string => put(folder(), 'feed.csv', inCents);

  test('is refused with the flags for both, of which those for trades import trades', async () => {
    const path = write();
    const printed = await refused(path, 2, /Of the first 40 rows/);
    expect(printed).toContain(`; ${hint}. Of the first 40 rows`);
    expect(suggestedFlags(printed).join(' ')).toBe(ticksFlags);
    const [, suggested] = /look like trades: (--.*?) imports them/.exec(printed)!;
    const output = folder();
    const { summary } = await importFile(path, [...suggested!.split(' '), '--json'], output);
    expect(summary).toMatchObject({ exit_code: 0, trades: { accepted: n }, ticks: { fetched: 0 }, warnings: [] });
    expect(await tradesOf(output)).toEqual(trades);
  });

  test('is a warning if its prices are imported as ticks, also in a dry run, unless a flag says so', async () => {
    const path = write();
    const take = (...flags: string[]) => importFile(path, [...ticksFlags.split(' '), ...flags]);
    // What is given is not suggested.
    const scaled = hint.replace(' --price-scale 0.01', '');
    expect((await take('--dry-run')).stdout).toContain(`\n  ${scaled}\n`);
    const json = JSON.parse((await take('--dry-run', '--json')).stdout.split('\n')[0]!);
    expect(json.files[0].trades_flags.join(' ')).toBe(
      `--dataset trades ${centsFlags.replace(' --price-scale 0.01', '')}`,
    );
    const unused = `Columns that were not imported: trade_id, count, taker_side (${path}).`;
    const named = scaled.replace('look like trades', `look like trades (${path})`);
    expect((await take('--json')).summary).toMatchObject({
      exit_code: 0,
      ticks: { fetched: n },
      warnings: [unused, `${named}. --dataset ticks confirms that.`],
    });
    const confirmed = await take('--dataset', 'ticks', '--json');
    expect(confirmed.summary).toMatchObject({ exit_code: 0, warnings: [unused] });
    expect((await take('--dataset', 'ticks', '--dry-run')).stdout).not.toContain('look like trades');
  });

  test('is named in the refusal of its prices or times, in every format', async () => {
    for (const name of ['a.csv', 'a.ndjson']) {
      const cells = { symbol: 'A', t: day0, p: 44, size: 2, side: 'buy' };
      const text = name.endsWith('csv')
        ? `${Object.keys(cells).join()}\n${Object.values(cells).join()}\n`
        : `${JSON.stringify(cells)}\n`;
      await refused(
        put(folder(), name, text),
        2,
        /the prices look like cents.*\. size and side look like trades: --dataset trades --columns price=p,aggressor=side --price-scale 0\.01 imports them; without it, prices are stored as ticks\. p looks like/s,
      );
    }
  });
});

const header = 'symbol,t,price,size,aggressor\n';
const line = (t: number, price = 0.5, size = 2, aggressor = 'buy'): string => `A,${t},${price},${size},${aggressor}\n`;

describe('trades without identifiers', () => {
  const importInto = async (output: string, rows: string) => {
    const { summary } = await importFile(put(folder(), 'a.csv', header + rows), [...asTrades, '--json'], output);
    expect(summary.exit_code).toBe(0);
    return summary.trades!;
  };
  const countsOf = (output: string) =>
    select(output, 'SELECT price, CAST(count(*) AS INTEGER) AS n FROM trades GROUP BY price ORDER BY price');

  test('are all kept if they are equal, and of two files that overlap the larger number', async () => {
    const output = folder();
    expect(await importInto(output, line(day0).repeat(3) + line(day0 + 1, 0.25))).toMatchObject({ accepted: 4 });
    expect(await importInto(output, line(day0).repeat(2) + line(day0 + 1, 0.25).repeat(2))).toMatchObject({
      accepted: 1,
      duplicates: 3,
    });
    expect(await countsOf(output)).toEqual([
      { price: 0.25, n: 2 },
      { price: 0.5, n: 3 },
    ]);
    const ids = await select(output, 'SELECT trade_id, seq FROM trades ORDER BY t, seq');
    expect(ids.slice(0, 3)).toEqual([0, 1, 2].map((seq) => ({ trade_id: `=${day0},0.5,2,buy#${seq}`, seq })));
  });

  test('are the same trades in another order and another format', async () => {
    const rows = [line(day0), line(day0, 0.25), line(day0), line(day0 + 5), line(day0 + 5, 0.25, 2, 'sell')];
    const output = folder();
    await importInto(output, rows.join(''));
    const before = hashes(output, 'trades');
    expect(await importInto(output, rows.toReversed().join(''))).toMatchObject({ accepted: 0, duplicates: 5 });
    expect(hashes(output, 'trades')).toEqual(before);
    const json = rows.map((one) => {
      const [symbol, t, price, size, aggressor] = one.trim().split(',');
      return `${JSON.stringify({ symbol, t: Number(t), price: Number(price), size: Number(size), aggressor })}\n`;
    });
    const other = await imported(put(folder(), 'a.ndjson', json.join('')), asTrades);
    expect(hashes(other, 'trades')).toEqual(before);
  });
});

test('an export of trades gives the same archive, and needs no flag', async () => {
  const files = folder();
  const output = folder();
  const rows = [
    'symbol,t,trade_id,price,size,aggressor,block,tx_hash',
    `A,${day0},b,0.1234567890123456789,3,buy,true,0xab`,
    `A,${day0},a,0.5,12345678901234567890,,,`,
    `A,${day0},,0.5,1,sell,false,`,
    `B,${day0 + 86_400_000},a,0.5,1,sell,false,`,
  ];
  const path = put(files, 'trades.csv', `${rows.join('\n')}\n`);
  const taken = await expectDone(importFile(path, [], output));
  expect(taken.stdout).toMatch(/^ *trades +4 new$/m);
  for (const format of ['parquet', 'csv', 'ndjson'] as const) {
    const exported = join(files, `trades.out.${format}`);
    await expectDone(run(['export', '--out', exported, '--dataset', 'trades', '--output', output]));
    expect(hashes(await imported(exported), 'trades'), format).toEqual(hashes(output, 'trades'));
  }
});

test('an identifier keeps its digits in JSON lines', async () => {
  const id = '12345678901234567890';
  const path = put(folder(), 'a.ndjson', `{"symbol":"A","t":${day0},"trade_id":${id},"price":0.50,"size":1}\n`);
  const output = await imported(path, asTrades);
  expect(await select(output, 'SELECT trade_id, price FROM trades')).toEqual([{ trade_id: id, price: 0.5 }]);
});

test('a dry run shows trades as they would be stored', async () => {
  const path = put(folder(), 'a.csv', header + line(day0) + line(day0, 0.5, 0));
  const output = folder();
  const shown = await importFile(path, [...asTrades, '--allow-rejected', '1', '--dry-run'], output);
  expect(shown.stdout).toContain('2 rows, 1 rejected');
  expect(shown.stdout).toContain('size is zero');
  expect(shown.stdout).toMatch(/trade_id +price +size +aggressor/);
  expect(shown.stdout).toContain(`=${day0},0.5,2,buy#0`);
  expect(existsSync(join(output, 'trades'))).toBe(false);
});

test('prices of trades in cents are refused', async () => {
  const path = put(folder(), 'a.csv', header + line(day0, 44) + line(day0 + 1, 46));
  await refused(path, 2, /the prices look like cents.*\n {2}--price-scale 0.01/s, ...asTrades);
});

test('an unsorted file with too many trades without identifiers is refused, however few of them are rejected', async () => {
  const rows = Array.from({ length: 301_000 }, (_, i) => `A,${day0 + ((i * 7919) % 301_000) * 10},0.5,1`);
  const file = put(folder(), 'unsorted.csv', `symbol,t,price,size\n${rows.join('\n')}\n`);
  await refused(file, 4, /1,000 of 301,000 rows rejected: nothing.*sort the file/s, ...asTrades);
  const output = await imported(file, [...asTrades, '--allow-rejected', '0.01']);
  expect(await select(output, 'SELECT count(*) AS n FROM trades')).toEqual([{ n: 300_000 }]);
});

test('files that cannot be trades are refused', async () => {
  const page = put(folder(), 'page.json', '{"symbol":"A","ticks":[]}');
  await refused(page, 2, /is a saved page: trades are imported from rows/, ...asTrades);
  await refused(put(folder(), 'a.csv', 'symbol,t,price\n'), 2, /missing column size /, ...asTrades);
});

test('views join trades with quotes, and sum their flow by minute', async () => {
  const output = folder();
  const rows = [
    line(day0 + 1, 0.5, 2, 'buy'),
    line(day0 + 1, 0.5, 2, 'buy'),
    line(day0 + 59_999, 0.25, 4, 'sell'),
    line(day0 + 60_000, 0.75, 1, ''),
  ];
  const path = put(folder(), 'a.csv', header + rows.join(''));
  const block = put(folder(), 'b.csv', `symbol,t,price,size,block\nA,${day0 + 2},0.9,1000,true\n`);
  for (const file of [path, block]) await imported(file, asTrades, output);
  const quotes = put(folder(), 'q.csv', `symbol,t,bid,ask\nA,${day0 + 1},0.4,0.5\nA,${day0 + 2},0.3,\n`);
  await imported(quotes, [], output);
  expect(await select(output, 'SELECT * EXCLUDE (t, date), epoch_ms(t) AS t FROM order_flow ORDER BY ALL')).toEqual(
    [
      { trades: 3, volume: 8, buy_volume: 4, sell_volume: 4, net_volume: 0, vwap: 0.375, t: day0 },
      { trades: 1, volume: 1, buy_volume: 0, sell_volume: 0, net_volume: 0, vwap: 0.75, t: day0 + 60_000 },
    ]
      .map((row) => ({ symbol: 'A', ...row }))
      .sort((a, b) => a.trades - b.trades),
  );
  const joined =
    'SELECT epoch_ms(t) - 1783728000000 AS t, size, bid, ask, epoch_ms(quote_t) - 1783728000000 AS q FROM trades_with_quotes ORDER BY trades_with_quotes.t, seq';
  expect(day0).toBe(1783728000000);
  expect(await select(output, joined)).toEqual([
    { t: 1, size: 2, bid: 0.4, ask: 0.5, q: 1 },
    { t: 1, size: 2, bid: 0.4, ask: 0.5, q: 1 },
    { t: 2, size: 1000, bid: 0.3, ask: null, q: 2 },
    { t: 59_999, size: 4, bid: 0.3, ask: null, q: 2 },
    { t: 60_000, size: 1, bid: 0.3, ask: null, q: 2 },
  ]);
});

test('the gaps of trades are the windows that no import has declared', async () => {
  const output = folder();
  const day = 86_400_000;
  const file = (symbol: string, t: number): string =>
    put(folder(), 'a.csv', `symbol,t,price,size\n${symbol},${t},0.5,1\n`);
  for (const [path, covers] of [
    [file('A', day0 + 1), '2026-07-11..2026-07-12'],
    [file('A', day0 + 2 * day), '2026-07-13..2026-07-14'],
    [file('B', day0 + day), '2026-07-12..2026-07-14'],
  ] as const)
    await imported(path, [...asTrades, '--covers', covers], output);
  // Rows that nobody declared are known, and covered by nothing.
  await imported(file('C', day0 + 3 * day), asTrades, output);
  const listed = await expectDone(run(['gaps', '--dataset', 'trades', '--json', '--output', output]));
  const { from, to, gaps } = JSON.parse(listed.stdout) as { from: number; to: number; gaps: Record<string, unknown>[] };
  expect([from, to]).toEqual([day0, day0 + 3 * day + 1]);
  const reason = 'never asked';
  const inside = gaps.map((gap) => [gap.symbol, (Number(gap.from) - day0) / day, (Number(gap.to) - day0) / day]);
  expect(gaps.every((gap) => gap.reason === reason)).toBe(true);
  // When B and C began is unknown.
  expect(inside).toEqual([
    ['A', 1, 2],
    ['A', 3, 3 + 1 / day],
    ['B', 0, 1],
    ['B', 3, 3 + 1 / day],
    ['C', 0, 3 + 1 / day],
  ]);
  const one = await run(['gaps', '--dataset', 'trades', '--symbol', 'A', '--to', '2026-07-13', '--output', output]);
  expect(one.stdout).toMatch(/^2026-07-12T00:00:00Z … 2026-07-13T00:00:00Z .* A {2}never asked\n1 gap of 1 symbol/);
  const none = await run(['gaps', '--dataset', 'quotes', '--output', output]);
  expect(none.stdout).toMatch(/^no gaps/);
});

test('the example of docs/IMPORT.md imports trades, and prints what the page shows', async () => {
  const { printed, shown } = await runDocumentedImport('Trades', ['--set', 'source.name=box']);
  expect(printed[0]).toMatch(/trades +3 new\n/);
  expect(printed[1]).toBe(shown);
});
