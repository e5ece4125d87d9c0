import { expect, test } from 'vitest';
import type { Clock } from '../../../src/base/ports.ts';
import { replayMarkets } from '../../../src/collector/import/replay-pages.ts';
import type { RawPage } from '../../../src/contract/raw-page.ts';
import { noDetailPaths } from '../../archive/format/facts.ts';

const then = Date.UTC(2026, 6, 1, 2);
/** Long after the responses were received. */
const now = then + 30 * 86_400_000;
const clock: Clock = { nowMs: () => now, monotonicMs: () => now, sleep: async () => {} };
const paths = {
  symbolPaths: ['ticker'],
  fieldPaths: {
    question: [],
    source: ['source'],
    opensAt: [],
    closesAt: [],
    resolvedAt: [],
    outcome: [],
    ...noDetailPaths,
  },
};

interface Kept {
  readonly view?: string | null;
  readonly source?: string;
  readonly limit?: number | null;
  readonly askedAt?: number;
  readonly generatedAt?: number;
  readonly total?: number;
}

const raw = (rawRequest: RawPage['asked'], body: string, askedAt = then): RawPage => ({
  run: 'run',
  asked: rawRequest,
  askedAt,
  receivedAt: askedAt + 500,
  servedAt: null,
  status: 200,
  redacted: false,
  body: Buffer.from(body),
});
const list = (tickers: readonly string[], response: Kept = {}): RawPage => {
  const { view = 'matched', source = null, limit = 100, generatedAt, total = tickers.length } = response;
  const markets = tickers.map((ticker) => ({ canonical_id: ticker, ticker, source: ticker[0] }));
  const body = JSON.stringify({ markets, total, ...(generatedAt === undefined ? {} : { generated_at: generatedAt }) });
  return raw({ route: 'markets', view, source, limit }, body, response.askedAt);
};

async function replayed(pages: readonly RawPage[], views: readonly string[] = []) {
  const unreadable: string[] = [];
  const { signal } = new AbortController();
  const context = { clock, views, limit: 7, paths, futureSkewMs: 60_000, signal };
  const poll = await replayMarkets(pages, { ...context, onUnreadable: (reason) => void unreadable.push(reason) });
  return { ...poll, symbols: poll.markets.map(({ symbol, views: of }) => [symbol, ...of]), unreadable };
}

test('replays the lists of a poll, regardless of the current views and limit', async () => {
  const poll = await replayed([list(['A', 'B']), list(['B'], { view: 'resolving' })], ['matched']);
  expect(poll.symbols).toEqual([
    ['A', 'matched'],
    ['B', 'matched', 'resolving'],
  ]);
  expect(poll).toMatchObject({ observedAt: then, complete: true, shortfalls: [], failed: [], unreadable: [] });
});

test('replays a list that was requested with a larger limit and per venue', async () => {
  const pages = [
    list(['A', 'V'], { total: 5 }),
    list(['A', 'V', 'W'], { total: 5, limit: 5 }),
    list(['A', 'A2'], { source: 'A', limit: 5 }),
    list(['V'], { source: 'V', limit: 5 }),
    list(['W', 'W2'], { source: 'W', limit: 5 }),
  ];
  const poll = await replayed(pages);
  expect(poll.symbols.map(([symbol]) => symbol)).toEqual(['A', 'V', 'W', 'A2', 'W2']);
  expect(poll.complete).toBe(true);
  // If one is missing, no market counts as removed.
  const less = await replayed(pages.slice(0, 4));
  expect(less).toMatchObject({ complete: false, shortfalls: [expect.stringContaining('4 of 5 received')] });
});

test('is incomplete if a configured view was not polled', async () => {
  const poll = await replayed([list(['A'])], ['resolving']);
  expect(poll).toMatchObject({ complete: false, failed: [{ view: 'resolving' }], symbols: [['A', 'matched']] });
});

test('uses a response without a limit if there is none with it', async () => {
  const poll = await replayed([list(['A'], { limit: null })]);
  expect(poll).toMatchObject({ complete: true, symbols: [['A', 'matched']] });
});

test.each<[string, number | undefined, number]>([
  ['when it was generated', then - 1000, then - 1000],
  ['when it was generated, up to the allowed skew ahead', then + 60_500, then + 60_500],
  ['of the request if its generated_at was in the future', then + 60_501, then],
  ['of the request if it states none', undefined, then],
])('dates a list by the time %s', async (_, generatedAt, observedAt) => {
  const response = generatedAt === undefined ? {} : { generatedAt };
  expect((await replayed([list(['A'], response)])).observedAt).toBe(observedAt);
});

test('reports a response that cannot be decoded and uses another one for the same request', async () => {
  const rawRequest = { route: 'markets', view: 'matched', source: null, limit: 100 } as const;
  const poll = await replayed([raw(rawRequest, '{"markets": 5}'), list(['A'])]);
  expect(poll).toMatchObject({ unreadable: ['no markets array'], symbols: [['A', 'matched']] });
  const unreadableOnly = replayed([raw(rawRequest, 'oops')]);
  await expect(unreadableOnly).rejects.toMatchObject({ failure: 'refused', status: 400 });
});

test('ignores responses of other routes', async () => {
  const poll = await replayed([raw({ route: 'orderbook', symbol: 'S' }, '{}'), list(['A'])]);
  expect(poll).toMatchObject({ symbols: [['A', 'matched']], unreadable: [], complete: true });
  await expect(replayed([], ['matched'])).rejects.toMatchObject({ reason: 'no raw response for this request' });
});
