import { cpSync, mkdtempSync, rmSync } from 'node:fs';
import { join } from 'node:path';
import fc from 'fast-check';
import { afterAll, beforeAll, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { datasets } from '../../src/archive/format/datasets.ts';
import { appendSeries } from '../../src/archive/journal/journal-series.ts';
import { decodeRows } from '../../src/archive/parquet/rows.ts';
import { createRowsEndpoints } from '../../src/server/history/endpoints.ts';
import {
  answer,
  append,
  day0,
  dayMs,
  hourMs,
  opened,
  publishNow,
  scratchFolder,
  upstreamName,
} from '../archive/scratch.ts';
import { trade, tradeAnswer } from '../archive/trades.ts';
import { put } from '../e2e/import-lake.ts';
import { expectDone } from '../e2e/lake.ts';
import { run } from '../e2e/run-program.ts';
import { scratchRoot } from '../harness/scratch-root.ts';
import { openCounted } from './counted-history.ts';
import { pagesOf } from './historical-archive.ts';
import { serving } from './serving.ts';

// Trades over HTTP, from files that were imported by the command line and are read by DuckDB for comparison. Many of them have
// one time.

const base = '/api/v1/historical/trades';
const named = ['--set', `source.name=${upstreamName}`, '--quiet'];

interface Key {
  readonly symbol: string;
  readonly t: number;
  readonly trade_id: string;
}

interface Trade extends Key {
  readonly seq: number;
  readonly event_at: number | null;
  readonly received_at: number | null;
}

/** The millisecond with many trades. */
const crowded = day0 + hourMs;

/** In another order by UTF-16, by characters instead of bytes, or as numbers. The last but one is as long as one may be. */
const ids = [
  'b',
  '100',
  'é',
  '9',
  '🚀',
  'ﬀx',
  '10',
  'ab',
  '"q"',
  'a',
  "it's",
  '%_',
  '\u{10ffff}',
  'z'.repeat(256),
  'A',
];

/** Every combination of facts that may be missing, by turns. */
const facts = (i: number) => ({
  price: i % 5 === 0 ? '0.12345678901234567890' : (i + 1) / 100,
  size: i % 7 === 0 ? '3.00000000000000000001' : i + 0.5,
  aggressor: ['buy', null, 'sell'][i % 3],
  block: [true, false, null][Math.floor(i / 2) % 3],
  tx_hash: i % 4 === 0 ? `0x${i}` : null,
});

const input: readonly { readonly t: number }[] = [
  ...ids.map((id, i) => ({ symbol: 'AAA', t: crowded, trade_id: id, ...facts(i) })),
  // Without an identifier, two of them equal.
  ...[0, 1, 1].map((i) => ({ symbol: 'AAA', t: crowded, ...facts(i) })),
  ...[crowded - 1, crowded + 1, crowded + dayMs].map((t, i) => ({
    symbol: 'AAA',
    t,
    trade_id: `at ${i}`,
    ...facts(i),
  })),
  // Identifiers of other symbols may be the same.
  ...['🚀', 'ﬀ'].flatMap((symbol) =>
    ids.slice(0, 4).map((id, i) => ({ symbol, t: crowded + (i % 2) * dayMs, trade_id: id, ...facts(i) })),
  ),
];

/** Finer times of a trade: of every third one both are unknown. */
const timesOf = ({ t }: { readonly t: number }, i: number) => ({
  event_at: i % 3 === 0 ? null : 1000 * t + i,
  received_at: i % 3 < 2 ? null : 1000 * t + 250_000 + i,
});

async function importTrades(root: string, given: readonly { readonly t: number }[], ...flags: string[]): Promise<void> {
  const rows = given.map((row, i) => ({ ...row, ...timesOf(row, i) }));
  const lines = rows.map((row) => `${JSON.stringify(row)}\n`).join('');
  const file = put(`${root}-input`, 'trades.ndjson', lines);
  try {
    await expectDone(run(['import', file, '--dataset', 'trades', '--output', root, ...named, ...flags]));
  } finally {
    rmSync(`${root}-input`, { recursive: true });
  }
}

const made = mkdtempSync(join(scratchRoot, 'oddslake-trades-'));
beforeAll(() => importTrades(join(made, 'lake'), input, '--covers', `${day0}..${day0 + dayMs}`));
afterAll(() => rmSync(made, { recursive: true }));

/** A copy of the archive, which is removed after the test. */
function lake(): Archive {
  const root = join(scratchFolder(), 'lake');
  cpSync(join(made, 'lake'), root, { recursive: true });
  return opened({ root, create: false });
}

const names = 'trade_id, price, size, aggressor, block, tx_hash, seq, price_text, size_text';

/** The published trades as DuckDB reads them, in the order of the dataset. */
async function readTrades({ layout }: Archive): Promise<Trade[]> {
  const times = ['event_at', 'received_at'].map((name) => `epoch_us(${name})::DOUBLE AS ${name}`).join();
  const sql = `SELECT symbol, epoch_ms(t) AS t, ${names}, ${times} FROM trades ORDER BY symbol, t, seq`;
  const { stdout } = await expectDone(run(['sql', sql, '--format', 'json', '--output', layout.root]));
  return JSON.parse(stdout) as Trade[];
}

const compareBytes = (a: string, b: string): number => Buffer.compare(Buffer.from(a), Buffer.from(b));

/** The documented order. */
const compareKeys = (a: Key, b: Key): number =>
  compareBytes(a.symbol, b.symbol) ||
  a.t - b.t ||
  Buffer.byteLength(a.trade_id) - Buffer.byteLength(b.trade_id) ||
  compareBytes(a.trade_id, b.trade_id);

const symbolQuery = (...symbols: string[]): string =>
  symbols.map((symbol) => `&symbol=${encodeURIComponent(symbol)}`).join('');

test('returns trades sorted by symbol, time and identifier, on pages of any size', async () => {
  const archive = lake();
  const all = await readTrades(archive);
  expect(all).toHaveLength(input.length);
  expect(all.toSorted(compareKeys)).toEqual(all);
  expect(all.filter(({ t, symbol }) => t === crowded && symbol === 'AAA').map(({ seq }) => seq)).toEqual(
    Array.from({ length: ids.length + 3 }, (_, i) => i),
  );
  for (const name of ['aggressor', 'block', 'tx_hash', 'price_text', 'size_text', 'event_at', 'received_at'] as const)
    expect(new Set(all.map((row) => (row as unknown as Record<string, unknown>)[name] === null)).size, name).toBe(2);

  const { json } = await serving(archive);
  for (const limit of [1, 2, 3, 4, 5, 1000]) {
    const read = async (query: string) => {
      const pages = await pagesOf<Trade>(json, `${base}?limit=${limit}${query}`, 'trades');
      expect(pages.slice(0, -1).every((page) => page.length === limit)).toBe(true);
      return pages.flat();
    };
    expect(await read(''), `limit ${limit}`).toEqual(all);
    const isNamed = ({ symbol }: Trade): boolean => symbol !== '🚀';
    expect(await read(symbolQuery('ﬀ', 'AAA'))).toEqual(all.filter(isNamed));
    const window = `&from=${crowded}&to=${crowded + 1}`;
    const inWindow = all.filter(({ t }) => t === crowded);
    expect(await read(window)).toEqual(inWindow);
    expect(await read(`${window}${symbolQuery('ﬀ', 'AAA')}`)).toEqual(inWindow.filter(isNamed));
  }
});

test.each([
  [1, ''],
  [2, symbolQuery('AAA')],
  [3, ''],
  [5, symbolQuery('AAA', '🚀')],
])(
  'a publish neither repeats nor loses a trade of the millisecond at which a page of %i ends',
  async (limit, query) => {
    const archive = lake();
    const before = (await readTrades(archive)).filter(
      ({ symbol }) => query === '' || query.includes(encodeURIComponent(symbol)),
    );
    const { json } = await serving(archive);
    const added: { readonly key: Key; readonly page: number }[] = [];
    // Both publishes are within the crowded millisecond, whose trades are the second to the nineteenth of all.
    const moments = [3, 10].map((row) => Math.ceil(row / limit));
    const pages = await pagesOf<Trade>(json, `${base}?limit=${limit}${query}`, 'trades', async (page) => {
      const k = moments.indexOf(page);
      if (k < 0) return;
      // Some of them sort before the position.
      const own = ['!"'[k]!, `!${k}`, `ö${k}`, `~~~${k}`, `${k}${'y'.repeat(255)}`];
      const keys = own.map((id) => ({ symbol: 'AAA', t: crowded, trade_id: id }));
      for (const key of keys) added.push({ key, page });
      await importTrades(
        archive.layout.root,
        keys.map((key) => ({ ...key, price: 0.5, size: 1 })),
      );
    });
    expect(added).toHaveLength(10);
    const laterOnes = added.filter(({ key, page }) => compareKeys(key, pages.slice(0, page).flat().at(-1)!) > 0);
    expect(laterOnes.length).toBeGreaterThan(2);
    expect(laterOnes.length).toBeLessThan(9);
    const toKey = ({ symbol, t, trade_id }: Key): Key => ({ symbol, t, trade_id });
    const expected = [...before.map(toKey), ...laterOnes.map(({ key }) => key)].sort(compareKeys);
    expect(pages.flat().map(toKey)).toEqual(expected);
  },
);

test('files have the trades as DuckDB reads them, with nothing for a missing fact', async () => {
  const archive = lake();
  const all = await readTrades(archive);
  const { ask } = await serving(archive);
  const body = async (query: string) => Buffer.from(await (await ask(`${base}?${query}`)).arrayBuffer());
  const toIso = (us: number | null): string | null =>
    us === null
      ? null
      : new Date(us / 1000)
          .toISOString()
          .replace('Z', us % 1000 === 0 ? 'Z' : `${String(us % 1000).padStart(3, '0')}Z`);
  const texts = all.map(({ t, event_at, received_at, ...trade }) => ({
    ...trade,
    t: new Date(t).toISOString(),
    event_at: toIso(event_at),
    received_at: toIso(received_at),
  }));
  const lines = (await body('format=ndjson')).toString().trimEnd().split('\n');
  expect(lines.map((line) => JSON.parse(line))).toEqual(texts);
  const rows = all.map((trade) =>
    datasets.trades.columns.map(({ name }) => (trade as unknown as Record<string, unknown>)[name]),
  );
  expect(decodeRows(datasets.trades.columns, await body('format=parquet'))).toEqual(rows);
  const cut = `from=${crowded - 1}&to=${crowded + 2}&limit=21${symbolQuery('AAA')}`;
  expect(decodeRows(datasets.trades.columns, await body(`format=parquet&${cut}`))).toEqual(rows.slice(0, 20));
  expect(
    (await body(`format=csv&to=${crowded + dayMs}${symbolQuery('🚀')}`)).toString(),
  ).toBe(`symbol,t,${names.replaceAll(', ', ',')},event_at,received_at
🚀,2026-06-01T01:00:00.000Z,b,0.12345678901234568,3,buy,true,0x0,0,0.12345678901234567890,3.00000000000000000001,,
🚀,2026-06-01T01:00:00.000Z,é,0.03,2.5,sell,false,,1,,,2026-06-01T01:00:00.000023Z,2026-06-01T01:00:00.250023Z
`);
});

test('a cursor states the identifier of the last trade, and those of other routes have none', async () => {
  const { json } = await serving(lake());
  const next = async (path: string): Promise<unknown[]> => {
    const { body } = await json<{ next_cursor: string }>(path);
    return JSON.parse(Buffer.from(body.next_cursor, 'base64url').toString()) as unknown[];
  };
  const encode = (parts: readonly unknown[]): string => Buffer.from(JSON.stringify(parts)).toString('base64url');
  const status = async (path: string, parts: readonly unknown[]) =>
    (await json(`${path}&cursor=${encode(parts)}`)).status;
  const trades = `${base}?limit=2`;
  const parts = await next(trades);
  expect(parts).toEqual(['p', 'AAA', crowded, expect.any(String), '9']);
  expect(await status(trades, parts)).toBe(200);
  for (const id of [[], [null], [9], ['9', '9'], ['\ud800']])
    expect(await status(trades, [...parts.slice(0, 4), ...id]), JSON.stringify(id)).toBe(400);
  const coverage = '/api/v1/historical/coverage?limit=1&dataset=trades';
  const others = await next(coverage);
  expect(others).toEqual(['p', 'AAA', day0, expect.any(String)]);
  expect([await status(coverage, others), await status(coverage, [...others, '9'])]).toEqual([200, 400]);
});

test('coverage of trades has the windows that the import declared', async () => {
  const { json } = await serving(lake());
  const row = { dataset: 'trades', t_from: day0, t_to: day0 + dayMs, origin: 'import', evidence: 'declared' };
  const counts = { AAA: ids.length + 5, ﬀ: 2, '🚀': 2 };
  for (const query of ['', symbolQuery(...Object.keys(counts))]) {
    const { body } = await json(`/api/v1/historical/coverage?dataset=trades${query}`);
    expect(body).toMatchObject({
      coverage: Object.entries(counts).map(([symbol, ticks]) => ({ ...row, symbol, ticks })),
      next_cursor: null,
    });
    expect(body).not.toHaveProperty('gaps');
  }
});

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`historical trades: SEED=${seed}`);

test('pages have each trade once, whatever the identifiers', async () => {
  const anyId = [
    fc.string({ unit: 'binary', minLength: 1, maxLength: 3 }),
    fc.string({ unit: fc.constantFrom('\0', 'a', 'b', 'é', 'ﬀ', '🚀'), minLength: 1, maxLength: 4 }),
  ];
  const anyTrade = fc.record({
    symbol: fc.constantFrom('A', 'é'),
    t: fc.constantFrom(day0, day0 + 1, day0 + dayMs),
    trade_id: fc.oneof(...anyId),
  });
  const selector = ({ symbol, trade_id }: Key): string => `${symbol} ${trade_id}`;
  const anyTrades = fc.uniqueArray(anyTrade, { minLength: 1, maxLength: 40, selector });
  const signal = new AbortController().signal;
  const holds = async (trades: Key[], limit: number, isNamed: boolean): Promise<void> => {
    const archive = opened();
    append(archive, ...['A', 'é'].map((symbol) => answer(symbol, [[day0, 0.5]])));
    const bySymbol = [...Map.groupBy(trades, ({ symbol }) => symbol)];
    const records = bySymbol.map(([symbol, own]) =>
      tradeAnswer(
        symbol,
        own.map((key) => trade(key.t, key.trade_id)),
      ),
    );
    appendSeries(archive.state, records);
    await publishNow(archive);
    const { service } = await openCounted(archive, 0);
    const endpoint = createRowsEndpoints(service).trades;
    const read: Key[] = [];
    for (let cursor: string | null | undefined; cursor !== null && read.length <= trades.length; ) {
      const query = { limit, ...(cursor !== undefined && { cursor }), ...(isNamed && { symbol: ['é', 'A'] }) };
      const page = (await endpoint.readPage(query, signal)) as { trades: Key[]; next_cursor: string | null };
      expect(page.trades.length).toBeGreaterThan(0);
      read.push(...page.trades.map(({ symbol, t, trade_id }) => ({ symbol, t, trade_id })));
      cursor = page.next_cursor;
    }
    expect(read).toEqual(trades.toSorted(compareKeys));
    archive.close();
  };
  await fc.assert(fc.asyncProperty(anyTrades, fc.integer({ min: 1, max: 5 }), fc.boolean(), holds), {
    seed,
    numRuns: 20,
  });
});
