import { expect, test } from 'vitest';
import type { Feed } from '../../src/sandbox/feed.ts';
import { checkSandboxOptions } from '../../src/sandbox/sandbox-options.ts';
import { createSimulatedFeed } from '../../src/sandbox/simulated-feed.ts';
import { dayMs, hourMs, noon } from './sandbox-requests.ts';
import { readQuotes, readTrades } from './simulated-series.ts';

const seed = 5;
const feed: Feed = createSimulatedFeed(checkSandboxOptions({ seed, ticksPerDay: 2000 }));
const window = { from: noon - 2 * dayMs, to: noon };
const symbols = feed.symbols(noon).filter((symbol) => feed.ticks(symbol, window).t.length > 200);

test('gives the same quotes and trades for any split of a window', () => {
  const [symbol] = symbols;
  const middle = window.from + 17 * hourMs + 123_457;
  for (const read of [readQuotes, readTrades]) {
    const parts = [
      { from: window.from, to: middle },
      { from: middle, to: window.to },
    ].flatMap((part): unknown[] => read(feed, seed, symbol!, part));
    expect(parts).toEqual(read(feed, seed, symbol!, window));
  }
});

test('gives others for another seed', () => {
  const [symbol] = symbols;
  expect(readTrades(feed, seed + 1, symbol!, window)).not.toEqual(readTrades(feed, seed, symbol!, window));
  expect(readQuotes(feed, seed + 1, symbol!, window)).not.toEqual(readQuotes(feed, seed, symbol!, window));
});

test('has trades at the time and price of each tick before the outcome, and no others', () => {
  expect(symbols.length).toBeGreaterThan(10);
  let pairs = 0;
  let blocks = 0;
  const aggressors = new Set<string | null>();
  for (const symbol of symbols) {
    const { t, p } = feed.ticks(symbol, window);
    const ticks = Array.from(t, (at, i) => [at, p[i]!] as const).filter(([, price]) => price > 0 && price < 1);
    const trades = readTrades(feed, seed, symbol, window);
    const byTime = new Map(trades.map((trade) => [trade.t, trade.price]));
    expect([...byTime]).toEqual(ticks);
    expect(trades.every(({ t: at, price }) => byTime.get(at) === price)).toBe(true);
    expect(new Set(trades.map(({ tradeId }) => tradeId)).size).toBe(trades.length);
    expect(trades.every(({ size }) => Number.isInteger(size) && size > 0)).toBe(true);
    pairs += trades.length - byTime.size;
    blocks += trades.filter(({ isBlock }) => isBlock).length;
    for (const { aggressor } of trades) aggressors.add(aggressor);
  }
  expect(pairs).toBeGreaterThan(0);
  expect(blocks).toBeGreaterThan(0);
  expect(aggressors).toEqual(new Set(['buy', 'sell', null]));
});

test('has a quote around the price at each tick, ascending, and now and then without a side', () => {
  const wrong: unknown[] = [];
  let oneSided = 0;
  for (const symbol of symbols) {
    const { t, p } = feed.ticks(symbol, window);
    const quotes = readQuotes(feed, seed, symbol, window);
    expect(quotes.every(({ t: at }, i) => i === 0 || at > quotes[i - 1]!.t)).toBe(true);
    const byTime = new Map(quotes.map((quote) => [quote.t, quote]));
    t.forEach((at, i) => {
      if (p[i] === 0 || p[i] === 1) return;
      const quote = byTime.get(at)!;
      const { bid, ask, bidSize, askSize } = quote;
      const isAround = (bid ?? 0) < p[i]! && p[i]! < (ask ?? 1) && bid !== 0 && ask !== 1;
      const hasSizes = (bid === null) === (bidSize === null) && (ask === null) === (askSize === null);
      if (!isAround || !hasSizes || (bid === null && ask === null)) wrong.push([symbol, p[i], quote]);
      if (bid === null || ask === null) oneSided++;
    });
    expect(quotes.length).toBeGreaterThan(t.length);
  }
  expect(wrong).toEqual([]);
  expect(oneSided).toBeGreaterThan(0);
});
