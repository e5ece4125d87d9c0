import { expect, test } from 'vitest';
import type { OrderBook, SymbolSeries } from '../../src/backtest/engine/series.ts';
import { bookAgeMsMax, simulate, type Trade } from '../../src/backtest/engine/simulate.ts';
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
