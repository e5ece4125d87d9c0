import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createBookLookup } from '../../src/backtest/engine/book-lookup.ts';
import { checkProperty } from '../harness/properties.ts';
import { symbol } from './arbitrary-series.ts';
import { findOffer, listBooks } from './plain-engine.ts';

const numRuns = Number(process.env.RUNS ?? 300);

test('finds the latest of order books and quotes at or before each tick', () => {
  const found = { book: 0, quote: 0, none: 0, used: 0 };
  checkProperty([symbol, fc.array(fc.boolean(), { minLength: 50, maxLength: 50 })], numRuns, (series, uses) => {
    const [books, quotes] = [listBooks(series.books), listBooks(series.quotes)];
    const lookup = createBookLookup(series);
    /** Each offer side that an order used up. */
    const usedUp = new Set<string>();
    for (const [tick, now] of series.t.entries()) {
      const upTo = ({ t }: { t: number }): boolean => t <= now;
      const wanted = findOffer({ now, books: books.filter(upTo), quotes: quotes.filter(upTo) });
      for (const takes of ['asks', 'bids'] as const) {
        const actual = lookup.find(tick, takes);
        const key = (side: string) => JSON.stringify([wanted?.basis, wanted?.t, side]);
        if (wanted === null) expect(actual).toBe(null);
        else if (usedUp.has(key(takes))) expect(actual).toBe('used');
        else expect(actual).toEqual({ book: { ...wanted, basis: undefined }, basis: wanted.basis });
        found[actual === null ? 'none' : actual === 'used' ? 'used' : actual.basis]++;
        if (wanted === null || actual === 'used' || wanted[takes].length === 0 || !uses[tick]!) continue;
        lookup.use(takes);
        if (wanted.basis === 'book') for (const side of ['asks', 'bids']) usedUp.add(key(side));
        else if (wanted[takes][0]![1] < Number.POSITIVE_INFINITY) usedUp.add(key(takes));
      }
    }
  });
  // The test would be void if a kind did not occur.
  for (const [kind, n] of Object.entries(found)) expect(n, kind).toBeGreaterThan(numRuns / 4);
});
