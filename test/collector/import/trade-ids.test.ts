import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { createTradeIds, type TradeIds } from '../../../src/collector/import/trade-ids.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`trade ids: SEED=${seed}`);

interface Row {
  readonly symbol: string;
  readonly t: number;
  readonly price: number;
  readonly size: number;
  readonly block: number;
  readonly aggressor: string | null;
  readonly hash: string | null;
}

const row = (t: number, rest: Partial<Row> = {}): Row => ({
  symbol: 'A',
  t,
  price: 0.42,
  size: 10,
  block: Number.NaN,
  aggressor: null,
  hash: null,
  ...rest,
});

const next = (ids: TradeIds, { symbol, t, price, size, block, aggressor, hash }: Row) =>
  ids.next(symbol, t, Float64Array.of(price, size, block), [null, aggressor, hash, null, null]);

const nameAll = (rows: readonly Row[], limit?: number) => {
  const ids = createTradeIds(limit);
  return rows.map((one) => next(ids, one));
};

describe('the identifier of a trade without one', () => {
  test('has its content and its number among equal rows', () => {
    const rows = [
      row(1000),
      row(1000),
      row(1000, { aggressor: 'buy' }),
      row(1000, { block: 1 }),
      row(1000, { hash: '0xab', aggressor: 'sell', block: 0 }),
      row(1000, { symbol: 'B' }),
      row(1001),
      row(1000),
    ];
    expect(nameAll(rows)).toEqual([
      '=1000,0.42,10,#0',
      '=1000,0.42,10,#1',
      '=1000,0.42,10,buy#0',
      '=1000,0.42,10,,1,#0',
      '=1000,0.42,10,sell,0,0xab#0',
      '=1000,0.42,10,#0',
      '=1001,0.42,10,#0',
      '=1000,0.42,10,#2',
    ]);
  });

  const anyRow = fc.record({
    symbol: fc.constantFrom('A', 'B'),
    t: fc.integer({ min: 1, max: 5 }),
    price: fc.constantFrom(0.1, 0.2),
    size: fc.constantFrom(1, 2),
    block: fc.constantFrom(Number.NaN, 0, 1),
    aggressor: fc.constantFrom(null, 'buy', 'sell'),
    hash: fc.constantFrom(null, '0x1', '1,#0'),
  });
  const anyRows = fc.array(anyRow, { maxLength: 60 });
  const contentOf = (one: Row): string => JSON.stringify(Object.values(one).map(String));

  test('is another one for each row of a file, whatever the order of its rows', () => {
    fc.assert(
      fc.property(anyRows, (rows) => {
        const names = nameAll(rows).map((id, i) => `${rows[i]!.symbol} ${String(id)}`);
        expect(new Set(names).size).toBe(rows.length);
        // The same rows in another order have the same identifiers together.
        const reversed = rows.toReversed();
        expect(new Set(nameAll(reversed).map((id, i) => `${reversed[i]!.symbol} ${String(id)}`))).toEqual(
          new Set(names),
        );
      }),
      { seed, numRuns: 200 },
    );
  });

  test('counts equal rows among many of one time, and in a file that is not sorted', () => {
    const anyTrade = fc.record({
      t: fc.integer({ min: 1, max: 3 }),
      price: fc.constantFrom(0.1, 0.2, 0.3),
      size: fc.integer({ min: 1, max: 9 }),
    });
    const anyTrades = fc.tuple(fc.array(anyTrade, { maxLength: 150 }), fc.constantFrom(1, -1, 0));
    fc.assert(
      fc.property(anyTrades, ([trades, direction]) => {
        const rows = trades.toSorted((a, b) => direction * (a.t - b.t)).map(({ t, ...rest }) => row(t, rest));
        const counts = new Map<string, number>();
        const expected = rows.map(({ t, price, size }) => {
          const content = `=${t},${price},${size},`;
          const count = counts.get(content) ?? 0;
          counts.set(content, count + 1);
          return `${content}#${count}`;
        });
        expect(nameAll(rows)).toEqual(expected);
      }),
      { seed, numRuns: 200 },
    );
  });

  test('makes the union of two files have the larger number of equal rows', () => {
    fc.assert(
      fc.property(anyRows, anyRows, (a, b) => {
        const union = new Set(
          [a, b].flatMap((file) => nameAll(file).map((id, i) => `${file[i]!.symbol} ${String(id)}`)),
        );
        const countIn = (file: readonly Row[], content: string): number =>
          file.filter((one) => contentOf(one) === content).length;
        const contents = new Set([...a, ...b].map(contentOf));
        const larger = [...contents].reduce((sum, one) => sum + Math.max(countIn(a, one), countIn(b, one)), 0);
        expect(union.size).toBe(larger);
      }),
      { seed, numRuns: 200 },
    );
  });

  test('needs no memory of rows with other times while times ascend or descend', () => {
    fc.assert(
      fc.property(anyRows, fc.boolean(), fc.integer({ min: 20, max: 40 }), (rows, descends, limit) => {
        const sorted = rows.toSorted((x, y) => (descends ? y.t - x.t : x.t - y.t));
        const perTime = Math.max(0, ...[...Map.groupBy(sorted, ({ t }) => t).values()].map((of) => of.length));
        const expected = nameAll(sorted);
        const found = nameAll(sorted, limit);
        found.forEach((id, i) => {
          if (typeof id === 'string') expect(id).toBe(expected[i]);
          // Two symbols may each have one time in memory.
          else expect(2 * perTime).toBeGreaterThan(limit);
        });
      }),
      { seed, numRuns: 200 },
    );
    const many = Array.from({ length: 5000 }, (_, i) => row(1000 + Math.floor(i / 2)));
    expect(nameAll(many, 10)).toEqual(nameAll(many));
  });

  test('cannot be made in a large file whose times neither ascend nor descend', () => {
    const rows = [row(1), row(2), row(3), row(4), row(5), row(2), row(6)];
    const found = nameAll(rows, 3);
    expect(found.slice(0, 5)).toEqual(nameAll(rows).slice(0, 5));
    expect(found[5]).toEqual({ reason: expect.stringMatching(/^trade_id is missing.*sorted by time/) });
    // A file that fits in memory may have any order.
    expect(nameAll(rows, 7)).toEqual(nameAll(rows));
    const unsorted = [row(3), row(1), row(2), row(4), row(5)];
    expect(nameAll(unsorted, 4)[4]).toEqual({ reason: expect.stringMatching(/sorted by time/) });
  });
});
