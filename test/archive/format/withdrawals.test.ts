import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  dropReproven,
  findWithdrawn,
  overlayWithdrawals,
  type PublishedWithdrawal,
} from '../../../src/archive/format/withdrawals.ts';
import { dayMs, isWithin } from '../../../src/base/window.ts';

const seed = Number(process.env.SEED ?? Math.floor(Math.random() * 1e6));
console.log(`withdrawals: SEED=${seed}`);

const withdrawal = fc
  .tuple(fc.constantFrom('A', 'B', null), fc.nat(3), fc.nat(20), fc.integer({ min: 1, max: 10 }), fc.nat(5))
  .map(([symbol, day, from, length, at]): PublishedWithdrawal => {
    const start = day * dayMs + from;
    return { symbol, from: start, to: start + length, at };
  });

/** The last withdrawal of a moment that concerns a symbol; undefined if there is none. */
const findLast = (list: readonly PublishedWithdrawal[], symbol: string | null, t: number): number | undefined =>
  list
    .filter((one) => one.symbol === symbol && isWithin(t, one))
    .reduce<number | undefined>((last, { at }) => Math.max(last ?? at, at), undefined);

test('each moment keeps its last withdrawal, in whatever order they come', () => {
  fc.assert(
    fc.property(fc.array(withdrawal, { maxLength: 12 }), (list) => {
      const overlaid = overlayWithdrawals(list);
      expect(overlayWithdrawals(list.toReversed())).toEqual(overlaid);
      expect(overlayWithdrawals([...overlaid, ...list])).toEqual(overlaid);
      for (const { from } of list)
        for (const t of [from - 1, from, from + 4])
          for (const symbol of ['A', 'B', null]) expect(findLast(overlaid, symbol, t)).toBe(findLast(list, symbol, t));
    }),
    { seed, numRuns: 200 },
  );
});

test('a long list rejects more, never less', () => {
  fc.assert(
    fc.property(fc.array(withdrawal, { maxLength: 12 }), fc.nat(3), (list, countMax) => {
      const bounded = overlayWithdrawals(list, countMax);
      expect(bounded.filter(({ symbol }) => symbol !== null).length).toBeLessThanOrEqual(countMax);
      expect(overlayWithdrawals(list.toReversed(), countMax)).toEqual(bounded);
      for (const { from, symbol } of list) {
        const last = [symbol, null].map((name) => findLast(bounded, name, from) ?? -1);
        expect(Math.max(...last)).toBeGreaterThanOrEqual(findLast(list, symbol, from)!);
      }
    }),
    { seed, numRuns: 200 },
  );
});

const proof = { from: 0, to: 20, fetchedAt: 5, origin: 'poll', evidence: 'stated' } as const;

test('what was fetched later stays, and what this archive knows is not withdrawn again', () => {
  expect(findWithdrawn([proof], [{ from: 5, to: 30, at: 5 }], [])).toEqual([{ from: 5, to: 20 }]);
  expect(findWithdrawn([proof], [{ from: 5, to: 30, at: 4 }], [])).toEqual([]);
  const known = { from: 5, to: 10 };
  expect(findWithdrawn([proof], [{ from: 5, to: 30, at: 6 }], [{ ...known, at: 6 }])).toEqual([{ from: 10, to: 20 }]);
  expect(findWithdrawn([proof], [{ from: 5, to: 30, at: 6 }], [{ ...known, at: 5 }])).toEqual([{ from: 5, to: 20 }]);
});

test('later proof replaces a withdrawal, inference and earlier proof do not', () => {
  expect(dropReproven([{ from: 10, to: 30, at: 5 }], [proof])).toEqual([{ from: 20, to: 30, at: 5 }]);
  expect(dropReproven([{ from: 10, to: 30, at: 6 }], [proof])).toHaveLength(1);
  expect(dropReproven([{ from: 10, to: 20, at: 5 }], [{ ...proof, evidence: 'inferred' }])).toHaveLength(1);
});
