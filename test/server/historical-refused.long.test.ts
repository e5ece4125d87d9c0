import { globSync, readFileSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Log } from '../../src/base/ports.ts';
import { day0, scratchFolder } from '../archive/scratch.ts';
import { lake } from './historical-archive.ts';
import { serving, sharedServing } from './serving.ts';

const service = sharedServing({}, lake.copyTo);
const base = '/api/v1/historical';
const routes = [
  'markets',
  'ticks',
  'candles?interval=1h',
  'candles?interval=5m',
  'coverage',
  'orderbooks',
  'quotes',
  'trades',
];
const withQuery = (route: string, query: string): string =>
  `${base}/${route}${route.includes('?') ? '&' : '?'}${query}`;

test('an invalid parameter gives 400 with its name', async () => {
  const { json } = service();
  const bad: readonly (readonly [query: string, name: string])[] = [
    ...(['limit=0', 'limit=-1', 'limit=1.5', 'limit=', 'limit=+1', 'limit=1e3', 'limit=a'] as const).map(
      (query) => [query, 'limit'] as const,
    ),
    ['limit=1&limit=2', 'limit'] as const,
    ['from=1&from=1', 'from'] as const,
    ['from=-1', 'from'] as const,
    ['to=2026-06-01', 'to'] as const,
    ['from=5&to=5', 'from'] as const,
    ['from=6&to=5', 'from'] as const,
    ['from=', 'from'] as const,
    ['format=xml', 'format'] as const,
    ['symbol=', 'symbol'] as const,
    ['colour=red', 'colour'] as const,
    ['cursor=', 'cursor'] as const,
    ['cursor=abc', 'cursor'] as const,
    ["cursor=';--", 'cursor'] as const,
    ['cursor=W10', 'cursor'] as const,
    [`cursor=${cursor(['p', 'AAA'])}`, 'cursor'] as const,
    [`cursor=${cursor(['p', 'AAA', 1.5])}`, 'cursor'] as const,
    [`cursor=${cursor(['p', 1, 1])}`, 'cursor'] as const,
    [`cursor=${cursor(['p', 'A\ud800', 1])}`, 'cursor'] as const,
    [`cursor=${cursor(['m', 'A', '\udfff'])}`, 'cursor'] as const,
    [`cursor=${cursor(['p', 'AAA', 1e300])}`, 'cursor'] as const,
    [`cursor=${cursor(['x', 'A', 'B'])}`, 'cursor'] as const,
    [`cursor=${cursor(['p', 'AAA', 1])}`, 'cursor'] as const,
    [`cursor=${cursor(['m', 'AAA', 'AAA'])}`, 'cursor'] as const,
    [`cursor=${cursor(['p', 'AAA', 1, 'x'])}`, 'cursor'] as const,
    [`cursor=${cursor(['m', 'AAA', 'AAA', null])}`, 'cursor'] as const,
    [`symbol=${'x'.repeat(1001)}`, 'symbol'] as const,
    ['format=csv&cursor=abc', 'cursor'] as const,
  ];
  for (const route of routes) {
    for (const [query, name] of bad) {
      const { status, body } = await json<{ errors?: { name: string }[] }>(withQuery(route, query));
      expect([status, body.errors?.map((error) => error.name)], withQuery(route, query)).toEqual([400, [name]]);
    }
  }
});

const cursor = (parts: readonly unknown[]): string => Buffer.from(JSON.stringify(parts)).toString('base64url');

test('a cursor of another query gives 400, and not rows with some left out', async () => {
  const { json } = service();
  const day = 86_400_000;
  const queries = [
    'markets?',
    'markets?source=kalshi',
    'markets?q=a',
    `markets?to=${day0 + 9 * day}`,
    'ticks?',
    'ticks?symbol=AAA',
    'ticks?symbol=BBB',
    `ticks?symbol=AAA&from=${day0 - day}`,
    'candles?interval=1h',
    'candles?interval=1h&symbol=AAA',
    'candles?interval=5m',
    'coverage?',
    'coverage?symbol=AAA',
    'orderbooks?',
    'orderbooks?symbol=AAA',
    'quotes?',
    'quotes?symbol=AAA',
    'trades?',
    'trades?symbol=AAA',
  ];
  const cursors = new Map<string, string>();
  for (const query of queries) {
    const { body } = await json<{ next_cursor: string | null }>(`${base}/${query}&limit=1`);
    if (body.next_cursor !== null) cursors.set(query, body.next_cursor);
  }
  expect(cursors.size).toBeGreaterThanOrEqual(10);
  for (const [origin, next] of cursors) {
    for (const query of queries) {
      const { status, body } = await json<{ detail?: string }>(`${base}/${query}&cursor=${next}`);
      expect([status, body.detail?.includes('another query') ?? false], `${origin} in ${query}`).toEqual(
        origin === query ? [200, false] : [400, origin.startsWith('markets') === query.startsWith('markets')],
      );
    }
    // The size of the page may change, and the default may be spelled out.
    expect((await json(`${base}/${origin}&limit=7&cursor=${next}`)).status, origin).toBe(200);
    if (origin === 'coverage?') expect((await json(`${base}/coverage?dataset=ticks&cursor=${next}`)).status).toBe(200);
  }
});

test('rejects a missing or unknown interval and lists the valid ones', async () => {
  const { json } = service();
  for (const interval of ['2m', '1M', '', '15 minutes', "1h'; --"]) {
    const { status, body } = await json(`${base}/candles?interval=${encodeURIComponent(interval)}`);
    expect(status).toBe(400);
    expect(JSON.stringify(body)).toContain('1m, 5m, 15m, 30m, 1h, 4h, 6h, 12h, 1d, 1w');
  }
  expect((await json(`${base}/candles`)).status).toBe(400);
});

test('checks the parameters dataset, q and resolved', async () => {
  const { json } = service();
  for (const query of [
    'coverage?dataset=markets',
    'markets?resolved=1',
    'markets?resolved=TRUE',
    'markets?q=',
    'markets?q=%20',
  ])
    expect((await json(`${base}/${query}`)).status, query).toBe(400);
});

test('an unknown symbol gives 404, whatever its characters', async () => {
  const { json } = service();
  for (const symbol of ['NONE', 'aaa', "' OR '1'='1", '../../etc/passwd', '%', '\u0001\n', "AAA'; --"])
    for (const route of routes) {
      const { status, body } = await json(withQuery(route, `symbol=${encodeURIComponent(symbol)}`));
      expect([status, JSON.stringify(body).includes('is unknown')], `${route} ${symbol}`).toEqual([404, true]);
    }
});

test('times far in the past or future give an empty result', async () => {
  const { json } = service();
  for (const route of routes) {
    const { status, body } = await json(withQuery(route, `from=9007199254740990&to=9007199254740991`));
    expect([status, body.count], route).toEqual([200, 0]);
    expect((await json(withQuery(route, 'from=0&to=9007199254740991'))).body.count).toBeGreaterThan(0);
  }
});

test('requires a key', async () => {
  const { ask } = service();
  for (const route of routes) {
    const answer = await ask(withQuery(route, 'format=csv'), { headers: { authorization: '' } });
    expect([answer.status, answer.headers.get('www-authenticate')]).toEqual([401, 'Bearer']);
    await answer.arrayBuffer();
  }
});

test.each([
  [503, 'service.cache_bytes_max=0'],
  // As for ticks: a page that was read from the intact file stays correct.
  [200, 'service.cache_bytes_max=1000000'],
])('never serves a damaged file, but the other files, and cached pages: %i with %s', async (status, set) => {
  const root = scratchFolder();
  const errors: string[] = [];
  const log = {
    debug() {},
    info() {},
    warn() {},
    error: (fields: object) => errors.push(JSON.stringify(fields)),
  } as Log;
  const { json, ask } = await serving(await lake(root), { log, set: [set] });
  const requested = `${base}/ticks?from=${day0}&to=${day0 + 1000}&symbol=AAA`;
  const before = await json(requested);
  expect(before.status).toBe(200);
  for (const path of globSync('{ticks,markets,coverage}/date=2026-06-01/*.parquet', { cwd: root })) {
    const bytes = readFileSync(join(root, path));
    bytes[Math.floor(bytes.length / 2)]! ^= 1;
    writeFileSync(join(root, path), bytes);
  }
  const again = await json(requested);
  expect(again.status).toBe(status);
  if (status === 200) expect(again.body).toEqual(before.body);
  for (const path of [
    `${requested}&limit=10`,
    `${base}/ticks?format=csv`,
    `${base}/markets`,
    `${base}/coverage?symbol=AAA`,
  ]) {
    const answer = await ask(path);
    const text = await answer.text();
    expect([answer.status, answer.headers.get('content-type')], path).toEqual([
      503,
      expect.stringContaining('problem'),
    ]);
    expect(text).toContain('damaged');
    expect(text).not.toContain(root);
  }
  expect(errors.length).toBeGreaterThan(0);
  expect((await json(`${base}/ticks?from=${day0 + 86_400_000}`)).status).toBe(200);
  expect((await json(`${base}/orderbooks`)).status).toBe(200);
});
