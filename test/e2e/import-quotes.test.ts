import { existsSync } from 'node:fs';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { quarantineLines } from '../harness/quarantine.ts';
import { runDocumentedImport } from './documented-import.ts';
import {
  day0,
  imported,
  importFile,
  put,
  refused,
  select,
  storedTicks,
  suggestedFlags,
  writeParquet,
  writtenAt,
} from './import-lake.ts';
import { expectDone, folder, hashes, rowHashes } from './lake.ts';
import { run } from './run-program.ts';

// Files with quotes, as feeds write them. Where the first command is refused, the second one adds exactly the flags that the
// first one suggests.

interface FeedQuote {
  readonly symbol: string;
  readonly t: number;
  readonly bid: number | null;
  readonly ask: number | null;
  readonly bid_size: number | null;
  readonly ask_size: number | null;
}

const n = 40;
const quotes: readonly FeedQuote[] = Array.from({ length: n }, (_, i) => ({
  symbol: i % 2 === 0 ? 'KXBTCD-26NOV20-B90025' : 'KXRAIN-26NOV20',
  t: day0 + i * 61_000 + (i % 7) * 100,
  bid: i % 10 === 3 ? null : (i + 20) / 100,
  // Some are crossed.
  ask: i % 10 === 4 ? null : (i + (i % 10 === 5 ? 19 : 22)) / 100,
  bid_size: i % 3 === 0 ? null : 100 + i,
  ask_size: i % 4 === 0 ? null : 7.5 * i,
}));

const withoutSizes = quotes.map((quote) => ({ ...quote, bid_size: null, ask_size: null }));
const cell = (value: number | null, none = ''): string => (value === null ? none : String(value));
const cents = (value: number | null): number | null => (value === null ? null : Math.round(value * 100));
const lines = (header: string, row: (quote: FeedQuote, i: number) => string): string =>
  `${[header, ...quotes.map(row)].join('\n')}\n`;

const quotesOf = (output: string) =>
  select(output, 'SELECT symbol, epoch_ms(t) AS t, bid, ask, bid_size, ask_size FROM quotes ORDER BY t, symbol');

/** A file of each feed, the flags that are suggested for it, and its quotes. */
const feeds: Readonly<Record<string, readonly [file: string, text: string, flags: string, readonly FeedQuote[]]>> = {
  'a CSV of best prices': [
    'feed.csv',
    lines('ticker,timestamp,best_bid,best_ask,bid_size,ask_qty', (x) =>
      [x.symbol, new Date(x.t).toISOString(), ...[x.bid, x.ask, x.bid_size, x.ask_size].map((v) => cell(v))].join(),
    ),
    '--dataset quotes --columns symbol=ticker,t=timestamp,bid=best_bid,ask=best_ask,ask_size=ask_qty',
    quotes,
  ],
  'JSON lines of a websocket, in cents, with prices of NO': [
    'feed.jsonl',
    lines('{"type":"subscribed","msg":{"channel":"ticker"}}', ({ symbol, t, bid, ask }) => {
      const msg = { market_ticker: symbol, ts: t, yes_bid: cents(bid), yes_ask: cents(ask), no_bid: 50, no_ask: 51 };
      return JSON.stringify({ type: 'ticker', msg });
    }),
    '--dataset quotes --columns symbol=msg/market_ticker,t=msg/ts,bid=msg/yes_bid,ask=msg/yes_ask --where type=ticker --price-scale 0.01',
    withoutSizes,
  ],
  'semicolons and decimal commas, NaN for none': [
    'feed.csv',
    lines('Symbol;T;Bid;Ask', (x) =>
      [x.symbol, x.t, ...[x.bid, x.ask].map((price) => cell(price, 'NaN').replace('.', ','))].join(';'),
    ),
    '--decimal-comma',
    withoutSizes,
  ],
};

async function expectSuggested(path: string, flags: string, expected: readonly FeedQuote[]): Promise<void> {
  const output = folder();
  const { code, stdout, stderr } = await importFile(path, [], output);
  expect(code, stdout).toBeGreaterThanOrEqual(2);
  expect(existsSync(join(output, 'quotes'))).toBe(false);
  const suggested = suggestedFlags(stderr + stdout);
  expect(suggested.join(' ')).toBe(flags);
  if (flags.includes('yes_bid')) expect(stderr).toContain('msg/no_bid, msg/no_ask: prices of NO');
  const taken = await importFile(path, [...suggested, '--json'], output);
  const counts = { fetched: n, accepted: n, duplicates: 0, conflicts: 0, quarantined: 0, recovered: 0 };
  expect(taken.code, taken.stderr).toBe(0);
  expect(taken.summary).toMatchObject({ quotes: counts, ticks: { fetched: 0 }, symbols: { planned: 2, done: 2 } });
  expect(await quotesOf(output)).toEqual(expected);
  // Again changes nothing.
  const before = hashes(output, 'quotes', 'coverage', 'quote_conflicts');
  const again = await importFile(path, [...suggested, '--json'], output);
  expect(again.summary).toMatchObject({ quotes: { ...counts, accepted: 0, duplicates: n }, published: { files: 0 } });
  expect(hashes(output, 'quotes', 'coverage', 'quote_conflicts')).toEqual(before);
  await expectDone(run(['verify', '--output', output]));
}

describe('a file of quotes is imported by the command that the first one suggests', () => {
  test.each(Object.entries(feeds))('%s', (_, [file, text, flags, expected]) =>
    expectSuggested(put(folder(), file, text), flags, expected),
  );

  test('Parquet of pandas, with NaN', async () => {
    const values = quotes.map((x) => {
      const sizes = [x.bid_size, x.ask_size].map((size) => cell(size, 'NULL')).join();
      return `('${x.symbol}', ${x.t}::BIGINT, '${cell(x.bid, 'NaN')}', '${cell(x.ask, 'NaN')}', ${sizes})`;
    });
    const types =
      'bid::DOUBLE AS bid, ask::DOUBLE AS ask, bid_size::BIGINT AS bid_size, ask_size::DECIMAL(10, 1) AS ask_size';
    const sql = `SELECT symbol AS ticker, make_timestamp(t * 1000) AS ts, ${types} FROM (VALUES ${values.join()}) v(symbol, t, bid, ask, bid_size, ask_size)`;
    const path = await writeParquet(join(folder(), 'feed.parquet'), sql);
    await expectSuggested(path, '--dataset quotes --columns symbol=ticker,t=ts --tz UTC', quotes);
  });
});

describe('a wide file', () => {
  const write = (): string =>
    put(
      folder(),
      'wide.csv',
      lines(
        'ticker,t,last,bid,ask,volume',
        (x, i) => `${x.symbol},${x.t},${i % 4 === 1 ? '' : 0.5},${cell(x.bid)},${cell(x.ask)},7`,
      ),
    );
  const columns = ['--columns', 'symbol=ticker,p=last'];
  const ticks = quotes.filter((_, i) => i % 4 !== 1).map(({ symbol, t }) => ({ symbol, t, p: 0.5 }));

  test('feeds ticks unless both datasets are named, and the flags for both are reported', async () => {
    const path = write();
    const output = folder();
    const flags = [...columns, '--allow-rejected', '1'];
    const hint = '--dataset ticks,quotes --columns symbol=ticker,p=last imports ticks and quotes';
    const shown = await importFile(path, [...flags, '--dry-run']);
    expect(shown.stdout).toContain(`  not imported: bid, ask, volume\n  ${hint}\n`);
    const taken = await importFile(path, [...flags, '--json'], output);
    expect(taken.summary.warnings).toContain(`Columns that were not imported: bid, ask, volume (${path}). ${hint}.`);
    expect(taken.summary).toMatchObject({ ticks: { accepted: ticks.length, quarantined: n - ticks.length } });
    expect(taken.summary).not.toHaveProperty('quotes');
    expect(await select(output, 'SELECT * FROM quotes')).toEqual([]);
  });

  test('feeds both, and a row may lack either', async () => {
    const path = write();
    const output = folder();
    const both = ['--dataset', 'quotes,ticks', ...columns];
    const shown = await importFile(path, [...both, '--dry-run']);
    expect(shown.stdout).toContain(`${path}, ticks: 30 rows, 0 rejected\n  not imported: volume\n`);
    expect(shown.stdout).toMatch(/, quotes: 40 rows, 0 rejected\n(.*\n){2}.*2026-07-11T00:00:00Z +0\.2 +0\.22\n/);
    const flags = [...both, '--json', '--covers', '2026-07-11..2026-07-12'];
    const taken = await expectDone(importFile(path, flags, output));
    expect(taken.summary).toMatchObject({
      ticks: { fetched: 30, accepted: 30 },
      quotes: { fetched: n, accepted: n },
      symbols: { planned: 2, done: 2 },
    });
    expect(storedTicks(output)).toEqual(ticks);
    expect(await quotesOf(output)).toEqual(withoutSizes);
    const coverage = await select(
      output,
      'SELECT dataset, symbol, epoch_ms(t_from) AS a, epoch_ms(t_to) AS b, ticks, origin, evidence FROM coverage ORDER BY ALL',
    );
    const covered = { a: day0, b: day0 + 86_400_000, origin: 'import', evidence: 'declared' };
    const [first, second] = [quotes[0]!.symbol, quotes[1]!.symbol];
    expect(coverage).toEqual([
      { dataset: 'quotes', symbol: first, ticks: 20, ...covered },
      { dataset: 'quotes', symbol: second, ticks: 20, ...covered },
      { dataset: 'ticks', symbol: first, ticks: 20, ...covered },
      { dataset: 'ticks', symbol: second, ticks: 10, ...covered },
    ]);
    const mapped = folder();
    const again = await expectDone(importFile(path, both, mapped));
    expect(again.stdout).toMatch(/ticks +30 new\n +quotes +40 new\n/);
    expect(hashes(mapped, 'ticks', 'quotes')).toEqual(hashes(output, 'ticks', 'quotes'));
  });

  test('gives the same bytes from every format, however often it is published, and from an export', async () => {
    const files = folder();
    const rows = quotes.map((x, i) => ({ ...x, p: i % 4 === 1 ? null : 0.5 }));
    const names = ['symbol', 't', 'p', 'bid', 'ask', 'bid_size', 'ask_size'] as const;
    const csv = rows.map((row) => names.map((name) => row[name] ?? '').join()).join('\n');
    const path = put(files, 'wide.csv', `${names.join()}\n${csv}\n`);
    const nested = rows.map(({ symbol, ...msg }) => `${JSON.stringify({ symbol, msg })}\n`).join('');
    const paths = names.slice(1).map((name) => `${name}=msg/${name}`);
    const values = rows.map((x) => `('${x.symbol}', ${names.slice(1).map((name) => x[name] ?? 'NULL')})`);
    const parquet = await writeParquet(
      join(files, 'wide.parquet'),
      `SELECT symbol, t::BIGINT AS t, p::DOUBLE AS p, bid::DOUBLE AS bid, ask::DOUBLE AS ask, bid_size::INTEGER AS bid_size, ask_size::DOUBLE AS ask_size FROM (VALUES ${values.join(', ')}) v(${names.join()})`,
    );
    const both = ['--dataset', 'ticks,quotes'];
    const bytesOf = (output: string) => rowHashes(output, 'ticks', 'quotes', 'coverage');
    const output = await imported(path, both);
    const ndjson = put(files, 'wide.ndjson', nested);
    for (const [of, ...flags] of [
      [path, '--set', 'publish.journal_ticks_max=1'],
      [parquet],
      [ndjson, '--columns', paths.join()],
    ] as const)
      expect(bytesOf(await imported(of, [...both, ...flags])), of).toEqual(bytesOf(output));
    const exported = join(files, 'quotes.parquet');
    await expectDone(run(['export', '--out', exported, '--dataset', 'quotes', '--output', output]));
    expect(hashes(await imported(exported), 'quotes')).toEqual(hashes(output, 'quotes'));
  });

  test('is refused if too many rows of one dataset are rejected', async () => {
    const rows = Array.from({ length: 200 }, (_, i) => `A,${day0 + i},0.5,${i < 3 ? 'x' : 0.4}\n`);
    const path = put(folder(), 'a.csv', `symbol,t,p,bid\n${rows.join('')}`);
    const output = folder();
    const flags = ['--dataset', 'ticks,quotes', '--json'];
    const { summary } = await importFile(path, flags, output);
    expect(summary).toMatchObject({ exit_code: 4, published: { files: 0 } });
    expect(summary.failures[0]!.reason).toMatch(/3 of 200 quotes rejected.*3 × bid is not a number, first \{/);
    expect(storedTicks(output)).toEqual([]);
    const taken = await importFile(path, [...flags, '--allow-rejected', '0.02'], output);
    expect(taken.summary).toMatchObject({
      exit_code: 0,
      ticks: { fetched: 200, accepted: 200, quarantined: 0 },
      quotes: { fetched: 200, accepted: 197, quarantined: 3 },
      warnings: ['3 unusable quotes were quarantined in .oddslake/quarantine.'],
    });
    const items = quarantineLines(output);
    expect(items).toHaveLength(3);
    expect(JSON.parse(items[0]!)).toMatchObject({ symbol: 'A', at: writtenAt, reason: 'bid is not a number' });
  });
});

const quote = (t: number, bid: number, ask: number, symbol = 'A'): string => `${symbol},${t},${bid},${ask}\n`;
const write = (name: string, rows: readonly string[], atMs = writtenAt): string =>
  put(folder(), name, `symbol,t,bid,ask\n${rows.join('')}`, atMs);

test('of the quotes of one time in one file, the last one is kept, and the others are conflicts', async () => {
  const rows = [quote(day0, 0.4, 0.5), quote(day0, 0.41, 0.45), quote(day0, 0.41, 0.44), quote(day0, 0.4, 0.5)];
  const output = folder();
  const taken = await importFile(write('a.csv', rows), ['--json'], output);
  expect(taken.summary).toMatchObject({
    exit_code: 0,
    quotes: { fetched: 4, accepted: 1, duplicates: 1, conflicts: 2, quarantined: 0 },
  });
  const kept = { symbol: 'A', t: day0, bid: 0.4, ask: 0.5, bid_size: null, ask_size: null };
  expect(await quotesOf(output)).toEqual([kept]);
  const conflicts = 'SELECT bid, ask, seq, epoch_ms(seen_at) AS seen_at FROM quote_conflicts ORDER BY seq';
  expect(await select(output, conflicts)).toEqual([
    { bid: 0.41, ask: 0.44, seq: 0, seen_at: writtenAt },
    { bid: 0.41, ask: 0.45, seq: 1, seen_at: writtenAt },
  ]);
});

test('an older file replaces quotes only with --prefer import', async () => {
  const output = await imported(write('new.csv', [quote(day0, 0.4, 0.5)]));
  const older = write('old.csv', [quote(day0, 0.6, 0.7), quote(day0 + 1, 0.6, 0.7)], writtenAt - 1000);
  const filled = await importFile(older, ['--json'], output);
  expect(filled.summary).toMatchObject({ quotes: { accepted: 1, conflicts: 1 } });
  expect(await select(output, 'SELECT bid FROM quotes ORDER BY t')).toEqual([{ bid: 0.4 }, { bid: 0.6 }]);
  await imported(older, ['--prefer', 'import'], output);
  expect(await select(output, 'SELECT bid FROM quotes ORDER BY t')).toEqual([{ bid: 0.6 }, { bid: 0.6 }]);
});

test('quotes in cents are refused although the first rows do not show them', async () => {
  const penny = Array.from({ length: 1500 }, (_, i) => quote(day0 + i, 1, 1));
  const path = write('a.csv', [...penny, quote(day0 + 5000, 44, 46)]);
  await refused(path, 4, /nothing was imported: the prices look like cents/);
  const first = write('b.csv', [quote(day0, 44, 46)]);
  await refused(first, 2, /the prices look like cents.*bid looks like the bid \(in cents\).*\n {2}--price-scale 0.01/);
  const output = await imported(path, ['--price-scale', '0.01']);
  expect(await select(output, 'SELECT max(bid) AS bid FROM quotes')).toEqual([{ bid: 0.44 }]);
});

test('files that cannot be quotes are refused', async () => {
  const page = put(folder(), 'page.json', '{"symbol":"A","ticks":[]}');
  const lists = await writeParquet(join(folder(), 'a.parquet'), `SELECT 'A' AS symbol, ${day0} AS t, [0.5] AS bid`);
  const none = write('a.csv', []);
  const known = 'ticks, quotes, "ticks,quotes", trades, markets';
  await refused(page, 2, /is a saved page: quotes are imported from rows/, '--dataset', 'quotes');
  await refused(lists, 2, /column bid is .*\[\], not a number/, '--dataset', 'quotes');
  await refused(none, 2, /missing column p /, '--dataset', 'ticks,quotes');
  await refused(none, 2, /missing column p /, '--dataset', 'quotes, ticks');
  await refused(none, 2, RegExp(`Allowed choices are ${known}`), '--dataset', 'quotes,markets');
});

test('the example of docs/IMPORT.md imports ticks and quotes, and prints what the page shows', async () => {
  const { printed, shown } = await runDocumentedImport('Quotes', ['--set', 'source.name=box']);
  expect(printed[0]).toMatch(/ticks +3 new\n +quotes +3 new\n/);
  expect(printed[1]).toBe(shown);
});
