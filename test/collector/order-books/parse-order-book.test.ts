import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { OrderBookSnapshot, PriceLevel } from '../../../src/archive/format/order-book.ts';
import { computeComplement, parseOrderBooks } from '../../../src/collector/order-books/parse-order-book.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`book-record: SEED=${seed}`);

const t = Date.UTC(2026, 10, 19, 12);
const answeredAt = t + 5000;
const futureMs = answeredAt + 300_000;
const read = (body: unknown) => parseOrderBooks(body, { symbol: 'S', observedAt: answeredAt, futureMs });

const pairsOf = ({ prices, quantities }: OrderBookSnapshot['bids']): number[][] =>
  [...prices].map((p, i) => [p, quantities[i]!]);
const plain = (snapshot: OrderBookSnapshot) => [snapshot.t, pairsOf(snapshot.bids), pairsOf(snapshot.asks)];
/** The parsed books as `[t, bids, asks]`. Expects no flaws. */
const books = (body: unknown) => {
  const { snapshots, flaws } = read(body);
  expect(flaws).toEqual([]);
  return snapshots.map(plain);
};

const bids = [
  [0.42, 100],
  [0.4, 30.5],
];
const asks = [
  [0.45, 10],
  [0.58, 7],
];
const whole = [[t, bids, asks]];
const noBids = [
  [0.55, 10],
  [0.42, 7],
];

describe('a book is parsed alike', () => {
  test.each<[string, unknown]>([
    ['as lists of price and quantity', { t, bids, asks }],
    ['worst first', { t, bids: [...bids].reverse(), asks: [...asks].reverse() }],
    [
      'as objects',
      { t, bids: bids.map(([price, quantity]) => ({ price, quantity })), asks: asks.map(([p, q]) => ({ p, q })) },
    ],
    [
      'with size, qty and amount',
      { t, bids: bids.map(([px, qty]) => ({ px, qty })), asks: asks.map(([price, size]) => ({ price, size })) },
    ],
    ['with further fields in a level', { t, bids: bids.map(([price, size]) => ({ price, size, orders: 3 })), asks }],
    [
      'with numbers as text',
      {
        t: String(t),
        bids: [
          ['0.420', '100'],
          ['.4', '3.05e1'],
        ],
        asks: [
          ['0.45', '10.0'],
          ['0.5800', '7'],
        ],
      },
    ],
    ['with buys and sells', { t, buys: bids, sells: asks }],
    ['with bid and offer', { t, bid: bids, offer: asks }],
    ['with the best prices in addition to the lists', { t, bid: 0.42, ask: 0.45, bids, asks }],
    [
      'as objects from price to quantity',
      { t, bids: { '0.4': 30.5, '0.42': 100 }, asks: { '0.58': '7', '0.450': '10' } },
    ],
    ['under book', { symbol: 'S', book: { t, bids, asks } }],
    ['under orderbook, with its time outside', { t, orderbook: { bids, asks } }],
    ['under data, in a list', { data: [{ t, bids, asks }] }],
    ['under data and orderbook', { data: { orderbook: { timestamp: t, bids, asks } } }],
    ['under its symbol', { orderbooks: { S: { t, bids, asks } } }],
    ['in a bare list', [{ symbol: 'S', t, bids, asks }]],
    [
      'twice',
      [
        { t, bids, asks },
        { t, asks, bids },
      ],
    ],
    ['as bids of both outcomes', { t, yes: bids, no: noBids }],
    ['as bids of both outcomes under bids', { t, bids: { yes: bids, no: noBids } }],
    ['as bids of both outcomes under bids, without asks', { t, bids: { yes: bids, no: noBids }, asks: [] }],
    [
      'as one list of bids of both outcomes',
      {
        t,
        bids: [
          ...noBids.map(([price, size]) => ({ outcome: 'NO', price, size })),
          ...bids.map(([price, size]) => ({ outcome: 'YES', price, size })),
        ],
        asks: [],
      },
    ],
    [
      'as a list of the books of both outcomes',
      [
        { outcome: 'No', t, bids: noBids, asks: [] },
        { outcome: 'Yes', t, bids, asks: [] },
      ],
    ],
    [
      'next to the book of another symbol',
      {
        data: [
          { symbol: 'X', t, bids: [], asks: [] },
          { symbol: 'S', t, bids, asks },
        ],
      },
    ],
    ['as books of both outcomes', { t, yes: { bids, asks }, no: { bids: noBids, asks: [] } }],
    ['as books of both outcomes without asks', { t, yes: { bids }, no: { bids: noBids } }],
    [
      'in dollars and cents',
      {
        t,
        orderbook: {
          yes: [[42, 100]],
          yes_dollars: [
            ['0.4200', 100],
            ['0.4000', 30.5],
          ],
          no: [[55, 10]],
          no_dollars: noBids,
        },
      },
    ],
    ['with levels whose quantity is 0', { t, bids: [...bids, [0.44, 0]], asks: [...asks, { price: 0.43, size: '0' }] }],
    ['with an ISO time', { timestamp: '2026-11-19T13:00:00+01:00', bids, asks }],
    ['with its outcome', { t, outcome: 'Yes', bids, asks }],
    ['next to a field that is not a wrapper', { data: 'orderbook', book: { t, bids, asks } }],
    ['with a count under bids', { t, bids: 2, buys: bids, asks }],
    ['as a complete book of YES with an incomplete one of NO', { t, yes: { bids, asks }, no: { bids: [], asks: [] } }],
    ['in the maximum number of nested lists', [[[[[{ t, bids, asks }]]]]]],
  ])('%s', (_, body) => {
    expect(books(body)).toEqual(whole);
  });
});

describe('the time of a book', () => {
  test.each<[string, unknown, number]>([
    ['is its own one, not that of its wrapper', { t: t - 9, book: { t, bids, asks } }, t],
    ['is that of the response if none is stated', { bids, asks }, answeredAt],
    ['is not null', { t: null, bids, asks }, answeredAt],
  ])('%s', (_, body, expected) => {
    expect(books(body)).toEqual([[expected, bids, asks]]);
  });
});

describe('empty books', () => {
  test.each<[string, unknown]>([
    ['two empty lists', { t, bids: [], asks: [] }],
    ['two empty objects', { t, bids: {}, asks: {} }],
    ['nulls', { t, orderbook: { yes: null, no: null } }],
    ['only levels without quantity', { t, bids: [[0.4, 0]], asks: [] }],
    ['one empty list and no other field', { t, bids: [] }],
  ])('are kept as empty: %s', (_, body) => {
    expect(books(body)).toEqual([[t, [], []]]);
  });

  test.each<[string, unknown]>([
    ['an empty list', []],
    ['an empty list under data', { data: [] }],
    ['null under orderbook', { symbol: 'S', orderbook: null }],
  ])('are not created without a snapshot: %s', (_, body) => {
    expect(books(body)).toEqual([]);
  });

  test('a side may be absent if no other field could be it', () => {
    expect(books({ t, bids })).toEqual([[t, bids, []]]);
    expect(books({ t, no: noBids })).toEqual([[t, [], asks]]);
    expect(books({ t, asks })).toEqual([[t, [], asks]]);
    expect(books({ t, bids, note: null })).toEqual([[t, bids, []]]);
  });
});

describe('several snapshots', () => {
  test('are sorted by time', () => {
    expect(
      books({
        snapshots: [
          { t: t + 1, bids, asks: [] },
          { t, bids: [], asks },
        ],
      }),
    ).toEqual([
      [t, [], asks],
      [t + 1, bids, []],
    ]);
  });

  test('are kept if another one is invalid', () => {
    const { snapshots, flaws } = read([
      { t, bids, asks },
      { t: t + 1, bids: [[45, 1]], asks: [] },
    ]);
    expect(snapshots.map(plain)).toEqual(whole);
    expect(flaws).toEqual(['price 45 is outside 0 to 1']);
  });

  test('that differ at the same time are both dropped', () => {
    const { snapshots, flaws } = read([
      { bids, asks },
      { bids: noBids, asks: [] },
      { t, bids, asks },
    ]);
    expect(snapshots.map(plain)).toEqual(whole);
    expect(flaws).toEqual([`two different order books at ${new Date(answeredAt).toISOString()}`]);
  });
});

describe('is rejected as a whole', () => {
  test.each<[string, unknown, RegExp]>([
    ['a price in cents', { t, yes: [[42, 100]], no: [[55, 10]] }, /^price 42 is outside 0 to 1$/],
    ['a negative price', { t, bids: [[-0.1, 1]], asks }, /^price -0.1 is outside/],
    ['one cent, which looks like 1', { t, yes: [[1, 500]], no: [] }, /one cent/],
    ['quantity before price', { t, bids: [[1, 0.42]], asks: [] }, /one cent/],
    ['a price that is not a number', { t, bids: [['0,42', 1]], asks }, /^price "0,42" is not a number$/],
    ['an empty text', { t, bids: [[' ', 1]], asks }, /^price " " is not a number$/],
    ['a price beyond doubles', { t, bids: [[0.1, '1e999']], asks }, /^quantity "1e999" is not a number$/],
    ['a negative quantity', { t, bids: [[0.4, -1]], asks }, /^quantity -1 is negative$/],
    ['a level without quantity', { t, bids: [{ price: 0.4 }], asks }, /^a level has no quantity$/],
    [
      'a level with two quantities',
      { t, bids: [{ price: 0.4, size: 1, amount: 0.4 }], asks },
      /^a level has both size and amount$/,
    ],
    ['a level of three values', { t, bids: [[0.4, 2, 3]], asks }, /^a level has 3 values/],
    ['a level that is a number', { t, bids: [0.4], asks }, /^a level is neither/],
    ['a side under an unknown name', { t, bids, supply: asks }, /^only one side, bids; unknown field "supply"$/],
    ['a side next to one under an unknown name', { t, asks, demand: bids }, /^only one side, asks; unknown field/],
    [
      'bids of YES next to an unknown field',
      { t, yes: bids, maybe: asks },
      /^only one side, yes; unknown field "maybe"$/,
    ],
    ['a book of NO with asks only', { t, yes: { bids }, no: { asks } }, /^the book for the outcome NO has no bids$/],
    ['only prices 0 and 1', { t, bids: [[0, 5]], asks: [[1, 2]] }, /one cent/],
    ['too many nested lists', [[[[[[{ t, bids, asks }]]]]]], /^not an object$/],
    [
      'bids of NO next to asks',
      { t, bids: [{ side: 'no', price: 0.4, size: 1 }], asks },
      /^both asks and levels for the outcome NO$/,
    ],
    ['asks of NO', { t, bids, asks: { yes: asks, no: bids } }, /^both asks and levels for the outcome NO$/],
    [
      'books of both outcomes with different times',
      [
        { outcome: 'No', t, bids },
        { outcome: 'Yes', t: t + 1, bids },
      ],
      /different times$/,
    ],
    [
      'several books of NO',
      [
        { outcome: 'No', bids },
        { outcome: 'No', t, bids },
        { outcome: 'Yes', t, bids },
      ],
      /^expected one book for YES and one for NO$/,
    ],
    ['the outcome NO', { t, outcome: 'No', bids, asks }, /outcome NO/],
    ['a book of another symbol', { data: [{ symbol: 'X', t, bids, asks }] }, /^the book names another symbol: "X"$/],
    ['a time in seconds', { t: t / 1000, bids, asks }, /^t is outside the years 2000 to 2100$/],
    ['a time with a fraction', { t: t + 0.5, bids, asks }, /^t is not a whole number of milliseconds$/],
    ['a time without a zone', { t: '2026-11-19T12:00:00', bids, asks }, /^t is not a whole number/],
    ['a time in the future', { t: futureMs + 1, bids, asks }, /^t is in the future$/],
    ['an object without sides', { t, price: 0.4 }, /^no bids or asks$/],
    ['a list of numbers', [1, 2], /^not an object$/],
    [
      'too many nested wrappers',
      { data: { data: { data: { data: { data: { data: { bids, asks } } } } } } },
      /^no bids or asks/,
    ],
  ])('%s', (_, body, reason) => {
    const { snapshots, flaws } = read(body);
    expect(snapshots).toEqual([]);
    expect(flaws[0]).toMatch(reason);
  });

  test('except for a price of 1 or 0 next to one between them', () => {
    expect(books({ t, bids: [[0.5, 1]], asks: [[1, 2]] })).toEqual([[t, [[0.5, 1]], [[1, 2]]]]);
    expect(books({ t, bids: [[0, 5]], asks: [] })).toEqual([[t, [[0, 5]], []]]);
    expect(
      books({
        t,
        bids: [
          [0, 5],
          [0.5, 1],
        ],
        asks: [[1, 2]],
      }),
    ).toEqual([
      [
        t,
        [
          [0.5, 1],
          [0, 5],
        ],
        [[1, 2]],
      ],
    ]);
  });
});

const anyLevel: fc.Arbitrary<PriceLevel> = fc.record({
  price: fc.integer({ min: 1, max: 9999 }).map((n) => n / 10_000),
  quantity: fc.oneof(fc.integer({ min: 1, max: 1_000_000 }), fc.double({ min: 0.001, max: 1e9, noNaN: true })),
});
const anySide = fc.array(anyLevel, { maxLength: 12 });

/** Notations of a side with the same meaning. */
const notations: ((levels: readonly PriceLevel[]) => unknown)[] = [
  (levels) => levels.map(({ price, quantity }) => [price, quantity]),
  (levels) => levels.map(({ price, quantity }) => [String(price), String(quantity)]),
  (levels) => levels.map(({ price, quantity }) => ({ price, size: quantity })),
  (levels) => levels.map(({ price, quantity }) => ({ quantity: String(quantity), p: price.toFixed(6) })),
];

test('the order of levels and the notation do not change a snapshot', () => {
  const cases = fc.tuple(anySide, anySide, fc.nat(), fc.nat(notations.length - 1), fc.nat(notations.length - 1));
  fc.assert(
    fc.property(cases, ([buys, sells, turn, one, other]) => {
      const mixed = (levels: readonly PriceLevel[]) =>
        [...levels.slice(turn % (levels.length + 1)), ...levels.slice(0, turn % (levels.length + 1))].reverse();
      const first = books({ t, bids: notations[0]!(buys), asks: notations[0]!(sells) });
      const again = books({ t, book: { buys: notations[one]!(mixed(buys)), sells: notations[other]!(mixed(sells)) } });
      expect(again).toEqual(first);
      const [, best] = first[0] as [number, number[][], number[][]];
      for (let i = 1; i < best.length; i++) expect(best[i - 1]![0]).toBeGreaterThanOrEqual(best[i]![0]!);
    }),
    { seed, numRuns: 300 },
  );
});

test('asks stated as bids of NO are exactly the same asks', () => {
  fc.assert(
    fc.property(anySide, anySide, (buys, sells) => {
      const notated = (levels: readonly PriceLevel[]) => levels.map(({ price, quantity }) => [price, quantity]);
      const no = sells.map(({ price, quantity }) => [(10_000 - Math.round(price * 10_000)) / 10_000, quantity]);
      expect(books({ t, yes: notated(buys), no })).toEqual(books({ t, bids: notated(buys), asks: notated(sells) }));
    }),
    { seed, numRuns: 300 },
  );
});

test('the complement of a price is decimal, and its own inverse', () => {
  expect([0.42, 0.001, 0, 1, 0.1 + 0.2].map(computeComplement)).toEqual([0.58, 0.999, 1, 0, 1 - (0.1 + 0.2)]);
  for (let n = 0; n <= 10_000; n++) expect(computeComplement(computeComplement(n / 10_000))).toBe(n / 10_000);
});

test('any JSON is parsed without a crash, and the result is a valid book', () => {
  const names = ['t', 'symbol', 'outcome', 'data', 'book', 'bids', 'asks', 'yes', 'no', 'price', 'size', 'S'];
  const { body } = fc.letrec((tie) => ({
    body: fc.oneof(
      { maxDepth: 6 },
      fc.constantFrom<unknown>(0, 0.5, 1, 42, t, '0.25', 'No', 'Yes', 'S', null, true),
      fc.array(tie('body'), { maxLength: 3 }),
      fc.dictionary(fc.constantFrom(...names), tie('body'), { maxKeys: 4 }),
    ),
  }));
  fc.assert(
    fc.property(body, (any) => {
      for (const { t: at, bids: buys, asks: sells } of read(any).snapshots) {
        expect(at).toBeLessThanOrEqual(futureMs);
        for (const { prices, quantities } of [buys, sells]) {
          expect(prices.every((price) => price >= 0 && price <= 1)).toBe(true);
          expect(quantities.every((quantity) => quantity > 0 && Number.isFinite(quantity))).toBe(true);
        }
      }
    }),
    { seed, numRuns: 5000 },
  );
});

test('200,000 books of other symbols give as many flaws', () => {
  const books = Array.from({ length: 200_000 }, () => ({ symbol: 'OTHER', bids, asks }));
  const { snapshots, flaws } = read({ symbol: 'S', books });
  expect([snapshots, flaws.length, flaws[0]]).toEqual([[], 200_000, 'the book names another symbol: "OTHER"']);
});

test.each(['outcome', 'side'])('a level whose %s is an object is not one of NO', (name) => {
  const object = JSON.parse('{"toString": 1, "valueOf": null}') as object;
  expect(books({ t, bids: [{ [name]: object, price: 0.4, size: 1 }], asks: [] })).toEqual([[t, [[0.4, 1]], []]]);
});
