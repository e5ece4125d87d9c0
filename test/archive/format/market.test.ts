import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { type MarketFacts, type MarketRow, mergeMarkets } from '../../../src/archive/format/market.ts';
import { unknownDetails } from '../../../src/archive/format/market-details.ts';
import { checkProperty } from '../../harness/properties.ts';
import { fullDetails } from './facts.ts';

const facts: MarketFacts = {
  canonicalId: 'm',
  symbol: 'S',
  source: 'kx',
  views: ['matched'],
  category: 'crypto',
  confidence: 0.9,
  isActive: true,
  question: 'Will it?',
  opensAt: null,
  closesAt: null,
  resolvedAt: null,
  outcome: null,
  extra: null,
  ...unknownDetails,
};
const poll = (observedAt: number, ...markets: Partial<MarketFacts>[]) => ({
  observedAt,
  markets: markets.map((m) => ({ ...facts, ...m })),
});
type Poll = ReturnType<typeof poll>;

const spans = (rows: readonly MarketRow[]) => rows.map((row) => [row.firstSeen, row.lastSeen]);

/** Polls at distinct times. They vary in fields that start a new row and in some that do not. */
const anyPolls = fc
  .uniqueArray(
    fc.record({
      at: fc.nat(12),
      isActive: fc.boolean(),
      symbol: fc.constantFrom('S', 'T'),
      confidence: fc.constantFrom(0.1, 0.2),
      event: fc.constantFrom(null, 'E'),
      tickSize: fc.constantFrom(0.01, 0.001),
    }),
    { selector: (p) => p.at, maxLength: 8 },
  )
  .map((list) => list.map(({ at, ...m }) => poll(at, m)));

const stateAt = (rows: readonly MarketRow[], symbol: string, at: number) =>
  rows.filter((row) => row.symbol === symbol && row.firstSeen <= at).toSorted((a, b) => b.firstSeen - a.firstSeen)[0];

describe('the market rows of a day', () => {
  test.each<[string, Partial<MarketFacts>]>([
    ['views', { views: ['matched', 'resolving'] }],
    ['category', { category: 'politics' }],
    ['is_active', { isActive: false }],
    ['symbol', { symbol: 'S2' }],
    ['source', { source: null }],
    ['closes_at', { closesAt: 5 }],
    ['resolved_at', { resolvedAt: 5 }],
    ['outcome', { outcome: 0 }],
  ])('start a new row when %s changes', (_, changed) => {
    expect(spans(mergeMarkets([], [poll(1, facts), poll(2, facts), poll(3, changed)]))).toEqual([
      [1, 2],
      [3, 3],
    ]);
  });

  test.each<[string, Partial<MarketFacts>]>([
    ['confidence', { confidence: 0.1 }],
    ['question', { question: 'Did it?' }],
    ['opens_at', { opensAt: 7 }],
    ['extra', { extra: '{}' }],
    ['outcome_source', { outcomeSource: 'derived' }],
    ['event', { event: 'E' }],
    ['exclusive', { exclusive: true }],
    ['strike_low', { strikeLow: 1 }],
    ['strike_high', { strikeHigh: 2 }],
    ['expected_end', { expectedEnd: 8 }],
    ['rules', { rules: 'If.', rulesSha256: 'h' }],
    ['fee_schedule', { feeSchedule: 'flat' }],
    ['tick_size', { tickSize: 0.01 }],
    ['every detail', fullDetails],
  ])('continue when only %s changes, with its last value', (_, changed) => {
    const rows = mergeMarkets([], [poll(1, facts), poll(2, facts), poll(3, changed)]);
    expect(rows).toEqual([{ ...facts, ...changed, firstSeen: 1, lastSeen: 3 }]);
  });

  test('return to an earlier state in a third row', () => {
    const rows = mergeMarkets([], [poll(1, facts), poll(2, { isActive: false }), poll(3, facts), poll(4, facts)]);
    expect(spans(rows)).toEqual([
      [1, 1],
      [2, 2],
      [3, 4],
    ]);
  });

  test('count a market that a poll lists twice once, with the later record', () => {
    const rows = mergeMarkets([], [poll(1, { confidence: 0.1 }, { confidence: 0.2 }, { symbol: 'T' })]);
    expect(rows.map((row) => [row.symbol, row.confidence])).toEqual([
      ['S', 0.2],
      ['T', 0.9],
    ]);
  });

  test('are the same whether polls are published one by one or together', () => {
    checkProperty([anyPolls], 300, (polls) => {
      const sorted = polls.toSorted((a, b) => a.observedAt - b.observedAt);
      const oneByOne = sorted.reduce<MarketRow[]>((rows, p) => mergeMarkets(rows, [p]), []);
      expect(oneByOne).toEqual(mergeMarkets([], sorted));
      // The model: a row for each run of polls with one state.
      for (const symbol of ['S', 'T']) {
        const marketPolls = sorted.filter((p) => p.markets[0]!.symbol === symbol);
        const runs = marketPolls.filter(
          (p, i) => i === 0 || p.markets[0]!.isActive !== marketPolls[i - 1]!.markets[0]!.isActive,
        );
        const rows = oneByOne.filter((row) => row.symbol === symbol);
        expect(rows.map((row) => row.firstSeen)).toEqual(runs.map((p) => p.observedAt));
      }
    });
  });

  test('never overlap and show the state of each poll, even if polls arrive out of order', () => {
    checkProperty([anyPolls], 500, (polls: Poll[]) => {
      let rows: MarketRow[] = [];
      for (const p of polls) {
        rows = mergeMarkets(rows, [p]);
        const { symbol, isActive } = p.markets[0]!;
        expect(stateAt(rows, symbol!, p.observedAt)?.isActive).toBe(isActive);
      }
      for (const symbol of ['S', 'T']) {
        const marketPolls = rows.filter((row) => row.symbol === symbol);
        marketPolls.slice(1).forEach((row, i) => {
          expect(row.firstSeen).toBeGreaterThan(marketPolls[i]!.lastSeen);
          expect(row.isActive).not.toBe(marketPolls[i]!.isActive);
        });
        const newest = polls
          .filter((p) => p.markets[0]!.symbol === symbol)
          .sort((a, b) => b.observedAt - a.observedAt)[0];
        expect(marketPolls.at(-1)?.isActive).toBe(newest?.markets[0]?.isActive);
        // The other columns of the last row are those of the last poll, in any order of arrival.
        const { event, tickSize } = newest?.markets[0] ?? {};
        expect(marketPolls.at(-1)).toEqual(
          newest === undefined ? undefined : expect.objectContaining({ event, tickSize }),
        );
        expect(marketPolls.at(-1)?.lastSeen).toBe(newest?.observedAt);
      }
    });
  });

  test('are split where a late poll shows another state inside them', () => {
    const rows = mergeMarkets([], [poll(1, facts), poll(5, facts)]);
    expect(spans(mergeMarkets(rows, [poll(3, { isActive: false })]))).toEqual([
      [1, 1],
      [3, 3],
      [5, 5],
    ]);
    expect(spans(mergeMarkets(rows, [poll(1, { isActive: false })]))).toEqual([
      [1, 1],
      [5, 5],
    ]);
    expect(spans(mergeMarkets(rows, [poll(5, { isActive: false })]))).toEqual([
      [1, 1],
      [5, 5],
    ]);
    expect(spans(mergeMarkets(rows, [poll(0, facts)]))).toEqual([[0, 5]]);
  });

  test('do not change if a poll inside them shows the same state', () => {
    const rows = mergeMarkets([], [poll(1, facts), poll(5, facts)]);
    for (const time of [1, 3, 5]) expect(mergeMarkets(rows, [poll(time, { confidence: 0.1 })])).toEqual(rows);
  });
});
