import { expect, test } from 'vitest';
import type { CompletenessInput } from '../../../src/archive/completeness/completeness.ts';
import { createUnknownSymbol } from '../../../src/archive/format/market.ts';
import { listProblemSymbols } from '../../../src/report/data/problem-symbols.ts';

const hourMs = 3_600_000;
const nowMs = 100 * hourMs;

const symbolOf = (symbol: string, rest: object = {}) => ({
  ...createUnknownSymbol(symbol, 0),
  listed: true,
  isActive: true,
  question: `${symbol}?`,
  ...rest,
});
const reachOf = (symbol: string, hoursAgo: number) => {
  const cursor = nowMs - hoursAgo * hourMs;
  return { symbol, cursor, watermark: cursor, reached: cursor };
};
const cover = (from: number, to: number) => ({
  from: from * hourMs,
  to: to * hourMs,
  fetchedAt: nowMs,
  origin: 'poll' as const,
  evidence: 'confirmed' as const,
});
const failure = (symbol: string, from: number, to: number, rest: object = {}) => ({
  symbol,
  from: from * hourMs,
  to: to * hourMs,
  kind: 'failed' as const,
  reason: `HTTP 500 from ${from}`,
  since: to * hourMs,
  ...rest,
});

const list = (rest: Partial<CompletenessInput>, live: readonly ReturnType<typeof reachOf>[] = []) =>
  listProblemSymbols(
    {
      symbols: [],
      coverage: new Map(),
      namedSymbols: null,
      nowMs,
      lifetimeRules: { lookbackMs: 0, lingerMs: 0 },
      ...rest,
    },
    { live },
    nowMs,
  );

test('a symbol fails while windows that were requested are not covered', () => {
  const owed = new Map([
    ['A', [failure('A', 90, 95), failure('A', 96, 110)]],
    ['COVERED', [failure('COVERED', 90, 95)]],
    ['EXPIRED', [failure('EXPIRED', 90, 95, { kind: 'expired' })]],
    ['GONE', [failure('GONE', 90, 95)]],
  ]);
  const found = list(
    {
      symbols: [symbolOf('A'), symbolOf('COVERED'), symbolOf('EXPIRED')],
      coverage: new Map([
        ['A', [cover(0, 92)]],
        ['COVERED', [cover(0, 100)]],
      ]),
      owed,
    },
    [reachOf('A', 8), reachOf('COVERED', 0)],
  );
  expect(found.counts).toEqual({ failing: 1, suspended: 0, late: 0 });
  // Hours 92 to 95 and 96 to now; A is not listed as late, too.
  expect(found.listed).toEqual([
    {
      symbol: 'A',
      question: 'A?',
      state: 'failing',
      since: 95 * hourMs,
      coveredTo: 92 * hourMs,
      missingMs: 7 * hourMs,
      reason: 'HTTP 500 from 96',
    },
  ]);
});

test('a suspended symbol is not failing; one that is no longer listed is neither', () => {
  const found = list({
    symbols: [
      symbolOf('S', { suspendedAt: 50 * hourMs }),
      symbolOf('OLD', { suspendedAt: 50 * hourMs, listed: false, isActive: false }),
    ],
    coverage: new Map([['S', [cover(0, 40), cover(10, 20)]]]),
    owed: new Map([['S', [failure('S', 90, 95)]]]),
  });
  expect(found.listed).toMatchObject([{ symbol: 'S', state: 'suspended', since: 50 * hourMs, coveredTo: 40 * hourMs }]);
  expect(found.counts).toEqual({ failing: 0, suspended: 1, late: 0 });
});

test('a symbol is late if others are covered an hour further', () => {
  const live = [reachOf('NEW', 2), reachOf('NEAR', 2.9), reachOf('LATE', 3), reachOf('LATER', 9)];
  const found = list({ symbols: live.map(({ symbol }) => symbolOf(symbol)) }, live);
  expect(found.listed).toMatchObject([
    { symbol: 'LATER', state: 'late', missingMs: 7 * hourMs },
    { symbol: 'LATE', missingMs: hourMs },
  ]);
});

test('lists at most fifteen of each, and counts all', () => {
  const symbols = Array.from({ length: 20_000 }, (_, i) => symbolOf(`S${i}`));
  const owed = new Map(symbols.map(({ symbol }) => [symbol, [failure(symbol, 90, 95)]]));
  const { listed, counts } = list({ symbols, owed });
  expect([listed.length, counts.failing]).toEqual([15, 20_000]);
});
