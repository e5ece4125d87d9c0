import { expect, test } from 'vitest';
import { dayMs, fetchMarkets, fetchPage, noon, openSandbox, sendRequest, symbolsOf } from './sandbox-requests.ts';

test('gives matched markets a ticker per venue, and markets of one venue a symbol', async () => {
  const box = await openSandbox();
  const list = await fetchMarkets(box, { view: 'matched' });
  expect(list).toMatchObject({
    count: list.markets.length,
    total: list.markets.length,
    view: 'matched',
    generated_at: noon,
  });
  const matched = list.markets.find(({ venues }) => venues !== undefined)!;
  expect(matched.venues!.map(({ source }) => source)).toEqual(['kalshi', 'polymarket']);
  expect(matched.venues![0]!.ticker).toMatch(/^KX[A-Z]+-\d\d[A-Z]{3}\d{4}-T[\d.]+$/);
  expect(matched.venues![1]!.ticker).toMatch(/^will-[a-z0-9-]+$/);
  expect(matched.confidence).toBeGreaterThan(0);
  expect(matched.confidence).toBeLessThan(1);
  const single = list.markets.find(({ symbol }) => symbol !== undefined)!;
  expect(['kalshi', 'polymarket']).toContain(single.source);
  expect(new Set(list.markets.flatMap(symbolsOf)).size).toBe(list.markets.flatMap(symbolsOf).length);
});

test('respects source and limit and states the total', async () => {
  const box = await openSandbox();
  const all = await fetchMarkets(box);
  const some = await fetchMarkets(box, { limit: 3 });
  expect(some).toMatchObject({ count: 3, total: all.total });
  expect(some.markets).toEqual(all.markets.slice(0, 3));
  const kalshi = await fetchMarkets(box, { source: 'kalshi' });
  expect(kalshi.total).toBeLessThan(all.total);
  expect(kalshi.total).toBeGreaterThan(0);
  expect((await fetchMarkets(box, { source: 'nobody' })).total).toBe(0);
  box.set({ marketsCap: 2 });
  expect(await fetchMarkets(box)).toMatchObject({ count: 2, total: all.total });
});

test('opens, deactivates and resolves a market and drops it from the list two days later', async () => {
  const box = await openSandbox();
  const seen = (await fetchMarkets(box)).markets.find(({ is_active }) => is_active)!;
  const at = async (nowMs: number) => {
    box.set({ nowMs });
    return (await fetchMarkets(box)).markets.find(({ canonical_id }) => canonical_id === seen.canonical_id);
  };
  const symbol = symbolsOf(seen)[0]!;
  expect(await at(seen.opens_at! - 1)).toBeUndefined();
  expect((await sendRequest(box, 'ticks', { symbol })).status).toBe(404);
  expect(await at(seen.opens_at!)).toMatchObject({ is_active: true });
  expect(await at(seen.closes_at! - 1)).toMatchObject({ is_active: true });
  const closed = await at(seen.closes_at!);
  expect(closed).toMatchObject({ is_active: false });
  expect(closed).not.toHaveProperty('outcome');
  const resolved = (await at(seen.closes_at! + 2 * dayMs - 1))!;
  expect([0, 1]).toContain(resolved.outcome);
  expect(resolved.resolved_at).toBeGreaterThan(seen.closes_at!);
  const last = (await fetchPage(box, { symbol, from: resolved.resolved_at!, limit: 10 })).ticks;
  expect(last.map(({ p }) => p)).toEqual([resolved.outcome, resolved.outcome]);
  expect(last[0]!.t).toBe(resolved.resolved_at);
  expect(await at(seen.closes_at! + 2 * dayMs)).toBeUndefined();
  expect((await fetchPage(box, { symbol, from: seen.opens_at!, to: noon })).symbol).toBe(symbol);
});

test('limits the resolving view to markets that close within a day or await their outcome', async () => {
  const box = await openSandbox();
  const { markets: list, view, total } = await fetchMarkets(box, { view: 'resolving' });
  expect(view).toBe('resolving');
  expect(total).toBeGreaterThan(0);
  expect(total).toBeLessThan((await fetchMarkets(box)).total);
  for (const market of list) {
    if (market.is_active) expect(market.closes_at! - noon).toBeLessThanOrEqual(dayMs);
    else expect(market).not.toHaveProperty('outcome');
  }
});

test('returns an order book around the last price, and an empty one after the resolution', async () => {
  const box = await openSandbox({ ticksPerDay: 3_000 });
  const list = (await fetchMarkets(box)).markets;
  const open = list.find(({ is_active, opens_at }) => is_active && opens_at! < noon - dayMs)!;
  const symbol = symbolsOf(open)[0]!;
  const book = (await (await sendRequest(box, 'orderbook', { symbol })).json()) as {
    symbol: string;
    bids: { price: number; quantity: number }[];
    asks: { price: number; quantity: number }[];
  };
  const price = box.readTruth(symbol, { from: noon - dayMs, to: noon }).p.at(-1)!;
  expect(book.symbol).toBe(symbol);
  expect(book.bids[0]!.price).toBeLessThan(price);
  expect(book.asks[0]!.price).toBeGreaterThan(price);
  expect(book.bids.map((level) => level.price)).toEqual(book.bids.map((level) => level.price).sort((a, b) => b - a));
  expect(book.asks.every(({ quantity }) => quantity >= 1)).toBe(true);
  const resolved = list.find(({ outcome }) => outcome !== undefined)!;
  expect(await (await sendRequest(box, 'orderbook', { symbol: symbolsOf(resolved)[0]! })).json()).toMatchObject({
    bids: [],
    asks: [],
  });
});
