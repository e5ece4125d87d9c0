import { describe, expect, test } from 'vitest';
import type { Gap } from '../../../src/archive/completeness/completeness.ts';
import { datasetNames } from '../../../src/archive/format/datasets.ts';
import type { PublishedFile } from '../../../src/archive/format/manifest.ts';
import { createUnknownSymbol } from '../../../src/archive/format/market.ts';
import {
  computeGapFacts,
  computeHeatmapRows,
  groupSymbols,
  otherGroupsName,
} from '../../../src/report/data/coverage-facts.ts';
import { chooseHeatmapSpan, computeDayTotals, computeReportEnd } from '../../../src/report/data/report-data.ts';

const hourMs = 3_600_000;
const dayMs = 24 * hourMs;

test('the coverage plot shows what is known, in steps that stay few', () => {
  const end = 400 * dayMs + 2 * hourMs;
  const chosen = (knownDays: number, days: number) => {
    const { from, to, stepMs } = chooseHeatmapSpan(Math.floor((end - knownDays * dayMs) / dayMs) * dayMs, end, days);
    expect([from % stepMs, to % stepMs, to >= end]).toEqual([0, 0, true]);
    return [(end - from) / dayMs, stepMs / hourMs, (to - from) / stepMs <= 400];
  };
  expect(chosen(0, 60)).toEqual([1, 1, true]);
  expect(chosen(3, 60)).toEqual([3 + 2 / 24, 1, true]);
  expect(chosen(13, 60)).toEqual([13 + 2 / 24, 1, true]);
  // A step may begin before the first of the shown days.
  expect(chosen(365, 60)).toEqual([60 + 2 / 24, 6, true]);
  expect(chosen(365, 365)).toEqual([365 + 2 / 24, 24, true]);
  expect(chosen(365, 2)).toEqual([14, 1, true]);
});

describe('covered share of lifetimes', () => {
  const span = { from: 0, to: 4 * hourMs };
  const life = { from: -5 * dayMs, to: Number.POSITIVE_INFINITY };

  test('sums by group and hour', () => {
    const rows = computeHeatmapRows(
      [
        { group: 'a', lifetime: life, covered: [{ from: -hourMs, to: 2.5 * hourMs }], damaged: [] },
        {
          ...{ group: 'a', lifetime: { from: 0.5 * hourMs, to: 2 * hourMs } },
          ...{ covered: [{ from: 0, to: 4 * hourMs }], damaged: [] },
        },
        { group: 'b', lifetime: life, covered: [], damaged: [{ from: 2.5 * hourMs, to: dayMs }] },
      ],
      span,
      hourMs,
    );
    expect(rows).toEqual([
      {
        group: 'a',
        symbols: 2,
        lifetimeMs: [1.5, 2, 1, 1].map((hours) => hours * hourMs),
        coveredMs: [1.5, 2, 0.5, 0].map((hours) => hours * hourMs),
        damagedMs: [0, 0, 0, 0],
      },
      {
        ...{ group: 'b', symbols: 1, lifetimeMs: [1, 1, 1, 1].map((hours) => hours * hourMs) },
        ...{ coveredMs: [0, 0, 0, 0], damagedMs: [0, 0, 0.5, 1].map((hours) => hours * hourMs) },
      },
    ]);
  });

  test('counts a window within an hour, and omits groups that were not live', () => {
    const within = { from: 1.25 * hourMs, to: 1.5 * hourMs };
    const symbols = [
      { group: 'a', lifetime: life, covered: [within], damaged: [] },
      { group: 'gone', lifetime: { from: -dayMs, to: 0 }, covered: [], damaged: [] },
    ];
    expect(computeHeatmapRows(symbols, span, hourMs)).toMatchObject([
      { group: 'a', coveredMs: [0, 0.25 * hourMs, 0, 0] },
    ]);
  });

  test('sorts by number of symbols, with the rest last', () => {
    const of = (group: string, count: number) =>
      Array.from({ length: count }, () => ({ group, lifetime: life, covered: [], damaged: [] }));
    const rows = computeHeatmapRows([...of('few', 1), ...of(otherGroupsName, 9), ...of('many', 3)], span, hourMs);
    expect(rows.map(({ group }) => group)).toEqual(['many', 'few', otherGroupsName]);
  });
});

describe('groups of symbols', () => {
  const symbol = (name: string, rest: { category?: string; source?: string } = {}) => ({
    ...createUnknownSymbol(name, 0),
    ...rest,
  });
  const named = (symbols: ReturnType<typeof symbol>[], groupsMax = 12) => {
    const groups = groupSymbols(symbols, groupsMax);
    return [groups.by, ...symbols.map(groups.getGroupName)];
  };

  test('are categories, otherwise venues, otherwise ticker prefixes', () => {
    const [a, b] = [
      symbol('KXBTC-26', { category: 'crypto', source: 'x' }),
      symbol('KXRAIN-26', { category: 'weather' }),
    ];
    expect(named([a, b, symbol('lone')])).toEqual(['category', 'crypto', 'weather', 'unknown']);
    const same = [
      symbol('KXBTC-1', { category: 'all', source: 'x' }),
      symbol('KXETH-1', { category: 'all', source: 'y' }),
    ];
    expect(named(same)).toEqual(['source', 'x', 'y']);
    expect(named([symbol('KXBTC-1'), symbol('KXETH-1'), symbol('0xabc')])).toEqual(['prefix', 'KXBTC', 'KXETH', '0']);
    expect(named([symbol('<b>bold</b>'), symbol('🦆🦆'), symbol('"KXBTC"-1')])).toEqual(['prefix', 'b', '🦆', 'KXBTC']);
    expect(named([])).toEqual(['prefix']);
  });

  test('merges groups beyond the maximum', () => {
    const symbols = ['a', 'a', 'a', 'b', 'b', 'c', 'd'].map((category, i) => symbol(`S${i}`, { category }));
    expect(named(symbols, 3).slice(1)).toEqual(['a', 'a', 'a', 'b', 'b', otherGroupsName, otherGroupsName]);
  });
});

test('groups gaps of the same time, largest first', () => {
  const gap = (symbol: string, from: number, to: number, rest: Partial<Gap> = {}): Gap => ({
    symbol,
    from,
    to,
    reason: 'never asked',
    ...rest,
  });
  const outage = ['A', 'B', 'C', 'D'].map((name, i) => gap(name, 60_000 * i, 10 * hourMs + 60_000 * i));
  const lost = gap('A', 20 * hourMs, 21 * hourMs, { reason: 'lost', ticks: 5 });
  const facts = computeGapFacts([lost, ...outage, gap('E', 15 * hourMs, 18 * hourMs)], 2);
  expect(facts).toEqual({
    windows: 6,
    symbols: 5,
    missingMs: 44 * hourMs,
    groups: 3,
    greatest: [
      {
        from: 0,
        to: 10 * hourMs + 180_000,
        count: 4,
        symbols: ['A', 'B', 'C'],
        missingMs: 40 * hourMs,
        reason: 'never asked',
      },
      { from: 15 * hourMs, to: 18 * hourMs, count: 1, symbols: ['E'], missingMs: 3 * hourMs, reason: 'never asked' },
    ],
    oldest: facts.greatest[0],
  });
  expect(computeGapFacts([], 5)).toMatchObject({ windows: 0, oldest: null });
});

test('sums the files of a day, and includes days without files', () => {
  const file = (date: string | null, rows: number, bytes: number): PublishedFile => ({
    path: '',
    date,
    rows,
    bytes,
    sha256: '',
    t_min: null,
    t_max: null,
    symbols: 1,
    symbol_from: null,
    symbol_to: null,
    generation: 1,
  });
  const none = Object.fromEntries(datasetNames.map((name) => [name, { files: [] as PublishedFile[] }]));
  const datasets = {
    ...none,
    ticks: { files: [file('2026-06-02', 10, 100), file('2026-06-01', 5, 50), file('2026-06-02', 7, 70)] },
    conflicts: { files: [file('2026-06-02', 2, 20)] },
    symbols: { files: [file(null, 9, 900)] },
  };
  const days = {
    '2026-06-01': { state: 'complete' as const, expected: 3, covered: 3, missing: [], exceptions: 0 },
    '2026-06-03': { state: 'incomplete' as const, expected: 2, covered: 1, missing: ['A'], exceptions: 0 },
  };
  expect(computeDayTotals({ datasets: datasets as never }, days)).toEqual([
    { date: '2026-06-01', ticks: 5, bytes: 50, conflicts: 0, state: 'complete', expected: 3, covered: 3 },
    { date: '2026-06-02', ticks: 17, bytes: 190, conflicts: 2, state: 'incomplete', expected: 0, covered: 0 },
    { date: '2026-06-03', ticks: 0, bytes: 0, conflicts: 0, state: 'incomplete', expected: 2, covered: 1 },
  ]);
});

test('the report ends now, or with the data of an archive without recent data', () => {
  const now = 100 * dayMs + 1;
  expect(computeReportEnd(now, null)).toBe(100 * dayMs + hourMs);
  expect(computeReportEnd(now, 95 * dayMs)).toBe(100 * dayMs + hourMs);
  expect(computeReportEnd(now, 50 * dayMs - 1)).toBe(50 * dayMs);
});
