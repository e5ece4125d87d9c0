import { expect, test } from 'vitest';
import type { Clock } from '../../../src/base/ports.ts';
import { replayMarkets } from '../../../src/collector/import/replay-pages.ts';
import type { RawPage } from '../../../src/contract/raw-page.ts';

const then = Date.UTC(2026, 6, 1, 2);
/** Long after the answers were had. */
const now = then + 30 * 86_400_000;
const clock: Clock = { nowMs: () => now, monotonicMs: () => now, sleep: async () => {} };
const paths = {
  symbolPaths: ['ticker'],
  fieldPaths: { question: [], source: ['source'], opensAt: [], closesAt: [], resolvedAt: [], outcome: [] },
};

interface Kept {
  readonly view?: string | null;
  readonly source?: string;
  readonly limit?: number | null;
  readonly askedAt?: number;
  readonly generatedAt?: number;
  readonly total?: number;
}

const raw = (asked: RawPage['asked'], body: string, askedAt = then): RawPage => ({
  run: 'run',
  asked,
  askedAt,
  receivedAt: askedAt + 500,
  servedAt: null,
  status: 200,
  redacted: false,
  body: Buffer.from(body),
});
const list = (tickers: readonly string[], kept: Kept = {}): RawPage => {
  const { view = 'matched', source = null, limit = 100, generatedAt, total = tickers.length } = kept;
  const markets = tickers.map((ticker) => ({ canonical_id: ticker, ticker, source: ticker[0] }));
  const body = JSON.stringify({ markets, total, ...(generatedAt === undefined ? {} : { generated_at: generatedAt }) });
  return raw({ route: 'markets', view, source, limit }, body, kept.askedAt);
};

async function replayed(pages: readonly RawPage[], views: readonly string[] = []) {
  const unreadable: string[] = [];
  const { signal } = new AbortController();
  const context = { clock, views, limit: 7, paths, futureSkewMs: 60_000, signal };
  const poll = await replayMarkets(pages, { ...context, onUnreadable: (reason) => void unreadable.push(reason) });
  return { ...poll, symbols: poll.markets.map(({ symbol, views: of }) => [symbol, ...of]), unreadable };
}

test('the lists of a poll are read again as they came, whatever views and limit are set now', async () => {
  const poll = await replayed([list(['A', 'B']), list(['B'], { view: 'resolving' })], ['matched']);
  expect(poll.symbols).toEqual([
    ['A', 'matched'],
    ['B', 'matched', 'resolving'],
  ]);
  expect(poll).toMatchObject({ observedAt: then, complete: true, shortfalls: [], failed: [], unreadable: [] });
});

test('a list that was asked for with a larger limit, and venue by venue, is put together again', async () => {
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
  // One of them is missing: no market is gone for that.
  const less = await replayed(pages.slice(0, 4));
  expect(less).toMatchObject({ complete: false, shortfalls: [expect.stringContaining('4 of 5 could be had')] });
});

test('a view that is asked for now and was not had then makes the poll an incomplete one', async () => {
  const poll = await replayed([list(['A'])], ['resolving']);
  expect(poll).toMatchObject({ complete: false, failed: [{ view: 'resolving' }], symbols: [['A', 'matched']] });
});

test('an answer without a limit is taken where the one with it is not there', async () => {
  const poll = await replayed([list(['A'], { limit: null })]);
  expect(poll).toMatchObject({ complete: true, symbols: [['A', 'matched']] });
});

test.each<[string, number | undefined, number]>([
  ['when it says', then - 1000, then - 1000],
  ['when it says, as far ahead of our clock of then as clocks may differ', then + 60_500, then + 60_500],
  ['when it was asked for, where it says what was in the future then', then + 60_501, then],
  ['when it was asked for, where it says nothing', undefined, then],
])('a list is of the moment %s', async (_, generatedAt, observedAt) => {
  const kept = generatedAt === undefined ? {} : { generatedAt };
  expect((await replayed([list(['A'], kept)])).observedAt).toBe(observedAt);
});

test('an answer that cannot be decoded is told of, and another one of the same question is taken for it', async () => {
  const asked = { route: 'markets', view: 'matched', source: null, limit: 100 } as const;
  const poll = await replayed([raw(asked, '{"markets": 5}'), list(['A'])]);
  expect(poll).toMatchObject({ unreadable: ['no markets array'], symbols: [['A', 'matched']] });
  const alone = replayed([raw(asked, 'oops')]);
  await expect(alone).rejects.toMatchObject({ failure: 'refused', status: 400 });
});

test('answers of other routes are no lists', async () => {
  const poll = await replayed([raw({ route: 'orderbook', symbol: 'S' }, '{}'), list(['A'])]);
  expect(poll).toMatchObject({ symbols: [['A', 'matched']], unreadable: [], complete: true });
  await expect(replayed([], ['matched'])).rejects.toMatchObject({ reason: 'it is not among the answers kept' });
});
