import { execFileSync } from 'node:child_process';
import { existsSync, globSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { gunzipSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { runDocumentedImport } from './documented-import.ts';
import { day0, put, writeParquet, writtenAt } from './import-lake.ts';
import { folder, hashes, rowHashes, ticksOf } from './lake.ts';
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

const common = ['--set', 'source.name=box'];

async function select(output: string, sql: string): Promise<unknown[]> {
  const { code, stdout, stderr } = await run(['sql', sql, '--format', 'json', '--output', output]);
  expect(code, stderr).toBe(0);
  return JSON.parse(stdout) as unknown[];
}

const quotesOf = (output: string): Promise<unknown[]> =>
  select(output, 'SELECT symbol, epoch_ms(t) AS t, bid, ask, bid_size, ask_size FROM quotes ORDER BY t, symbol');

/** The flags that a refusal suggests, split as a shell splits them. */
function suggestedFlags(text: string): string[] {
  const flags = /can be read with:\n {2}(--.*)/.exec(text)?.[1] ?? /Use (--.*?)\. /.exec(text)?.[1];
  expect(flags, text).toBeDefined();
  return execFileSync('sh', ['-c', `printf '%s\\n' ${flags}`], { encoding: 'utf8' })
    .trimEnd()
    .split('\n');
}

interface Feed {
  readonly write: (files: string) => string | Promise<string>;
  readonly flags: string;
  readonly expected: readonly FeedQuote[];
}

const feeds: Readonly<Record<string, Feed>> = {
  'a CSV of best prices': {
    write: (files) =>
      put(
        files,
        'feed.csv',
        lines(
          'ticker,timestamp,best_bid,best_ask,bid_size,ask_qty',
          (x) =>
            `${x.symbol},${new Date(x.t).toISOString()},${cell(x.bid)},${cell(x.ask)},${cell(x.bid_size)},${cell(x.ask_size)}`,
        ),
      ),
    flags: '--dataset quotes --columns symbol=ticker,t=timestamp,bid=best_bid,ask=best_ask,ask_size=ask_qty',
    expected: quotes,
  },
  'JSON lines of a websocket, in cents, with prices of NO': {
    write: (files) =>
      put(
        files,
        'feed.jsonl',
        lines('{"type":"subscribed","msg":{"channel":"ticker"}}', (x) =>
          JSON.stringify({
            type: 'ticker',
            msg: {
              market_ticker: x.symbol,
              ts: x.t,
              yes_bid: cents(x.bid),
              yes_ask: cents(x.ask),
              no_bid: 50,
              no_ask: 51,
            },
          }),
        ),
      ),
    flags:
      '--dataset quotes --columns symbol=msg/market_ticker,t=msg/ts,bid=msg/yes_bid,ask=msg/yes_ask --where type=ticker --price-scale 0.01',
    expected: withoutSizes,
  },
  'semicolons and decimal commas, NaN for none': {
    write: (files) =>
      put(
        files,
        'feed.csv',
        lines('Symbol;T;Bid;Ask', (x) =>
          [x.symbol, x.t, ...[x.bid, x.ask].map((price) => cell(price, 'NaN').replace('.', ','))].join(';'),
        ),
      ),
    flags: '--decimal-comma',
    expected: withoutSizes,
  },
  'Parquet of pandas, with NaN': {
    write: (files) =>
      writeParquet(
        join(files, 'feed.parquet'),
        `SELECT symbol AS ticker, make_timestamp(t * 1000) AS ts, bid::DOUBLE AS bid, ask::DOUBLE AS ask, bid_size::BIGINT AS bid_size, ask_size::DECIMAL(10, 1) AS ask_size FROM (VALUES ${quotes
          .map(
            (x) =>
              `('${x.symbol}', ${x.t}::BIGINT, '${cell(x.bid, 'NaN')}', '${cell(x.ask, 'NaN')}', ${cell(x.bid_size, 'NULL')}, ${cell(x.ask_size, 'NULL')})`,
          )
          .join(', ')}) v(symbol, t, bid, ask, bid_size, ask_size)`,
      ),
    flags: '--dataset quotes --columns symbol=ticker,t=ts --tz UTC',
    expected: quotes,
  },
};

describe('a file of quotes is imported by the command that the first one suggests', () => {
  test.each(Object.entries(feeds))('%s', async (name, { write, flags, expected }) => {
    const path = await write(folder());
    const output = folder();
    const refused = await run(['import', path, '--output', output, ...common]);
    expect(refused.code, refused.stdout).toBeGreaterThanOrEqual(2);
    expect(existsSync(join(output, 'quotes'))).toBe(false);
    const suggested = suggestedFlags(refused.stderr + refused.stdout);
    expect(suggested.join(' ')).toBe(flags);
    if (name.includes('NO')) expect(refused.stderr).toContain('msg/no_bid, msg/no_ask: prices of NO');
    const args = ['import', path, '--output', output, ...common, ...suggested];
    const taken = await run([...args, '--json']);
    expect(taken.code, taken.stderr).toBe(0);
    const counts = { fetched: n, accepted: n, duplicates: 0, conflicts: 0, quarantined: 0, recovered: 0 };
    expect(taken.summary).toMatchObject({ quotes: counts, ticks: { fetched: 0 }, symbols: { planned: 2, done: 2 } });
    expect(await quotesOf(output)).toEqual(expected);
    // Again changes nothing.
    const before = hashes(output, 'quotes', 'coverage', 'quote_conflicts');
    const again = await run([...args, '--json']);
    expect(again.summary).toMatchObject({ quotes: { ...counts, accepted: 0, duplicates: n }, published: { files: 0 } });
    expect(hashes(output, 'quotes', 'coverage', 'quote_conflicts')).toEqual(before);
    expect((await run(['verify', '--output', output])).code).toBe(0);
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
    const args = ['import', path, '--output', output, ...common, ...columns, '--allow-rejected', '1'];
    const hint = '--dataset ticks,quotes --columns symbol=ticker,p=last imports ticks and quotes';
    const shown = await run([...args, '--dry-run']);
    expect(shown.stdout).toContain(`  not imported: bid, ask, volume\n  ${hint}\n`);
    const taken = await run([...args, '--json']);
    expect(taken.summary.warnings).toContain(`Columns that were not imported: bid, ask, volume (${path}). ${hint}.`);
    expect(taken.summary).toMatchObject({ ticks: { accepted: ticks.length, quarantined: n - ticks.length } });
    expect(taken.summary).not.toHaveProperty('quotes');
    expect(await select(output, 'SELECT * FROM quotes')).toEqual([]);
  });

  test('feeds both, and a row may lack either', async () => {
    const path = write();
    const output = folder();
    const mapping = join(output, 'feed.yaml');
    const both = ['--dataset', 'quotes,ticks', ...columns];
    const args = ['import', path, '--output', output, ...common];
    const shown = await run([...args, ...both, '--dry-run']);
    expect(shown.stdout).toContain(`${path}, ticks: 30 rows, 0 rejected\n  not imported: volume\n`);
    expect(shown.stdout).toMatch(/, quotes: 40 rows, 0 rejected\n(.*\n){2}.*2026-07-11T00:00:00Z +0\.2 +0\.22\n/);
    const taken = await run([
      ...args,
      ...both,
      '--json',
      '--save-mapping',
      mapping,
      '--covers',
      '2026-07-11..2026-07-12',
    ]);
    expect(taken.code, taken.stderr).toBe(0);
    expect(taken.summary).toMatchObject({
      ticks: { fetched: 30, accepted: 30 },
      quotes: { fetched: n, accepted: n },
      symbols: { planned: 2, done: 2 },
    });
    const stored = [...ticksOf(output)].flatMap(([symbol, of]) => of.map(({ t, p }) => ({ symbol, t, p })));
    expect(stored.sort((a, b) => a.t - b.t)).toEqual(ticks);
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
    expect(readFileSync(mapping, 'utf8')).toContain('dataset: ticks,quotes\n');
    const mapped = folder();
    const again = await run(['import', path, '--output', mapped, ...common, '--mapping', mapping]);
    expect(again.code, again.stderr).toBe(0);
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
    const both = ['--dataset', 'ticks,quotes', ...common];
    const bytesOf = async (...args: readonly string[]): Promise<readonly [string, unknown]> => {
      const output = folder();
      const taken = await run(['import', ...args, '--output', output]);
      expect(taken.code, taken.stderr).toBe(0);
      return [output, rowHashes(output, 'ticks', 'quotes', 'coverage')];
    };
    const [output, expected] = await bytesOf(path, ...both);
    expect((await bytesOf(path, ...both, '--set', 'publish.journal_ticks_max=1'))[1]).toEqual(expected);
    expect((await bytesOf(parquet, ...both))[1]).toEqual(expected);
    const lines = put(files, 'wide.ndjson', nested);
    expect((await bytesOf(lines, ...both, '--columns', paths.join()))[1]).toEqual(expected);
    const exported = join(files, 'quotes.parquet');
    const export_ = await run(['export', '--out', exported, '--dataset', 'quotes', '--output', output]);
    expect(export_.code, export_.stderr).toBe(0);
    const [copy] = await bytesOf(exported, ...common);
    expect(hashes(copy, 'quotes')).toEqual(hashes(output, 'quotes'));
  });

  test('is refused if too many rows of one dataset are rejected', async () => {
    const rows = Array.from({ length: 200 }, (_, i) => `A,${day0 + i},0.5,${i < 3 ? 'x' : 0.4}\n`);
    const path = put(folder(), 'a.csv', `symbol,t,p,bid\n${rows.join('')}`);
    const output = folder();
    const args = ['import', path, '--output', output, ...common, '--dataset', 'ticks,quotes'];
    const refused = await run([...args, '--json']);
    expect(refused.code).toBe(4);
    expect(refused.summary.failures[0]!.reason).toMatch(/3 of 200 quotes rejected.*3 × bid is not a number, first \{/);
    expect(refused.summary).toMatchObject({ published: { files: 0 } });
    expect(ticksOf(output).size).toBe(0);
    const taken = await run([...args, '--json', '--allow-rejected', '0.02']);
    expect(taken.summary).toMatchObject({
      exit_code: 0,
      ticks: { fetched: 200, accepted: 200, quarantined: 0 },
      quotes: { fetched: 200, accepted: 197, quarantined: 3 },
      warnings: ['3 unusable quotes were quarantined in .oddslake/quarantine.'],
    });
    const [kept] = globSync('.oddslake/quarantine/**/*.gz', { cwd: output });
    const items = gunzipSync(readFileSync(join(output, kept!)))
      .toString()
      .trim()
      .split('\n');
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
  const taken = await run(['import', write('a.csv', rows), '--output', output, ...common, '--json']);
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
  const output = folder();
  const args = ['--output', output, ...common, '--json'];
  await run(['import', write('new.csv', [quote(day0, 0.4, 0.5)]), ...args]);
  const older = write('old.csv', [quote(day0, 0.6, 0.7), quote(day0 + 1, 0.6, 0.7)], writtenAt - 1000);
  const filled = await run(['import', older, ...args]);
  expect(filled.summary).toMatchObject({ quotes: { accepted: 1, conflicts: 1 } });
  expect(await select(output, 'SELECT bid FROM quotes ORDER BY t')).toEqual([{ bid: 0.4 }, { bid: 0.6 }]);
  const preferred = await run(['import', older, ...args, '--prefer', 'import']);
  expect(preferred.code, preferred.stderr).toBe(0);
  expect(await select(output, 'SELECT bid FROM quotes ORDER BY t')).toEqual([{ bid: 0.6 }, { bid: 0.6 }]);
});

test('quotes in cents are refused although the first rows do not show them', async () => {
  const penny = Array.from({ length: 1500 }, (_, i) => quote(day0 + i, 1, 1));
  const path = write('a.csv', [...penny, quote(day0 + 5000, 44, 46)]);
  const output = folder();
  const refused = await run(['import', path, '--output', output, ...common]);
  expect(refused.code).toBe(4);
  expect(refused.stdout + refused.stderr).toMatch(/nothing was imported: the prices look like cents/);
  expect(existsSync(join(output, 'quotes'))).toBe(false);
  const first = await run(['import', write('b.csv', [quote(day0, 44, 46)]), '--output', output, ...common]);
  expect(first.code).toBe(2);
  expect(first.stderr).toMatch(
    /the prices look like cents.*bid looks like the bid \(in cents\).*\n {2}--price-scale 0.01/,
  );
  expect(await run(['import', path, '--output', output, ...common, '--price-scale', '0.01'])).toMatchObject({
    code: 0,
  });
  expect(await select(output, 'SELECT max(bid) AS bid FROM quotes')).toEqual([{ bid: 0.44 }]);
});

test('files that cannot be quotes are refused', async () => {
  const output = folder();
  const page = put(folder(), 'page.json', '{"symbol":"A","ticks":[]}');
  const text = await writeParquet(join(folder(), 'a.parquet'), `SELECT 'A' AS symbol, ${day0} AS t, [0.5] AS bid`);
  for (const [args, reason] of [
    [[page, '--dataset', 'quotes'], /is a saved page: quotes are imported from rows/],
    [[write('a.csv', []), '--dataset', 'ticks,quotes'], /missing column p /],
    [[text, '--dataset', 'quotes'], /column bid is .*\[\], not a number/],
    [
      [write('a.csv', []), '--mapping', put(folder(), 'a.yaml', 'dataset: ticks,markets')],
      /dataset is "ticks,markets", expected one of ticks, quotes, "ticks,quotes", trades, markets/,
    ],
    [[write('a.csv', []), '--mapping', put(folder(), 'a.yaml', 'dataset: quotes, ticks')], /missing column p /],
    [
      [write('a.csv', []), '--dataset', 'quotes,markets'],
      /Allowed choices are ticks, quotes, "ticks,quotes", trades, markets/,
    ],
  ] as const) {
    const refused = await run(['import', ...args, '--output', output, ...common]);
    expect(refused.code, args.join(' ')).toBe(2);
    expect(refused.stderr).toMatch(reason);
  }
});

test('the example of docs/IMPORT.md imports ticks and quotes, and prints what the page shows', async () => {
  const { printed, shown } = await runDocumentedImport('Quotes', common);
  expect(printed[0]).toMatch(/ticks +3 new\n +quotes +3 new\n +symbols +1 of 1 done\n/);
  expect(printed[1]).toBe(shown);
});
