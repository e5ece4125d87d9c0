import { readdirSync } from 'node:fs';
import { expect, onTestFinished, test } from 'vitest';
import { createQueryEngine } from '../../../src/archive/query/database.ts';
import { type BacktestData, openBacktestData } from '../../../src/backtest/data/backtest-data.ts';
import { readMarketStates } from '../../../src/backtest/data/markets.ts';
import { openOrderBookStore, readOrderBooks, readQuotes } from '../../../src/backtest/data/order-book-store.ts';
import { bookAgeMsMax, quoteAgeMsMax } from '../../../src/backtest/engine/book-lookup.ts';
import type { OrderBook } from '../../../src/backtest/engine/symbol-series.ts';
import { scratchFolder } from '../../archive/scratch.ts';
import { findOffer, listBooks } from '../plain-engine.ts';
import { createArchive, day0, dayMs, seriesOf, symbols } from './test-archive.ts';

const span = { from: day0, to: day0 + 3 * dayMs };
const never = new AbortController().signal;

const bookAt = (t: number): OrderBook => ({
  t,
  bids: Array.from({ length: t % 4 }, (_, i) => [0.4 - i / 100, t + i] as const),
  asks: Array.from({ length: (t + 2) % 5 }, (_, i) => [0.6 + i / 100, t + i] as const),
});

test.each([2, 7, 64, 100_000])('the store returns all books with %i numbers in memory', (held) => {
  const scratch = scratchFolder();
  const store = openOrderBookStore(scratch, held);
  const rows = [store.createSeries(), store.createSeries(), store.createSeries()];
  // Several series grow in turn, because files hold the symbols of a day one after the other.
  for (let t = 0; t < 90; t++) rows[t % 2]!.add(bookAt(t));
  const times = (row: number) => Array.from({ length: 45 }, (_, i) => 2 * i + row);
  for (const row of [0, 1])
    expect(listBooks(rows[row]!).map(({ t, bids, asks }) => ({ t, bids, asks }))).toEqual(times(row).map(bookAt));
  expect([rows[2]!.length, rows[2]!.at(0), rows[0]!.at(45)]).toEqual([0, undefined, undefined]);
  store.close();
  expect(readdirSync(scratch)).toEqual([]);
});

/** A query as in a worker thread. */
async function over(data: BacktestData) {
  const engine = await createQueryEngine(data.root, {
    threads: 1,
    memoryBytesMax: 2 ** 28,
    scratch: scratchFolder(),
  });
  const query = await engine.openQuery(data.findFiles(symbols, span, span.from).sources, []);
  onTestFinished(async () => {
    await query.close();
    await engine.close();
  });
  return query;
}

async function grounded() {
  const data = await openBacktestData(
    await createArchive(),
    { ...span, hasStates: true, symbols: [] },
    Math.random,
    never,
  );
  onTestFinished(() => data.close());
  return data;
}

test('keeps only order books that a tick can use', async () => {
  const query = await over(await grounded());
  const part = { from: day0 + 3_600_000, to: day0 + 2 * dayMs };
  const all = seriesOf().filter(({ symbol }) => symbols.indexOf(symbol) < 12);
  const ticks = new Map(all.map(({ symbol, t }) => [symbol, t.filter((_, i) => i % 10 === 0)]));
  const store = openOrderBookStore(scratchFolder());
  const found = await readOrderBooks(query, { ticks, span: part, ageMsMax: bookAgeMsMax }, store, never);
  let kept = 0;
  for (const { symbol, books } of all) {
    const usableTimes = new Set<number>();
    for (const tick of ticks.get(symbol)!) {
      const latest = listBooks(books).findLast(({ t }) => t <= tick);
      if (tick >= part.from && tick < part.to && latest !== undefined && latest.t >= tick - bookAgeMsMax)
        usableTimes.add(latest.t);
    }
    const wanted = listBooks(books).filter(({ t }) => usableTimes.has(t));
    const actual = listBooks(found.get(symbol) ?? []).map(({ t, bids, asks }) => ({ t, bids, asks }));
    expect(actual, symbol).toEqual(wanted);
    kept += actual.length;
  }
  expect(kept).toBeGreaterThan(2);
  expect(kept).toBeLessThan(200);
  store.close();
});

test('keeps every quote that is in force at a tick, and every order book that ends one', async () => {
  const query = await over(await grounded());
  const part = { from: day0 + 26 * 3_600_000, to: day0 + 3 * dayMs };
  const all = seriesOf();
  const ticks = new Map(all.map(({ symbol, t }) => [symbol, t.filter((_, i) => i % 40 === 0)]));
  const store = openOrderBookStore(scratchFolder());
  const selection = { ticks, span: part };
  const books = await readOrderBooks(query, { ...selection, ageMsMax: quoteAgeMsMax }, store, never);
  const quotes = await readQuotes(query, selection, store, never);
  const found = { book: 0, quote: 0, tick: 0 };
  for (const { symbol, ...series } of all) {
    const known = (now: number, rows: OrderBook[]): OrderBook[] => rows.filter(({ t }) => t <= now);
    const [booksRead, quotesRead] = [books, quotes].map((bySymbol) =>
      listBooks(bySymbol.get(symbol) ?? []).map(({ t, bids, asks }) => ({ t, bids, asks })),
    );
    const inWindow = ticks.get(symbol)!.filter((t) => t >= part.from && t < part.to);
    expect(quotesRead!.length).toBeLessThanOrEqual(inWindow.length);
    for (const now of inWindow) {
      const read = findOffer({ now, books: known(now, booksRead!), quotes: known(now, quotesRead!) });
      const [allBooks, allQuotes] = [listBooks(series.books), listBooks(series.quotes)];
      expect(read, symbol).toEqual(findOffer({ now, books: known(now, allBooks), quotes: known(now, allQuotes) }));
      found[read?.basis ?? 'tick']++;
    }
  }
  expect(found.book).toBeGreaterThan(0);
  expect(found.quote).toBeGreaterThan(50);
  expect(found.tick).toBeGreaterThan(50);
  store.close();
});

test('market states are the same from the sorted file and from the daily files', async () => {
  const data = await grounded();
  const before = await over(data);
  const wanted = await readMarketStates(before, symbols, span.to, never);
  const paths = () =>
    data.findFiles(symbols, span, span.from).sources.map(({ dataset, paths: { length } }) => [dataset, length]);
  expect(Object.fromEntries(paths())).toMatchObject({ markets: 3 });
  await data.writeStates(span.to, never);
  // Batches do not open the daily files that all symbols share.
  expect(Object.fromEntries(paths())).toEqual({
    orderbooks: expect.any(Number),
    quotes: expect.any(Number),
    markets: 1,
  });
  const after = await over(data);
  expect(await readMarketStates(after, symbols, span.to, never)).toEqual(wanted);
  expect(wanted.size).toBe(20);
});
