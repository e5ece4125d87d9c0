import { describe, expect, test } from 'vitest';
import type { ListCheck } from '../../../src/archive/journal/list-checks.ts';
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
  const context = { upstream, clock, views, paths, getCheck: () => null, futureSkewMs: skewMs, signal, ...options };
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

describe('a list is proven whole', () => {
  /** Both sources are in each part of the list. */
  const all = [...numbered(30, 'kalshi'), ...numbered(10, 'poly', 30)].toSorted((a, b) =>
    a.ticker.at(-1)!.localeCompare(b.ticker.at(-1)!),
  );
  const ofSource = (source?: string) => all.filter((market) => source === undefined || market.source === source);
  const honest: Service = ({ limit, source }) => answer(ofSource(source).slice(0, limit), ofSource(source).length);
  const prove = async (service: Service, past?: ListCheck) => {
    const polled = await poll(service, { views: ['matched'], getCheck: () => past });
    const [list] = polled.lists;
    expect(polled.shortfalls).toEqual([]);
    return { ...polled, doubt: list!.doubt, check: list!.check! };
  };
  const asked = ({ requests }: Polled) => requests.map(({ limit, source }) => source ?? limit);

  test('by its total with limit 1 and by each source at first, then by the total, and weekly by each source', async () => {
    const first = await prove(honest);
    expect(asked(first)).toEqual([1000, 1, 'kalshi', 'poly']);
    expect(first).toMatchObject({ doubt: null, doubts: [], complete: true, check: { at: nowMs, markets: 40 } });
    expect(asked(await prove(honest, first.check))).toEqual([1000, 1]);
    const week = { ...first.check, at: nowMs - 7 * 86_400_000 };
    expect(asked(await prove(honest, week))).toEqual([1000, 1, 'kalshi', 'poly']);
    const others = { ...first.check, members: 'others' };
    expect(asked(await prove(honest, others))).toEqual([1000, 1, 'kalshi', 'poly']);
    expect(asked(await prove(honest, { ...others, markets: 39 }))).toEqual([1000, 1]);
  });

  test('although a market is opened meanwhile', async () => {
    let polls = 0;
    const growing: Service = ({ limit, source }) => {
      const now = ofSource(source).slice(polls++ === 0 ? 1 : 0);
      return answer(now.slice(0, limit), now.length);
    };
    const polled = await prove(growing);
    expect(asked(polled)).toEqual([1000, 1, 40, 'kalshi', 'poly']);
    expect(polled).toMatchObject({ doubt: null });
    expect(polled.markets).toHaveLength(40);
    polls = -2;
    expect(
      await prove(({ source, ...query }) => (source === 'poly' ? honest({ source }) : growing(query))),
    ).toMatchObject({ doubt: null });
  });

  test('although a service has no lists of single sources, or lists a market there with its own symbols', async () => {
    expect(await prove((query) => (query.source === undefined ? honest(query) : fail('refused', 400)))).toMatchObject({
      doubt: null,
      check: { at: nowMs },
    });
    const pair = {
      canonical_id: 'M',
      venues: [
        { source: 'kalshi', ticker: 'A' },
        { source: 'poly', ticker: 'B' },
      ],
    };
    const part = { canonical_id: 'M', venues: [{ source: 'poly', ticker: 'B' }] };
    const polled = await prove(({ source }) => answer([source === 'poly' ? part : pair]));
    expect(polled).toMatchObject({ doubt: null });
    expect(symbolsOf(polled)).toEqual(['A', 'B']);
  });

  const cut = (source?: string) => ofSource(source).slice(0, 25);
  test.each<[string, Service, string, number]>([
    [
      'no total',
      ({ source }) => answer(cut(source), null),
      'other requests name 10 further markets (25 markets, a round number)',
      35,
    ],
    [
      'the total of the response',
      ({ limit, source }) => answer(cut(source).slice(0, limit)),
      'other requests name 10 further markets (25 markets, a round number)',
      35,
    ],
    [
      'no total, and nothing missing',
      ({ source }) => answer(ofSource(source).slice(1), null),
      'the service states no total',
      39,
    ],
    [
      'the total of the response, and nothing missing',
      ({ limit, source }) => answer(ofSource(source).slice(1).slice(0, limit)),
      'the service states a total of 39, and of 1 with limit 1',
      39,
    ],
    [
      'the total of the list that is cut off',
      ({ limit, source }) => answer(cut(source).slice(0, limit), cut(source).length),
      'other requests name 10 further markets (25 markets, a round number)',
      35,
    ],
    [
      'one source cut off',
      ({ limit, source }) => {
        const listed = source === undefined ? [...numbered(3), ...numbered(10, 'poly', 30)] : ofSource(source);
        return answer(listed.slice(0, limit), listed.length);
      },
      'other requests name 27 further markets',
      40,
    ],
    [
      'a failing second question',
      (query) => (query.limit === 1 ? fail('transient', 503) : honest(query)),
      'the request that is to confirm its total failed (40 markets, a round number)',
      40,
    ],
    [
      'no total with limit 1',
      (query) => ({ ...honest(query), ...(query.limit === 1 && { total: null }) }),
      'the service states no total with limit 1 (40 markets, a round number)',
      40,
    ],
    [
      'a source that fails',
      (query) => (query.source === 'poly' ? fail('transient', 503) : honest(query)),
      'the list of source poly could not be fetched for comparison (40 markets, a round number)',
      40,
    ],
  ])('but not with %s', async (_, service, doubt, markets) => {
    const polled = await prove(service);
    expect(polled).toMatchObject({ doubt, doubts: [`view matched: ${doubt}`], complete: true });
    expect(polled.markets).toHaveLength(markets);
  });

  test('and one with markets missing is asked for each source every night', async () => {
    const service: Service = ({ limit, source }) => answer(cut(source).slice(0, limit), cut(source).length);
    const { check } = await prove(service);
    expect(check.at).toBe(0);
    const again = await prove(service, check);
    expect(again).toMatchObject({ doubt: 'other requests name 10 further markets (25 markets as before)' });
    expect(again.markets).toHaveLength(35);
  });

  test('but not one that names other markets each time', async () => {
    let n = 0;
    const service: Service = ({ limit = 0 }) => {
      n += 7;
      const turned = [...all.slice(n % 40), ...all.slice(0, n % 40)].map((market) => ({
        ...market,
        source: undefined,
      }));
      return answer(turned.slice(0, Math.min(25, limit)), 25);
    };
    const polled = await prove(service);
    expect(polled).toMatchObject({ doubt: 'other requests name 14 further markets (25 markets, a round number)' });
  });

  test('only once a day', async () => {
    expect(asked(await poll(honest, { views: ['matched'], getCheck: () => null }))).toEqual([1000]);
  });
});
