import { rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import type { MarketFacts } from '../../src/archive/format/market.ts';
import { appendMarkets } from '../../src/archive/journal/journal.ts';
import { startRun } from '../../src/archive/journal/runs.ts';
import { dayMs, hourMs, market, now, opened, publishNow, scratchFolder } from '../archive/scratch.ts';
import { serving, sharedServing } from './serving.ts';

interface Answer {
  readonly markets: readonly Record<string, unknown>[];
  readonly count: number;
  readonly total: number;
  readonly view: string;
  readonly generated_at: number;
}

const poll = (archive: Archive, observedAt: number, ...markets: MarketFacts[]): void =>
  appendMarkets(archive.state, { runId: 'run', observedAt, markets }, []);

/** A served archive, and a second handle that writes like a collector. */
async function served(set: readonly string[] = []) {
  const root = scratchFolder();
  const writer = opened({ root });
  const { json } = await serving(opened({ root }), { set });
  const get = async (query = '') => (await json<Answer>(`/api/v1/markets${query}`)).body;
  return { root, writer, json, get };
}

const ids = ({ markets }: Answer) => markets.map(({ canonical_id }) => canonical_id);

test('returns an empty list before the first poll', async () => {
  const { get } = await served();
  expect(await get()).toEqual({ markets: [], count: 0, total: 0, view: 'matched', generated_at: now, data_time: null });
  expect(await get('?view=resolving')).toMatchObject({ total: 0, view: 'resolving' });
});

test('returns the last poll with its time, journaled or published', async () => {
  const { writer, get } = await served();
  poll(writer, now - 2 * hourMs, market('GONE'), market('A'));
  poll(writer, now - hourMs, market('A', { views: ['matched', 'resolving'] }), market('B', { views: ['resolving'] }));
  const journaled = await get();
  expect(journaled).toEqual({
    markets: [{ canonical_id: 'id A', symbol: 'A', source: 'venue', is_active: true }],
    count: 1,
    total: 1,
    view: 'matched',
    generated_at: now,
    data_time: now - hourMs,
  });
  await publishNow(writer);
  expect(await get()).toEqual(journaled);
  expect(ids(await get('?view=resolving'))).toEqual(['id A', 'id B']);
});

test('returns a new poll at once while an older one is published', async () => {
  const { writer, get } = await served();
  poll(writer, now - hourMs, market('A'));
  await publishNow(writer);
  expect(ids(await get())).toEqual(['id A']);
  poll(writer, now, market('B'));
  expect(await get()).toMatchObject({ markets: [{ canonical_id: 'id B' }], data_time: now });
  // An older poll that arrives late is ignored.
  poll(writer, now - 1, market('C'));
  expect(ids(await get())).toEqual(['id B']);
});

test('rebuilds a record with several symbols as received', async () => {
  const { writer, get } = await served();
  const venues = [
    { source: 'kalshi', ticker: 'A' },
    { source: 'poly', ticker: 'B', url: 'https://example.org/b' },
  ];
  const rest = { canonicalId: 'M', extra: JSON.stringify({ venues, volume: 7 }), confidence: 0.9, category: 'x' };
  poll(writer, now, market('A', { ...rest, source: 'kalshi' }), market('B', { ...rest, source: 'poly' }), market('C'));
  const whole = { canonical_id: 'M', confidence: 0.9, category: 'x', is_active: true, venues, volume: 7 };
  expect(await get('?source=poly')).toMatchObject({ markets: [whole], count: 1, total: 1 });
  expect(await get('?source=kalshi')).toMatchObject({ markets: [whole] });
  expect(await get('?source=nobody')).toMatchObject({ markets: [], total: 0 });
  expect(ids(await get())).toEqual(['M', 'id C']);
});

test('limit bounds the markets and not the total, and is bounded by the setting', async () => {
  const { writer, get } = await served(['service.rows_limit_max=3']);
  poll(writer, now, ...['A', 'B', 'C', 'D'].map((symbol) => market(symbol)));
  expect(await get('?limit=2')).toMatchObject({ count: 2, total: 4 });
  for (const limit of [1_000_000_000, Number.MAX_SAFE_INTEGER])
    expect(await get(`?limit=${limit}`)).toMatchObject({ count: 3, total: 4 });
  expect(await get()).toMatchObject({ count: 3, total: 4 });
});

test('accepts every view that was ever polled, and rejects others with a list', async () => {
  const { writer, get, json } = await served(['source.views=["matched","set"]']);
  poll(writer, now - hourMs, market('A', { views: ['once'] }));
  await publishNow(writer);
  poll(writer, now, market('A'));
  expect(await get('?view=once')).toMatchObject({ total: 0, view: 'once' });
  expect(await get('?view=set')).toMatchObject({ total: 0 });
  const { status, body } = await json('/api/v1/markets?view=wrong');
  expect(status).toBe(400);
  expect(body.errors).toEqual([{ name: 'view', reason: 'must be one of matched, resolving, set, once' }]);
});

const shared = sharedServing();

test.each(['limit=0', 'limit=-1', 'limit=1.5', 'limit=', 'limit=1e3', 'limit=1&limit=2', 'view=', 'source=', 'x=1'])(
  'refuses %s',
  async (query) => {
    const { json } = shared();
    const { status, body } = await json(`/api/v1/markets?${query}`);
    expect([status, (body.errors as { name: string }[])[0]!.name]).toEqual([400, query.split('=')[0]]);
  },
);

test('does not serve a list from a damaged file', async () => {
  const { root, writer, json } = await served();
  poll(writer, now, market('A'));
  const { files } = await publishNow(writer);
  const path = join(root, files.find((file) => file.path.startsWith('markets/'))!.path);
  rmSync(path);
  expect((await json('/api/v1/markets')).status).toBe(503);
  writeFileSync(path, 'no such file');
  expect((await json('/api/v1/markets')).status).toBe(503);
});

test('reads twenty thousand markets once per poll, not per request', async () => {
  const { root, writer, get } = await served(['service.rows_limit_max=100000']);
  poll(writer, now, ...Array.from({ length: 20_000 }, (_, i) => market(`S${i}`, { question: `Will ${i} happen?` })));
  const { files } = await publishNow(writer);
  expect(await get('?limit=1')).toMatchObject({ count: 1, total: 20_000 });
  // The cached list is used even if the file is missing.
  rmSync(join(root, files.find((file) => file.path.startsWith('markets/'))!.path));
  expect(await get()).toMatchObject({ count: 20_000, total: 20_000 });
});

test('of several sources, returns the last poll of each, published on different days or journaled', async () => {
  const root = scratchFolder();
  const sources = ['alpha', 'beta', 'quiet'].map((name) => ({ name, upstream: `https://${name}.test` }));
  const writer = opened({ root, upstream: null, sources });
  const pollOf = (source: string, observedAt: number, ...symbols: string[]): void => {
    const runId = `${source} ${observedAt}`;
    startRun(writer.state.db, runId, 'markets', 1, observedAt, 0, source);
    const markets = symbols.map((symbol) =>
      market(`${source}:${symbol}`, { canonicalId: `${source}:${symbol}`, views: ['matched'] }),
    );
    appendMarkets(writer.state, { runId, observedAt, markets }, []);
  };
  pollOf('beta', now - 3 * dayMs, 'OLD');
  pollOf('alpha', now - 2 * dayMs, 'GONE');
  await publishNow(writer);
  pollOf('alpha', now - dayMs, 'A');
  await publishNow(writer);
  const { json } = await serving(opened({ root, upstream: null }));
  const get = async () => (await json<Answer & { data_time: number }>('/api/v1/markets')).body;
  expect(ids(await get())).toEqual(['alpha:A', 'beta:OLD']);
  expect((await get()).data_time).toBe(now - 3 * dayMs);
  pollOf('beta', now - hourMs, 'B', 'C');
  expect(ids(await get())).toEqual(['alpha:A', 'beta:B', 'beta:C']);
  expect((await get()).data_time).toBe(now - dayMs);
  // An import has no source of its own: its rows say whose they are.
  const imported = market('quiet:Q', { canonicalId: 'quiet:Q', views: ['matched'] });
  appendMarkets(writer.state, { runId: 'import', observedAt: now - 2 * hourMs, markets: [imported] }, []);
  expect(ids(await get())).toEqual(['alpha:A', 'beta:B', 'beta:C', 'quiet:Q']);
  await publishNow(writer);
  expect(ids(await get())).toEqual(['alpha:A', 'beta:B', 'beta:C', 'quiet:Q']);
  expect((await get()).data_time).toBe(now - dayMs);
});
