import { expect, test } from 'vitest';
import { UpstreamError, type UpstreamFailure } from '../../../src/base/errors.ts';
import type { Clock } from '../../../src/base/ports.ts';
import type { MarketsPage, MarketsQuery } from '../../../src/client/upstream.ts';
import { type MarketsPoll, type MarketsPollContext, pollMarkets } from '../../../src/collector/paging/poll-markets.ts';
import { noDetailPaths } from '../../archive/format/facts.ts';

const nowMs = Date.UTC(2026, 6, 1, 12);
const skewMs = 60_000;
const clock: Clock = { nowMs: () => nowMs, monotonicMs: () => nowMs, sleep: async () => {} };

const paths = {
  symbolPaths: ['symbol', 'symbols/*', 'ticker', 'venues/*/ticker', 'venues/*/symbol'],
  fieldPaths: {
    question: ['question'],
    source: ['source', 'venues/*/source'],
    opensAt: ['opens_at'],
    closesAt: ['closes_at'],
    resolvedAt: ['resolved_at'],
    outcome: ['outcome'],
    ...noDetailPaths,
  },
};

type Service = (query: MarketsQuery) => MarketsPage;

interface Polled extends MarketsPoll {
  readonly requests: readonly MarketsQuery[];
}

async function poll(service: Service, options: Partial<MarketsPollContext> = {}): Promise<Polled> {
  const requests: MarketsQuery[] = [];
  const upstream = {
    markets: async ({ askedAt, ...query }: MarketsQuery) => {
      expect(askedAt).toBe(nowMs);
      requests.push(query);
      return service(query);
    },
  };
  const { signal } = new AbortController();
  const views = ['matched', 'resolving'];
  const context = { upstream, clock, views, paths, futureSkewMs: skewMs, signal, ...options };
  return { ...(await pollMarkets(context)), requests };
}

const answer = (markets: readonly unknown[], total: number | null = markets.length): MarketsPage => ({
  markets,
  total,
  generatedAt: nowMs,
});

const numbered = (count: number, source = 'kalshi', first = 0) =>
  Array.from({ length: count }, (_, i) => ({ canonical_id: `M${first + i}`, ticker: `T${first + i}`, source }));

function fail(failure: UpstreamFailure, status?: number): never {
  const reason = status === undefined ? 'connection refused' : `HTTP ${status} ("limit over 1000")`;
  throw new UpstreamError('markets', { failure, reason, ...(status === undefined ? {} : { status }) });
}

const symbolsOf = ({ markets }: MarketsPoll) => markets.map((market) => market.symbol).sort();

test('lists each market once, with all its views', async () => {
  const { markets, complete, observedAt } = await poll(({ view }) => answer(numbered(view === 'matched' ? 2 : 1)));
  expect(markets.map(({ symbol, views }) => [symbol, views])).toEqual([
    ['T0', ['matched', 'resolving']],
    ['T1', ['matched']],
  ]);
  expect({ complete, observedAt }).toEqual({ complete: true, observedAt: nowMs });
});

test.each([
  ['tickers', [{ ticker: 'A' }, { ticker: 'B' }]],
  ['venues', [{ venues: [{ ticker: 'A' }] }, { venues: [{ ticker: 'B' }] }]],
  ['lists of symbols', [{ symbols: ['A'] }, { symbols: ['B'] }]],
])('keeps records that share a canonical_id and differ in their %s', async (_, records) => {
  const polled = await poll(() => answer(records.map((record) => ({ canonical_id: 'M', ...record }))));
  expect(symbolsOf(polled)).toEqual(['A', 'B']);
  expect(polled.complete).toBe(true);
  expect(polled.requests).toHaveLength(2);
});

test('distinguishes records of a truncated list by their symbols, in any order', async () => {
  const both = [
    { canonical_id: 'M', source: 'kalshi', symbols: ['A', 'B'] },
    { canonical_id: 'M', source: 'kalshi', symbols: ['C'] },
  ];
  const turned = { canonical_id: 'M', source: 'kalshi', symbols: ['B', 'A'] };
  const complete = await poll(({ source }) => answer(source === undefined ? [turned] : both, 2), {
    views: ['matched'],
  });
  expect(complete).toMatchObject({ complete: true, shortfalls: [] });
  const truncated = await poll(({ source }) => answer(source === undefined ? both.slice(0, 1) : [turned], 2), {
    views: ['matched'],
  });
  expect(truncated).toMatchObject({
    complete: false,
    shortfalls: ['markets of view matched: the list is truncated: 1 of 2 received'],
  });
});

test('gives a market all its views even if they list different venues', async () => {
  const full = { canonical_id: 'M', venues: [{ ticker: 'A' }, { ticker: 'B' }] };
  const part = { canonical_id: 'M', venues: [{ ticker: 'A' }] };
  const { markets } = await poll(({ view }) => answer([view === 'matched' ? full : part]));
  expect(markets.map(({ symbol, views }) => [symbol, views])).toEqual([
    ['A', ['matched', 'resolving']],
    ['B', ['matched']],
  ]);
});

test('rejects a bad record once, in however many views it is', async () => {
  const junk = { ticker: 'A' };
  const { rejected, markets } = await poll(() => answer([junk, 'junk', ...numbered(1)]));
  expect(rejected).toEqual([
    { reason: 'canonical_id is not a string', raw: '{"ticker":"A"}' },
    { reason: 'market is not an object', raw: '"junk"' },
  ]);
  expect(markets).toHaveLength(1);
});

test('requests a truncated list with a larger limit', async () => {
  const all = numbered(1500);
  const polled = await poll(({ limit }) => answer(all.slice(0, limit!), 1500), { views: ['matched'] });
  expect(polled.requests).toEqual([
    { view: 'matched', limit: 1000 },
    { view: 'matched', limit: 1500 },
  ]);
  expect(polled.markets).toHaveLength(1500);
  expect(polled.complete).toBe(true);
});

test('requests more if a list without a total is as long as the limit', async () => {
  const many = numbered(2500);
  const all = await poll(({ limit = 0 }) => answer(many.slice(0, limit), null), { views: ['matched'] });
  expect(all.requests.map(({ limit }) => limit)).toEqual([1000, 10_000]);
  expect(all).toMatchObject({ complete: true, shortfalls: [] });
  expect(all.markets).toHaveLength(2500);
  const capped = await poll(({ limit = 0 }) => answer(many.slice(0, Math.min(limit, 1000)), null), {
    views: ['matched'],
    limit: 500,
  });
  expect(capped.markets).toHaveLength(1000);
  const exact = await poll(() => answer(numbered(1000), null), { views: ['matched'] });
  expect(exact.shortfalls).toEqual([]);
});

test('requests each venue if the service caps every list', async () => {
  const all = [...numbered(6, 'kalshi'), ...numbered(4, 'poly', 6)];
  // Shuffled, so that the truncated list contains both venues.
  const mixed = all.toSorted((a, b) => a.ticker.at(-1)!.localeCompare(b.ticker.at(-1)!)).reverse();
  const polled = await poll(
    ({ source }) => {
      const matching = mixed.filter((market) => source === undefined || market.source === source);
      return answer(matching.slice(0, 6), matching.length);
    },
    { views: ['matched'], limit: 6 },
  );
  expect(polled.requests.map(({ source }) => source)).toEqual([undefined, undefined, 'kalshi', 'poly']);
  expect(polled).toMatchObject({ complete: true, shortfalls: [] });
  expect(polled.markets).toHaveLength(10);
});

test.each<[string, UpstreamFailure, number?]>([
  ['is refused', 'refused', 400],
  ['fails temporarily', 'transient', 500],
  ['finds the service unreachable', 'unreachable'],
])('keeps the first list if the request with a larger limit %s', async (_, failure, status) => {
  const polled = await poll(
    ({ limit, source }) => {
      if (source === undefined && limit === 15) fail(failure, status);
      return answer(numbered(10), 15);
    },
    { views: ['matched'], limit: 10 },
  );
  expect(polled.markets).toHaveLength(10);
  expect(polled.complete).toBe(false);
  const reason = status === undefined ? 'connection refused' : `HTTP ${status} ("limit over 1000")`;
  expect(polled.shortfalls).toEqual([`markets of view matched: the list is truncated: 10 of 15 received; ${reason}`]);
});

test('requests each venue with the accepted limit if a larger one is refused', async () => {
  const all = [...numbered(3, 'poly', 12), ...numbered(12, 'kalshi')];
  const polled = await poll(
    ({ limit, source }) => {
      if (limit! > 13) fail('refused', 400);
      const matching = all.filter((market) => source === undefined || market.source === source);
      return answer(matching.slice(0, limit!), matching.length);
    },
    { views: ['matched'], limit: 13 },
  );
  expect(polled.requests.at(-1)).toEqual({ view: 'matched', limit: 13, source: 'poly' });
  expect(polled).toMatchObject({ complete: true, shortfalls: [] });
  expect(polled.markets).toHaveLength(15);
});

test('keeps the lists of other venues if one is refused', async () => {
  const all = [...numbered(1, 'alpha', 0), ...numbered(2, 'beta', 1), ...numbered(3, 'gamma', 3)];
  const polled = await poll(
    ({ source }) => {
      if (source === 'beta') fail('refused', 404);
      if (source === undefined) return answer([all[0], all[1], all[3]], 6);
      return answer(all.filter((market) => market.source === source));
    },
    { views: ['matched'] },
  );
  expect(symbolsOf(polled)).toEqual(['T0', 'T1', 'T3', 'T4', 'T5']);
  expect(polled.shortfalls).toEqual([
    'markets of view matched: the list is truncated: 5 of 6 received; HTTP 404 ("limit over 1000")',
  ]);
});

test('requests no further venue after the service became unreachable', async () => {
  const all = [...numbered(1, 'alpha'), ...numbered(1, 'beta', 1)];
  const polled = await poll(({ source }) => (source === undefined ? answer(all, 6) : fail('unreachable')), {
    views: ['matched'],
  });
  expect(polled.requests.map(({ source }) => source)).toEqual([undefined, undefined, 'alpha']);
  expect(polled.markets).toHaveLength(2);
});

test.each([400, 413, 422])('requests again without a limit if the first response is %i', async (status) => {
  const polled = await poll(({ limit }) => (limit === undefined ? answer(numbered(3)) : fail('refused', status)), {
    views: ['matched'],
  });
  expect(polled.requests).toEqual([{ view: 'matched', limit: 1000 }, { view: 'matched' }]);
  expect(polled).toMatchObject({ complete: true, shortfalls: [] });
  expect(polled.markets).toHaveLength(3);
});

test('does not retry without a limit after a 404', async () => {
  const polled = await poll(({ view }) => (view === 'matched' ? answer(numbered(1)) : fail('refused', 404)));
  expect(polled.requests).toHaveLength(2);
});

test.each<[string, UpstreamFailure, number?]>([
  ['is refused', 'refused', 400],
  ['fails temporarily', 'transient', 500],
  ['finds the service unreachable', 'unreachable'],
])('keeps the list of one view if another %s', async (_, failure, status) => {
  const polled = await poll(({ view }) => (view === 'matched' ? answer(numbered(2)) : fail(failure, status)));
  expect(polled.markets.map(({ views }) => views)).toEqual([['matched'], ['matched']]);
  expect(polled.complete).toBe(false);
  const reason = status === undefined ? 'connection refused' : `HTTP ${status} ("limit over 1000")`;
  expect(polled).toMatchObject({ shortfalls: [], failed: [{ view: 'resolving', reason }] });
});

test('continues with the next view if the first one fails temporarily', async () => {
  const polled = await poll(({ view }) => (view === 'resolving' ? answer(numbered(2)) : fail('transient', 500)));
  expect(polled.markets.map(({ views }) => views)).toEqual([['resolving'], ['resolving']]);
  expect(polled.complete).toBe(false);
});

test('fails with the last error if no view responds', async () => {
  const failing = poll(({ view }) => (view === 'matched' ? fail('refused', 404) : fail('transient', 502)));
  await expect(failing).rejects.toMatchObject({ failure: 'transient', status: 502 });
});

test('stops after the first request if the service is unreachable from the start', async () => {
  let requests = 0;
  const failing = poll(() => {
    requests++;
    return fail('unreachable');
  });
  await expect(failing).rejects.toMatchObject({ failure: 'unreachable' });
  expect(requests).toBe(1);
});

test.each<[string, Service]>([
  ['the next view', ({ view }) => (view === 'matched' ? answer(numbered(2)) : fail('credential', 401))],
  ['a larger limit', ({ limit }) => (limit === 1000 ? answer(numbered(2), 1001) : fail('credential', 403))],
  ['a venue', ({ source }) => (source === undefined ? answer(numbered(2), 3) : fail('credential', 403))],
  ['no limit', ({ limit }) => (limit === undefined ? fail('credential', 401) : fail('refused', 400))],
])('fails immediately if the credential is refused at %s', async (_, service) => {
  await expect(poll(service)).rejects.toMatchObject({ failure: 'credential' });
});

test('throws errors that are not of the upstream', async () => {
  const stopped = new Error('stopped');
  const failing = poll(({ view }) => {
    if (view === 'resolving') throw stopped;
    return answer(numbered(2));
  });
  await expect(failing).rejects.toBe(stopped);
});

test.each([
  ['not stated', null, nowMs],
  ['before 2000', Date.UTC(1999, 11, 31), nowMs],
  ['in seconds', nowMs / 1000, nowMs],
  ['too far in the future', nowMs + skewMs + 1, nowMs],
  ['slightly in the future', nowMs + skewMs, nowMs + skewMs],
  ['a while ago', nowMs - 5000, nowMs - 5000],
])('dates a list by its generated_at or else by the request: %s', async (_, generatedAt, expected) => {
  const polled = await poll(() => ({ ...answer(numbered(1)), generatedAt }));
  expect(polled.observedAt).toBe(expected);
});

test('dates a list without a time by the request, not by its arrival', async () => {
  let now = nowMs;
  const slow = { ...clock, nowMs: () => now };
  const service: Service = () => {
    now += 30_000;
    return { ...answer(numbered(1)), generatedAt: null };
  };
  expect((await poll(service, { clock: slow, views: ['matched'] })).observedAt).toBe(nowMs);
});

test('is incomplete if most of a list is unusable, or a list is truncated or failed', async () => {
  const junk = (count: number) => Array.from({ length: count }, (_, i) => ({ ticker: `J${i}` }));
  for (const [bad, complete] of [
    [2, true],
    [3, false],
  ] as const)
    expect((await poll(() => answer([...numbered(2), ...junk(bad)]))).complete).toBe(complete);
  const both = await poll(({ view }) => (view === 'matched' ? answer(numbered(1), 5) : fail('transient', 500)));
  expect([both.shortfalls.length, both.failed.length, both.complete]).toEqual([1, 1, false]);
});
