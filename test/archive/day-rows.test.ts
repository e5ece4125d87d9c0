import fc from 'fast-check';
import { expect, test } from 'vitest';
import { datasets } from '../../src/archive/format/datasets.ts';
import type { MarketRow } from '../../src/archive/format/market.ts';
import { detailColumns } from '../../src/archive/format/market-details.ts';
import {
  parseCoverageRows,
  toConflictRows,
  toCoverageRows,
  toMarketRows,
} from '../../src/archive/publish/day-tables.ts';
import { checkProperty } from '../harness/properties.ts';
import { fullDetails } from './format/facts.ts';
import { market } from './scratch.ts';

/** Sorted by their UTF-8 bytes: the emoji stands after what UTF-16 puts behind it. */
const symbols = ['', 'A', 'B', '￿', '🚀'] as const;
const symbol = fc.constantFrom(...symbols);

test('conflicts are sorted by symbol, time, moment and price, with one row a key, the last reported', () => {
  const conflict = fc.record({
    symbol,
    t: fc.nat(2),
    kept: fc.double({ noNaN: true }),
    dropped: fc.constantFrom(0.1, 0.2),
    seenAt: fc.nat(1),
  });
  checkProperty([fc.array(conflict, { maxLength: 30 })], 100, (conflicts) => {
    const wanted = symbols.flatMap((symbol) =>
      [0, 1, 2].flatMap((t) =>
        [0, 1].flatMap((seenAt) =>
          [0.1, 0.2]
            .flatMap((dropped) => {
              const last = conflicts.findLast(
                (c) => c.symbol === symbol && c.t === t && c.seenAt === seenAt && c.dropped === dropped,
              );
              return last === undefined ? [] : [[symbol, t, last.kept, dropped, seenAt]];
            })
            .map((row, seq) => [...row, seq]),
        ),
      ),
    );
    expect(toConflictRows(conflicts)).toEqual(wanted);
  });
});

test('rows of markets are sorted by market, symbol and first sight, with their fields in the order of the columns', () => {
  const row = (rest: Partial<MarketRow>): MarketRow => ({
    ...market('A'),
    firstSeen: 0,
    lastSeen: 9,
    ...rest,
  });
  const rows = ['A', 'B'].flatMap((canonicalId) =>
    symbols.flatMap((symbol) => [3, 5].map((firstSeen) => row({ canonicalId, symbol, firstSeen }))),
  );
  const sorted = toMarketRows(rows);
  const keys = (of: typeof sorted) => of.map((values) => [values[0], values[1], values[11]]);
  expect(keys(sorted)).toEqual(rows.map(({ canonicalId, symbol, firstSeen }) => [canonicalId, symbol, firstSeen]));
  checkProperty([fc.shuffledSubarray(rows, { minLength: rows.length })], 100, (shuffled) => {
    expect(toMarketRows(shuffled)).toEqual(sorted);
  });
  const full = {
    canonicalId: 'id',
    symbol: 'S',
    source: 'venue',
    views: ['all'],
    category: 'rain',
    confidence: 0.5,
    isActive: false,
    question: 'Rain?',
    closesAt: 1,
    resolvedAt: 2,
    outcome: 1,
    firstSeen: 3,
    lastSeen: 4,
  };
  const [values] = toMarketRows([row({ ...full, opensAt: 77, extra: '{}', ...fullDetails })]);
  expect(Object.fromEntries(datasets.markets.columns.map(({ name }, i) => [name, values![i]]))).toEqual({
    canonical_id: 'id',
    symbol: 'S',
    source: 'venue',
    views: ['all'],
    category: 'rain',
    confidence: 0.5,
    is_active: false,
    question: 'Rain?',
    closes_at: 1,
    resolved_at: 2,
    outcome: 1,
    first_seen: 3,
    last_seen: 4,
    extra: '{}',
    ...Object.fromEntries(detailColumns.map(([field, column]) => [column, fullDetails[field]])),
  });
});

test('coverage is sorted by dataset and symbol, and is the same when its rows are read', () => {
  const stretches = fc.array(fc.nat(99), { minLength: 1, maxLength: 3 }).map((starts) =>
    [...new Set(starts)]
      .sort((a, b) => a - b)
      .map((from, i) => ({
        from,
        to: from + 1,
        ticks: i,
        fetchedAt: 7,
        origin: 'poll' as const,
        evidence: 'confirmed' as const,
      })),
  );
  const ofSymbols = fc.uniqueArray(fc.tuple(symbol, stretches), { selector: ([name]) => name });
  checkProperty([ofSymbols, ofSymbols, ofSymbols, ofSymbols], 100, (ticks, orderbooks, quotes, trades) => {
    const coverage = {
      ticks: new Map(ticks),
      orderbooks: new Map(orderbooks),
      quotes: new Map(quotes),
      trades: new Map(trades),
    };
    const rows = toCoverageRows(coverage);
    const wanted = (dataset: 'ticks' | 'orderbooks' | 'quotes' | 'trades') =>
      symbols.flatMap((name) =>
        (coverage[dataset].get(name) ?? []).map((s) => [
          dataset,
          name,
          s.from,
          s.to,
          s.ticks,
          7,
          'poll',
          'confirmed',
          null,
        ]),
      );
    expect(rows).toEqual([...wanted('orderbooks'), ...wanted('quotes'), ...wanted('ticks'), ...wanted('trades')]);
    expect(parseCoverageRows(rows)).toEqual(coverage);
  });
});
