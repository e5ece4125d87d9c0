import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  type BookColumns,
  compareSnapshots,
  countLevels,
  emptyBooks,
  mergeBooks,
  type ObservedSnapshot,
  type OrderBookSnapshot,
  toBookSide,
} from '../../../src/archive/format/order-book.ts';
import { checkProperty } from '../../harness/properties.ts';

type Pairs = readonly (readonly [price: number, quantity: number])[];

const side = (pairs: Pairs, best: 'highest' | 'lowest') =>
  toBookSide(
    pairs.map(([price, quantity]) => ({ price, quantity })),
    best,
  );

const snapshot = (t: number, bids: Pairs, asks: Pairs): OrderBookSnapshot => ({
  t,
  bids: side(bids, 'highest'),
  asks: side(asks, 'lowest'),
});

const seen = (symbol: string, t: number, bids: Pairs, asks: Pairs, observedAt = 100): ObservedSnapshot => ({
  ...snapshot(t, bids, asks),
  symbol,
  observedAt,
});

/** Columns as plain rows: symbol, t, side, level, price, quantity. */
const rowsOf = ({ symbols, offsets, t, side, level, price, quantity }: BookColumns): unknown[][] =>
  symbols.flatMap((symbol, s) =>
    Array.from({ length: offsets[s + 1]! - offsets[s]! }, (_, k) => {
      const i = offsets[s]! + k;
      return [symbol, t[i], side[i] === 0 ? 'ask' : 'bid', level[i], price[i], quantity[i]];
    }),
  );

describe('a side of an order book', () => {
  test('has its best price first, and at one price the greater quantity first', () => {
    const pairs = [
      [0.4, 1],
      [0.5, 2],
      [0.4, 3],
    ] as const;
    const bids = side(pairs, 'highest');
    expect([[...bids.prices], [...bids.quantities]]).toEqual([
      [0.5, 0.4, 0.4],
      [2, 3, 1],
    ]);
    const asks = side(pairs, 'lowest');
    expect([[...asks.prices], [...asks.quantities]]).toEqual([
      [0.4, 0.4, 0.5],
      [3, 1, 2],
    ]);
  });

  test('turns -0 into 0', () => {
    const { prices, quantities } = side([[-0, -0]], 'lowest');
    expect([Object.is(prices[0], 0), Object.is(quantities[0], 0)]).toEqual([true, true]);
  });
});

test.each<[string, Pairs, Pairs]>([
  ['a bid is higher', [[0.5, 1]], []],
  [
    'there is one more bid',
    [
      [0.4, 2],
      [0.1, 1],
    ],
    [],
  ],
  ['the bid quantity is larger', [[0.4, 3]], []],
  ['bids are equal and an ask is higher', [[0.4, 2]], [[0.7, 1]]],
  [
    'bids are equal and there is one more ask',
    [[0.4, 2]],
    [
      [0.6, 2],
      [0.7, 1],
    ],
  ],
  ['only an ask quantity is larger', [[0.4, 2]], [[0.6, 3]]],
])('orders two books by %s', (_, bids, asks) => {
  const base = snapshot(0, [[0.4, 2]], [[0.6, 2]]);
  const greater = snapshot(0, bids, asks);
  expect(compareSnapshots(greater, base)).toBeGreaterThan(0);
  expect(compareSnapshots(base, greater)).toBeLessThan(0);
  expect(compareSnapshots(greater, snapshot(1, bids, asks))).toBe(0);
});

function pairsOf({ prices, quantities }: OrderBookSnapshot['bids']): Pairs {
  return [...prices].map((price, i) => [price, quantities[i]!]);
}

const symbols = ['A', '\u{e000}', '😀'];
const anyPairs = fc.array(fc.tuple(fc.constantFrom(0.4, 0.5, 0.6), fc.constantFrom(1, 2)), { maxLength: 3 });
const anySeen = fc
  .tuple(fc.constantFrom(...symbols), fc.nat(4), anyPairs, anyPairs, fc.nat(2))
  .map((args) => seen(...args));
const anyBatches = fc.array(fc.array(anySeen, { maxLength: 6 }), { maxLength: 4 });

/** The model of a batch: for each key the latest observation, then the greatest book. */
function model(batches: readonly (readonly ObservedSnapshot[])[]): unknown[][] {
  const held = new Map<string, ObservedSnapshot>();
  for (const batch of batches) {
    const inOrder = batch.toSorted((a, b) => a.observedAt - b.observedAt || compareSnapshots(a, b));
    for (const book of inOrder) held.set(`${book.symbol} ${book.t}`, book);
  }
  const kept = [...held.values()];
  kept.sort((a, b) => symbols.indexOf(a.symbol) - symbols.indexOf(b.symbol) || a.t - b.t);
  return kept.flatMap(({ symbol, t, asks, bids }) => {
    if (countLevels({ t, asks, bids }) === 0) return [[symbol, t, 'bid', -1, Number.NaN, 0]];
    return [
      ...pairsOf(asks).map((pair, level) => [symbol, t, 'ask', level, ...pair]),
      ...pairsOf(bids).map((pair, level) => [symbol, t, 'bid', level, ...pair]),
    ];
  });
}

describe('merging order books', () => {
  test('keeps for each moment the last published snapshot, and in one publish the last observed, then the greatest', () => {
    checkProperty([anyBatches], 300, (batches) => {
      let columns = emptyBooks;
      batches.forEach((batch, n) => {
        const before = rowsOf(columns);
        const merged = mergeBooks(columns, batch);
        columns = merged.columns;
        expect(rowsOf(columns)).toEqual(model(batches.slice(0, n + 1)));
        expect(merged.isChanged).toBe(JSON.stringify(rowsOf(columns)) !== JSON.stringify(before));
        const { t, side, level, price, quantity } = columns;
        for (const column of [t, side, level, price, quantity]) expect(column).toHaveLength(columns.offsets.at(-1)!);
      });
    });
  });

  test('does not depend on the order of snapshots in a publish', () => {
    checkProperty([fc.array(anySeen, { maxLength: 8 })], 100, (batch) => {
      expect(rowsOf(mergeBooks(emptyBooks, batch.toReversed()).columns)).toEqual(
        rowsOf(mergeBooks(emptyBooks, batch).columns),
      );
    });
  });

  const old = () => mergeBooks(emptyBooks, [seen('A', 1, [[0.4, 2]], [[0.6, 2]]), seen('A', 3, [], [])]).columns;

  test.each<[string, Pairs, Pairs]>([
    ['price', [[0.5, 2]], [[0.6, 2]]],
    ['quantity', [[0.4, 1]], [[0.6, 2]]],
    ['number of levels', [], [[0.6, 2]]],
    ['level to an empty book', [], []],
  ])('reports a change of %s', (_, bids, asks) => {
    expect(mergeBooks(old(), [seen('A', 1, bids, asks)]).isChanged).toBe(true);
  });

  test('reports a change if ask levels become bid levels', () => {
    const asks = mergeBooks(emptyBooks, [seen('A', 1, [], [[0.5, 2]])]).columns;
    expect(mergeBooks(asks, [seen('A', 1, [[0.5, 2]], [])]).isChanged).toBe(true);
  });

  test('reports no change if the same snapshot comes again, even an empty one', () => {
    const repeated = [seen('A', 1, [[0.4, 2]], [[0.6, 2]], 999), seen('A', 3, [], [], 999)];
    const { columns, isChanged } = mergeBooks(old(), repeated);
    expect(isChanged).toBe(false);
    expect(rowsOf(columns)).toEqual(rowsOf(old()));
  });
});
