import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import type { Archive } from '../../src/archive/archive.ts';
import { type PriceLevel, toBookSide } from '../../src/archive/format/order-book.ts';
import { appendBooks } from '../../src/archive/journal/journal-books.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';
import { printSeed } from '../harness/properties.ts';
import { answer, append, day0, dayMs, hourMs, now, opened, publishNow, scratchFolder } from './scratch.ts';
import { inFolder, type Row, readBoth, readOwn } from './views-folder.ts';

const seed = printSeed('order book views');

/** Prices in thousandths and quantities in quarters, so that the expected values are computed with integers. */
interface Book {
  readonly symbol: string;
  readonly t: number;
  readonly bids: readonly Level[];
  readonly asks: readonly Level[];
}
type Level = readonly [thousandths: number, quarters: number];

const toLevels = (side: readonly Level[]): PriceLevel[] =>
  side.map(([thousandths, quarters]) => ({ price: thousandths / 1000, quantity: quarters / 4 }));

async function publishBooks(books: readonly Book[]): Promise<{ root: string; archive: Archive }> {
  const root = scratchFolder();
  const archive = opened({ root, parts: 2 });
  appendBooks(
    archive.state,
    books.map(({ symbol, t, bids, asks }) => ({
      runId: 'run',
      symbol,
      observedAt: now,
      snapshots: [{ t, bids: toBookSide(toLevels(bids), 'highest'), asks: toBookSide(toLevels(asks), 'lowest') }],
      rejected: [],
      understood: true,
    })),
  );
  append(archive, answer('AAA', [[day0, 0.5]]));
  await publishNow(archive);
  return { root, archive };
}

/** The columns of a view, with times as a reader in JSON and one of our own both have them. */
const select = (view: string): string =>
  `SELECT symbol, epoch_ms(t)::DOUBLE AS t, * EXCLUDE (symbol, t, date), date::VARCHAR AS date FROM ${view} ORDER BY symbol, t`;

const formatDate = (t: number): string => new Date(t).toISOString().slice(0, 10);

function computeDepth(side: readonly Level[], best: number | undefined, thousandths: number) {
  const within = best === undefined ? [] : side.filter(([price]) => Math.abs(price - best) <= thousandths);
  return { levels: within.length, quantity: within.reduce((sum, [, quarters]) => sum + quarters, 0) / 4 };
}

/** The row of one book in both views, computed plainly. */
function computeRows({ symbol, t, bids, asks }: Book, thousandths: number): { depth: Row; top: Row } {
  const [bid, ask] = [
    bids.length === 0 ? undefined : Math.max(...bids.map(([price]) => price)),
    asks.length === 0 ? undefined : Math.min(...asks.map(([price]) => price)),
  ];
  const toPrice = (price: number | undefined): number | null => (price === undefined ? null : price / 1000);
  const computeImbalance = (b: number, a: number): number | null => (b + a === 0 ? null : (b - a) / (b + a));
  const [b, a] = [computeDepth(bids, bid, thousandths), computeDepth(asks, ask, thousandths)];
  const [bestBid, bestAsk] = [computeDepth(bids, bid, 0), computeDepth(asks, ask, 0)];
  const isTwoSided = bid !== undefined && ask !== undefined;
  return {
    depth: {
      symbol,
      t,
      bid: toPrice(bid),
      ask: toPrice(ask),
      bid_depth: b.quantity,
      ask_depth: a.quantity,
      bid_levels: b.levels,
      ask_levels: a.levels,
      imbalance: computeImbalance(b.quantity, a.quantity),
      date: formatDate(t),
    },
    top: {
      symbol,
      t,
      bid: toPrice(bid),
      bid_quantity: bid === undefined ? null : bestBid.quantity,
      ask: toPrice(ask),
      ask_quantity: ask === undefined ? null : bestAsk.quantity,
      mid: isTwoSided ? (bid / 1000 + ask / 1000) / 2 : null,
      spread: isTwoSided ? ask / 1000 - bid / 1000 : null,
      imbalance: computeImbalance(bestBid.quantity, bestAsk.quantity),
      date: formatDate(t),
    },
  };
}

/** Few prices close to each other, so that levels share a price and lie exactly at a distance; crossed books too. */
const sideArbitrary = fc.array(
  fc.tuple(
    fc.oneof(fc.integer({ min: 290, max: 330 }), fc.integer({ min: 0, max: 1000 })),
    fc.integer({ min: 0, max: 40 }),
  ),
  { maxLength: 8 },
);
const booksArbitrary: fc.Arbitrary<Book[]> = fc.uniqueArray(
  fc.record({
    symbol: fc.constantFrom('AAA', 'BBB', "it's", 'Ä', '😀'),
    // Few times in two days, so that symbols share them.
    t: fc
      .tuple(fc.integer({ min: 0, max: 1 }), fc.integer({ min: 0, max: 23 }), fc.integer({ min: 0, max: 2 }))
      .map(([day, hour, millisecond]) => day0 + day * dayMs + hour * hourMs + millisecond),
    bids: sideArbitrary,
    asks: sideArbitrary,
  }),
  { selector: ({ symbol, t }) => `${symbol} ${t}`, minLength: 150, maxLength: 150 },
);

const sortBooks = (books: readonly Book[]): Book[] =>
  [...books].sort((a, b) => compareUtf8(a.symbol, b.symbol) || a.t - b.t);

const empty: Book = { symbol: 'EMPTY', t: day0, bids: [], asks: [] };
const bidsOnly: Book = { symbol: 'BIDS', t: day0, bids: [[300, 8]], asks: [] };

describe('top_of_book and book_depth', () => {
  test('have one row for each snapshot, as computed plainly', async () => {
    const books = sortBooks([...fc.sample(booksArbitrary, { seed, numRuns: 1 })[0]!, empty, bidsOnly]);
    const { root, archive } = await publishBooks(books);
    expect(await readBoth(root, archive, select('top_of_book'))).toEqual(books.map((book) => computeRows(book, 0).top));
    for (const thousandths of [0, 1, 20, 30, 1000]) {
      const rows = await readBoth(root, archive, select(`book_depth(${thousandths / 1000})`));
      expect(rows, `${thousandths}`).toEqual(books.map((book) => computeRows(book, thousandths).depth));
    }
  });

  test('show an empty book as a row, and a crossed or locked book as it is', async () => {
    const { root, archive } = await publishBooks([
      empty,
      bidsOnly,
      { symbol: 'CROSSED', t: day0, bids: [[625, 4]], asks: [[500, 12]] },
      { symbol: 'LOCKED', t: day0, bids: [[500, 4]], asks: [[500, 0]] },
    ]);
    const sql =
      'SELECT symbol, bid, bid_quantity, ask, ask_quantity, mid, spread, imbalance FROM top_of_book ORDER BY 1';
    expect((await readBoth(root, archive, sql)).map((row) => Object.values(row))).toEqual([
      ['BIDS', 0.3, 2, null, null, null, null, 1],
      ['CROSSED', 0.625, 1, 0.5, 3, 0.5625, -0.125, -0.5],
      ['EMPTY', null, null, null, null, null, null, null],
      ['LOCKED', 0.5, 1, 0.5, 0, 0.5, 0, 1],
    ]);
  });

  test('add the levels at one price', async () => {
    const bids = [
      [300, 4],
      [300, 8],
      [290, 4],
    ] as const;
    const { root, archive } = await publishBooks([{ symbol: 'AAA', t: day0, bids, asks: [] }]);
    const depth = 'SELECT bid_quantity, bid_depth, bid_levels FROM top_of_book JOIN book_depth(0) USING (symbol, t)';
    expect(await readBoth(root, archive, depth)).toEqual([{ bid_quantity: 3, bid_depth: 3, bid_levels: 2 }]);
  });

  test('count a level exactly at the distance, although 0.99 - 0.96 is greater than 0.03 in doubles', async () => {
    expect(0.99 - 0.96).toBeGreaterThan(0.03);
    const bids = [
      [990, 4],
      [960, 4],
      [959, 4],
    ] as const;
    const asks = [
      [970, 4],
      [1000, 4],
      [1001, 4],
    ] as const;
    const { root, archive } = await publishBooks([{ symbol: 'AAA', t: day0, bids, asks }]);
    const sql = 'SELECT bid_levels, ask_levels, bid_depth, ask_depth FROM book_depth(0.03)';
    expect(await readBoth(root, archive, sql)).toEqual([{ bid_levels: 2, ask_levels: 2, bid_depth: 2, ask_depth: 2 }]);
  });

  test('reject a negative or unknown distance', async () => {
    const { root } = await publishBooks([bidsOnly]);
    const results = inFolder(root, ['FROM book_depth(-0.01)', 'FROM book_depth(NULL)']);
    for (const result of results)
      expect(result).toEqual([{ error: expect.stringMatching(/a distance is a difference of prices, at least 0/) }]);
  });

  test('are empty, with their columns, in an archive without order books', async () => {
    const { root, archive } = await publishBooks([]);
    for (const view of ['top_of_book', 'book_depth(0.03)']) {
      expect(await readBoth(root, archive, select(view))).toEqual([]);
      const described = inFolder(root, [`SELECT column_name, column_type FROM (DESCRIBE FROM ${view})`])[0]!;
      const { root: other } = await publishBooks([bidsOnly]);
      expect(inFolder(other, [`SELECT column_name, column_type FROM (DESCRIBE FROM ${view})`])[0]).toEqual(described);
    }
  });

  test('open only the files of a day, and read only the rows of a symbol and a time range', async () => {
    const books = ['AAA', 'BBB', 'CCC', 'DDD'].flatMap((symbol) =>
      [day0, day0 + dayMs].map((t): Book => ({ ...bidsOnly, symbol, t })),
    );
    const { root, archive } = await publishBooks(books);
    const where = `symbol = 'AAA' AND date = '${formatDate(day0)}' AND t >= '2026-06-01 00:00:00+00'`;
    for (const view of ['top_of_book', 'book_depth(0.03)']) {
      const sql = `EXPLAIN SELECT * FROM ${view} WHERE ${where}`;
      for (const rows of [inFolder(root, [sql])[0]!, await readOwn(archive, sql)]) {
        const plan = rows[0]!.explain_value as string;
        for (const text of [/READ_PARQUET *│\n/g, /symbol='AAA'/g, /t>='2026-06-01/g, /Scanning Files: 2\/4/g])
          expect(plan.match(text), `${text} in ${plan}`).toHaveLength(2);
      }
    }
  });
});
