import { expect, test } from 'vitest';
import { bookAgeMsMax, quoteAgeMsMax } from '../../src/backtest/engine/book-lookup.ts';
import { simulate } from '../../src/backtest/engine/simulate.ts';
import type { OrderBook, SymbolSeries } from '../../src/backtest/engine/symbol-series.ts';
import type { Trade } from '../../src/contract/trade-fields.ts';
import { at, everything, minute, priced, ruled, strategyOf } from './series.ts';

const play = (series: SymbolSeries, ...rule: Parameters<typeof ruled>): Trade[] =>
  simulate(series, ruled(...rule), everything);

const cheap = { measure: 'price', below: 0.3 };
const dear = { measure: 'price', above: 0.5 };

test('fills orders at the tick after the decision', () => {
  const series = priced([0.5, 0.2, 0.25, 0.6, 0.55, 0.4]);
  expect(play(series, { entry: cheap, exit: dear, size: { contracts: 10 } })).toEqual([
    {
      symbol: 'S',
      rule: 0,
      side: 'yes',
      contracts: 10,
      decided_at: at(1),
      filled_at: at(2),
      price: 0.25,
      entry_price: 0.25,
      exit_price: 0.55,
      entry_fill: 'tick',
      exit_fill: 'tick',
      exit_reason: 'sold',
      exit_decided_at: at(3),
      exited_at: at(4),
      entry_fees: 0,
      exit_fees: 0,
      pnl: 10 * (0.55 - 0.25),
    },
  ]);
});

test('decides an exit at the tick of the entry fill, and an entry at that of the exit fill', () => {
  const trades = play(priced([0.1, 0.1, 0.2, 0.2, 0.3]), { exit: { all: [] } });
  expect(
    trades.map(({ decided_at, filled_at, exit_decided_at, exited_at }) => [
      decided_at,
      filled_at,
      exit_decided_at,
      exited_at,
    ]),
  ).toEqual([
    [at(0), at(1), at(1), at(2)],
    [at(2), at(3), at(3), at(4)],
  ]);
});

test('buys no at one minus the price, and gains when the price falls', () => {
  const [trade] = play(priced([0.8, 0.75, 0.5, 0.4]), {
    side: 'no',
    entry: { measure: 'price', above: 0.7 },
    exit: { measure: 'gain', above: 0.2 },
  });
  expect(trade).toMatchObject({ side: 'no', price: 0.75, entry_price: 0.25, exit_price: 0.6, exited_at: at(3) });
  expect(trade!.pnl).toBeCloseTo(0.35, 15);
});

test('settles positions at the outcome without a fee, and then stops', () => {
  const settlement = { at: at(3), outcome: 1 };
  const series = priced([0.2, 0.2, 0.4, 0.6, 0.1, 0.1], { settlement });
  const fees = { per_contract: 0.01 };
  expect(play(series, { entry: cheap, exit: dear, size: { contracts: 2 } }, { fees })).toEqual([
    expect.objectContaining({
      entry_price: 0.2,
      exit_price: 1,
      entry_fill: 'tick',
      exit_fill: null,
      exit_reason: 'settled',
      exit_decided_at: null,
      exited_at: at(3),
      entry_fees: 0.02,
      exit_fees: 0,
      pnl: 2 * (1 - 0.2) - 0.02,
    }),
  ]);
  expect(play(series, { side: 'no' })[0]).toMatchObject({
    entry_price: 0.8,
    exit_price: 0,
    exit_reason: 'settled',
    pnl: -0.8,
  });
  // A decision at the last tick before settlement is not filled.
  expect(play(priced([0.9, 0.9, 0.2, 0.2], { settlement }), { entry: cheap })).toEqual([]);
  const half = priced([0.2, 0.2, 0.4], { settlement: { at: at(9), outcome: 0.5 } });
  expect(play(half, {})[0]).toMatchObject({ exit_price: 0.5, exit_reason: 'settled', exited_at: at(9) });
});

test('ignores settlements after the end of the run', () => {
  const series = priced([0.2, 0.2, 0.4, 0.6], { settlement: { at: at(3), outcome: 1 } });
  const span = { from: at(0), to: at(3) };
  expect(simulate(series, ruled({}), span)[0]).toMatchObject({
    exit_reason: 'open',
    exit_price: 0.4,
    exited_at: at(2),
  });
  expect(simulate(series, ruled({}), { ...span, to: at(3) + 1 })[0]).toMatchObject({
    exit_reason: 'settled',
    exit_price: 1,
  });
});

test('values open positions at the last price, clamped to [0, 1]', () => {
  expect(play(priced([0.2, 0.3, 0.7]), {})[0]).toMatchObject({
    exit_reason: 'open',
    exit_price: 0.7,
    exited_at: at(2),
    pnl: 0.7 - 0.3,
  });
  expect(play(priced([0.2, 0.3, 1.7]), {})[0]).toMatchObject({ exit_price: 1 });
  expect(play(priced([0.2, 0.3, 1.7]), { side: 'no' })[0]).toMatchObject({ exit_price: 0 });
});

test('does not fill orders at invalid prices', () => {
  const series = priced([0.2, -0.01, 1.01, Number.NaN, 0.3, 0.4]);
  expect(play(series, {})[0]).toMatchObject({ decided_at: at(0), filled_at: at(4), entry_price: 0.3 });
});

test('decides and fills only within the window, with lookback before it', () => {
  const series = priced([0.2, 0.4, 0.6, 0.8, 0.9]);
  const strategy = ruled({ entry: { measure: 'return', window_ms: minute, above: 0.1 } });
  const [trade] = simulate(series, strategy, { from: at(2), to: at(4) });
  expect(trade).toMatchObject({ decided_at: at(2), filled_at: at(3), exit_reason: 'open', exited_at: at(3) });
  expect(simulate(series, strategy, { from: at(3), to: at(4) })).toEqual([]);
  expect(simulate(series, strategy, { from: at(50), to: at(60) })).toEqual([]);
});

test('respects entries_max', () => {
  const series = priced(Array.from({ length: 20 }, () => 0.2));
  const rule = { exit: { all: [] } };
  expect(play(series, rule)).toHaveLength(10);
  expect(play(series, { ...rule, entries_max: 3 })).toHaveLength(3);
  expect(play(series, { ...rule, entries_max: { parameter: 'n' } }, { parameters: { n: 2 } })).toHaveLength(2);
});

test('every rule has its own position', () => {
  const rule = { side: 'yes', entry: { all: [] }, size: { contracts: 1 } };
  const strategy = strategyOf({
    rules: [
      { ...rule, exit: dear },
      { ...rule, side: 'no' },
    ],
  });
  const trades = simulate(priced([0.4, 0.4, 0.6, 0.6]), strategy, everything);
  expect(trades.map(({ rule, side, exit_reason }) => [rule, side, exit_reason])).toEqual([
    [0, 'yes', 'sold'],
    [1, 'no', 'open'],
  ]);
});

const bookAt = (minutes: number, bids: OrderBook['bids'], asks: OrderBook['asks']): OrderBook => ({
  t: at(minutes),
  bids,
  asks,
});

test('fills from the latest order book at the tick', () => {
  const books = [bookAt(1, [[0.2, 50]], [[0.45, 50]]), bookAt(1.5, [], [[0.99, 50]])];
  const [trade] = play(priced([0.3, 0.3, 0.3], { books }), {}, { slippage: 0.1 });
  // Fills from a book have no slippage.
  expect(trade).toMatchObject({ filled_at: at(1), price: 0.3, entry_price: 0.45, entry_fill: 'book' });
});

test('ignores a book that is too old', () => {
  const late = bookAgeMsMax / minute;
  const books = [bookAt(0, [], [[0.9, 5]])];
  const prices = Array.from({ length: late + 2 }, () => 0.3);
  const from = (minutes: number) => ({ from: at(minutes), to: at(100) });
  const paid = (minutes: number) => simulate(priced(prices, { books }), ruled({}), from(minutes))[0]!.entry_price;
  expect(paid(late - 1)).toBe(0.9);
  expect(paid(late)).toBe(0.3);
});

test('fills in part from a thin book, and sells the rest to later books', () => {
  const books = [
    bookAt(1, [], [[0.4, 6]]),
    bookAt(2, [[0.5, 4]], []),
    // No new book here, and no book is used twice.
    bookAt(4, [[0.6, 1]], []),
    bookAt(5, [[0.7, 100]], []),
  ];
  const series = priced([0.4, 0.4, 0.4, 0.4, 0.4, 0.4, 0.4], { books });
  const trades = play(
    series,
    { exit: { all: [] }, size: { contracts: 10 }, entries_max: 1 },
    { fees: { per_contract: 0.01 } },
  );
  expect(
    trades.map(({ contracts, entry_price, exit_price, exited_at, exit_decided_at }) => [
      contracts,
      entry_price,
      exit_price,
      exited_at,
      exit_decided_at,
    ]),
  ).toEqual([
    [4, 0.4, 0.5, at(2), at(1)],
    [1, 0.4, 0.6, at(4), at(1)],
    [1, 0.4, 0.7, at(5), at(1)],
  ]);
  expect(trades.map(({ entry_fees }) => entry_fees)).toEqual([0.04, 0.01, 0.01]);
});

test('a part of a position pays the fee of its own order, and its share of that of the entry', () => {
  const books = [bookAt(1, [], [[0.5, 10]]), bookAt(2, [[0.5, 4]], []), bookAt(3, [[0.4, 100]], [])];
  const series = priced([0.4, 0.4, 0.4, 0.4, 0.4], { books });
  const trades = play(
    series,
    { exit: { all: [] }, size: { contracts: 10 }, entries_max: 1 },
    { fees: { schedule: 'kalshi' } },
  );
  // 0.07 × 10 × 0.25 = 0.175, 0.07 × 4 × 0.25 = 0.07 and 0.07 × 6 × 0.24 = 0.1008, rounded up to cents.
  expect(trades.map(({ contracts, exit_fees }) => [contracts, exit_fees])).toEqual([
    [4, 0.07],
    [6, 0.11],
  ]);
  expect(trades.map(({ entry_fees }) => entry_fees)).toEqual([expect.closeTo(0.072, 12), expect.closeTo(0.108, 12)]);
  expect(trades[1]!.pnl).toBeCloseTo(6 * (0.4 - 0.5) - 0.108 - 0.11, 12);
});

test('trades whole contracts with the fees of Kalshi, or on request', () => {
  const series = priced([0.3, 0.3, 0.3]);
  const contractsOf = (size: object, rest: object): number[] =>
    play(series, { size }, rest).map(({ contracts }) => contracts);
  const kalshi = { schedule: 'kalshi' };
  expect(contractsOf({ contracts: 2.7 }, { fees: kalshi })).toEqual([2]);
  expect(contractsOf({ dollars: 1 }, { fees: kalshi })).toEqual([3]);
  expect(contractsOf({ contracts: 2.7 }, { fees: kalshi, whole_contracts: false })).toEqual([2.7]);
  expect(contractsOf({ contracts: 2.7 }, {})).toEqual([2.7]);
  expect(contractsOf({ contracts: 2.7 }, { whole_contracts: true })).toEqual([2]);
  expect(contractsOf({ contracts: 2.7 }, { fees: { schedule: 'polymarket', rate: 0.05 } })).toEqual([2.7]);
  // Less than one contract.
  expect(contractsOf({ contracts: 0.7 }, { fees: kalshi })).toEqual([]);
  expect(contractsOf({ dollars: 0.2 }, { fees: kalshi })).toEqual([]);
});

test('drops a decision whose order is smaller than one contract, and decides again', () => {
  // Decided at 0.55 and at 0.52, whose orders are not placed at 0.52 and 0.6; decided at 0.45 and filled at 0.3.
  const series = priced([0.55, 0.52, 0.6, 0.45, 0.3, 0.2]);
  const rule = { entry: { measure: 'price', below: 0.56 }, size: { dollars: 0.5 } };
  expect(play(series, rule, { whole_contracts: true })).toEqual([
    expect.objectContaining({ decided_at: at(3), filled_at: at(4), contracts: 1, entry_price: 0.3 }),
  ]);
  expect(play(series, rule)[0]).toMatchObject({ decided_at: at(0), filled_at: at(1) });
});

test('waits for a book with at least one whole contract', () => {
  const books = [bookAt(1, [], [[0.4, 0.5]]), bookAt(2, [], [[0.4, 1.5]])];
  const series = priced([0.4, 0.4, 0.4, 0.4], { books });
  expect(play(series, { size: { contracts: 3 } }, { whole_contracts: true })[0]).toMatchObject({
    decided_at: at(0),
    filled_at: at(2),
    contracts: 1,
  });
});

test('an empty book fills nothing until it is too old or replaced', () => {
  const books = [bookAt(1, [], []), bookAt(3, [], [[0.5, 1]])];
  expect(play(priced([0.3, 0.3, 0.3, 0.3, 0.3], { books }), {})[0]).toMatchObject({
    filled_at: at(3),
    entry_price: 0.5,
  });
  const prices = Array.from({ length: 9 }, () => 0.3);
  expect(play(priced(prices, { books: books.slice(0, 1) }), {})[0]).toMatchObject({
    filled_at: at(7),
    entry_price: 0.3,
  });
});

/** A quote; a null side is missing, and a null size unknown. */
const quoteAt = (
  minutes: number,
  bid: number | null,
  ask: number | null,
  bidSize: number | null = null,
  askSize: number | null = null,
): OrderBook => {
  const side = (price: number | null, size: number | null) =>
    price === null ? [] : [[price, size ?? Number.POSITIVE_INFINITY] as const];
  return { t: at(minutes), bids: side(bid, bidSize), asks: side(ask, askSize) };
};
const flat = (ticks: number): number[] => Array.from({ length: ticks }, () => 0.4);

test('buys at the ask and sells at the bid of the quote in force, without slippage', () => {
  const quotes = [quoteAt(0.5, 0.1, 0.2), quoteAt(1, 0.37, 0.43), quoteAt(2, 0.38, 0.44), quoteAt(2.5, 0.01, 0.02)];
  const series = priced([0.4, 0.4, 0.41, 0.42], { quotes });
  const [yes] = play(series, { exit: { all: [] }, size: { contracts: 10 } }, { slippage: 0.1 });
  expect(yes).toMatchObject({
    contracts: 10,
    filled_at: at(1),
    price: 0.4,
    entry_price: 0.43,
    entry_fill: 'quote',
    exited_at: at(2),
    exit_price: 0.38,
    exit_fill: 'quote',
  });
  const [no] = play(series, { side: 'no', exit: { all: [] } });
  expect(no).toMatchObject({ entry_fill: 'quote', exit_fill: 'quote', price: 0.4 });
  expect([no!.entry_price, no!.exit_price]).toEqual([1 - 0.37, 1 - 0.44]);
});

test('a purchase takes at most the size of the ask, and a sale waits for the sizes of later bids', () => {
  const quotes = [
    quoteAt(1, 0.3, 0.5, 100, 6),
    quoteAt(2, 0.35, 0.5, 4, 6),
    quoteAt(4, 0.36, 0.5, 0, 6),
    quoteAt(5, 0.37, 0.5, 100, 6),
  ];
  const rule = { exit: { all: [] }, size: { contracts: 10 }, entries_max: 1 };
  const rows = play(priced(flat(7), { quotes }), rule).map(({ contracts, entry_price, exit_price, exited_at }) => [
    contracts,
    entry_price,
    exit_price,
    exited_at,
  ]);
  expect(rows).toEqual([
    [4, 0.5, 0.35, at(2)],
    [2, 0.5, 0.37, at(5)],
  ]);
  // Not even one whole contract: waits for the next quote.
  const thin = [quoteAt(1, 0.3, 0.5, null, 0.5), quoteAt(3, 0.3, 0.45, null, 2.5)];
  expect(play(priced(flat(5), { quotes: thin }), rule, { whole_contracts: true })[0]).toMatchObject({
    filled_at: at(3),
    contracts: 2,
    entry_price: 0.45,
  });
});

test('a side of known size is used once per quote and rule, one of unknown size any number of times', () => {
  const often = (quotes: OrderBook[]) =>
    play(priced(flat(9), { quotes }), { exit: { all: [] } }).map(({ filled_at, exited_at, exit_reason }) =>
      exit_reason === 'sold' ? [filled_at, exited_at] : [filled_at],
    );
  expect(often([quoteAt(0, 0.3, 0.5)])).toEqual([
    [at(1), at(2)],
    [at(3), at(4)],
    [at(5), at(6)],
    [at(7), at(8)],
  ]);
  // The bid is not used by the purchase. The next purchase needs a new quote.
  const known = quoteAt(0, 0.3, 0.5, 9, 9);
  expect(often([known])).toEqual([[at(1), at(2)]]);
  expect(often([known, quoteAt(6, 0.3, 0.5, 9, 9)])).toEqual([
    [at(1), at(2)],
    [at(6), at(7)],
  ]);
  expect(often([quoteAt(0, 0.3, 0.5, 9, null)])).toEqual([[at(1), at(2)], [at(3)]]);
  // Every rule may use it.
  const rule = { side: 'yes', entry: { all: [] }, size: { contracts: 1 } };
  const both = simulate(priced(flat(3), { quotes: [known] }), strategyOf({ rules: [rule, rule] }), everything);
  expect(both.map(({ entry_fill }) => entry_fill)).toEqual(['quote', 'quote']);
});

test('an unknown size fills an order in dollars, bounded as at a tick', () => {
  const quotes = [quoteAt(1, null, 0.25)];
  expect(play(priced(flat(3), { quotes }), { size: { dollars: 10 } })[0]).toMatchObject({ contracts: 40 });
  const tiny = [quoteAt(1, null, 1e-9)];
  expect(play(priced(flat(3), { quotes: tiny }), { size: { dollars: 100 } })[0]).toMatchObject({ contracts: 1e9 });
});

test('waits while the quote lacks the side that the order needs', () => {
  const quotes = [quoteAt(1, 0.3, null), quoteAt(3, null, 0.5), quoteAt(5, 0.3, null)];
  const rule = { exit: { all: [] }, entries_max: 1 };
  expect(play(priced(flat(7), { quotes }), rule)[0]).toMatchObject({
    filled_at: at(3),
    entry_price: 0.5,
    exit_decided_at: at(3),
    exited_at: at(5),
    exit_price: 0.3,
  });
  // A price outside [0, 1] is no offer.
  expect(play(priced(flat(4), { quotes: [quoteAt(1, -0.2, 1.2), quoteAt(2, 0.3, 0.5)] }), {})[0]).toMatchObject({
    filled_at: at(2),
  });
});

test('a quote is in force for 24 hours', () => {
  const last = quoteAgeMsMax / minute;
  expect(last).toBe(24 * 60);
  const paid = (minutes: number) => {
    const t = Float64Array.of(at(minutes - 1), at(minutes));
    return play({ ...priced([0.4, 0.4], { quotes: [quoteAt(0, 0.3, 0.5)] }), t }, {})[0]!.entry_price;
  };
  expect([paid(1), paid(last), paid(last + 1)]).toEqual([0.5, 0.5, 0.4]);
});

test('the later of quote and order book is used, and at equal times the order book', () => {
  const paid = (books: OrderBook[], quotes: OrderBook[]) => {
    const [trade] = play(priced(flat(12), { books, quotes }), { entry: { all: [] } });
    return [trade!.entry_price, trade!.entry_fill];
  };
  const [book, quote] = [bookAt(0.5, [], [[0.6, 9]]), quoteAt(0.5, 0.3, 0.5)];
  expect(paid([book], [])).toEqual([0.6, 'book']);
  expect(paid([], [quote])).toEqual([0.5, 'quote']);
  expect(paid([book], [quote])).toEqual([0.6, 'book']);
  expect(paid([book], [quoteAt(0.6, 0.3, 0.5)])).toEqual([0.5, 'quote']);
  expect(paid([{ ...book, t: at(0.6) }], [quote])).toEqual([0.6, 'book']);
});

test('an order book ends the quote before it, also when it is too old for a fill', () => {
  const series = priced(flat(12), { books: [bookAt(1, [], [[0.6, 9]])], quotes: [quoteAt(0.5, 0.3, 0.5)] });
  const from = { from: at(9), to: at(100) };
  expect(simulate(series, ruled({}), from)[0]).toMatchObject({ entry_price: 0.4, entry_fill: 'tick' });
  const later = { ...series, quotes: [...[series.quotes.at(0)!], quoteAt(8, 0.3, 0.5)] };
  expect(simulate(later, ruled({}), from)[0]).toMatchObject({ entry_price: 0.5, entry_fill: 'quote' });
});

test('uses the market state known at the decision', () => {
  const known = { category: 'sports', confidence: null, closesAt: at(9) };
  const states = [
    { ...known, from: at(1) + 1 },
    { ...known, category: 'law', from: at(4) },
  ];
  const series = priced([0.3, 0.3, 0.3, 0.3, 0.3, 0.3], { states });
  const entry = { measure: 'category', in: ['sports'] };
  expect(play(series, { entry, entries_max: 1 })[0]).toMatchObject({ decided_at: at(2), filled_at: at(3) });
  expect(play(series, { entry: { measure: 'time_to_close_ms', at_most: 6 * minute } })[0]).toMatchObject({
    decided_at: at(3),
  });
});
