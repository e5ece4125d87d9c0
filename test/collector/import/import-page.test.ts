import { describe, expect, test } from 'vitest';
import { detailColumns } from '../../../src/archive/format/market-details.ts';
import { timeMin } from '../../../src/base/time.ts';
import { openTimeZone, utcZone } from '../../../src/base/time-zone.ts';
import { UnreadableResponseError } from '../../../src/client/response-body.ts';
import { parseTypedColumns, readMarketRow } from '../../../src/collector/import/import-market.ts';
import { readSavedPage } from '../../../src/collector/import/import-page.ts';
import { fullDetails, noDetailPaths } from '../../archive/format/facts.ts';

const day = Date.UTC(2026, 6, 11);
const times = { writtenAt: day + 9000, futureMs: day + 20_000 };
const bytes = (page: unknown): Buffer => Buffer.from(JSON.stringify(page));
const whole = {
  symbol: 'A',
  ticks: [{ t: day, p: 0.5 }],
  count: 1,
  from: day,
  to: day + 5000,
  generated_at: day + 4000,
};

describe('a saved page', () => {
  const coverageOf = (page: unknown) => {
    const read = readSavedPage(bytes(page), null, times);
    return read.kind === 'ticks' ? read.covered.map(({ from, to, evidence }) => [from, to, evidence]) : null;
  };
  const ticks = [3000, 1000, 2000].map((t) => ({ t: day + t, p: 0.5 }));
  const truncated = { ...whole, ticks, count: 3, from: day + 1000, to: day + 3001 };

  test('covers the stated range if it ends at its first and last tick, up to its generation', () => {
    expect(readSavedPage(bytes(truncated), null, times)).toMatchObject({
      kind: 'ticks',
      symbol: 'A',
      observedAt: day + 4000,
    });
    expect(coverageOf(truncated)).toEqual([[day + 1000, day + 3001, 'stated']]);
    expect(coverageOf({ ...truncated, to: day + 3000 })).toEqual([[day + 1000, day + 3000, 'stated']]);
    expect(coverageOf({ ...truncated, generated_at: day + 2000 })).toEqual([[day + 1000, day + 2000, 'stated']]);
  });

  test('covers nothing if the stated range may repeat the request', () => {
    for (const ends of [{}, { from: day + 1000 }, { to: day + 3001 }, { from: day + 999, to: day + 3002 }])
      expect(coverageOf({ ...truncated, from: day, to: day + 4000, ...ends })).toEqual([]);
  });

  test('without ticks is inferred to be empty, without its stated gaps', () => {
    const empty = { ...whole, ticks: [], count: 0 };
    expect(coverageOf(empty)).toEqual([[day, day + 4000, 'inferred']]);
    expect(coverageOf({ ...empty, gaps: [[day + 1, day + 2]] })).toEqual([
      [day, day + 1, 'inferred'],
      [day + 2, day + 4000, 'inferred'],
    ]);
    for (const rest of [{ from: null }, { to: undefined }, { from: day + 4500 }, { gaps: [[day - 1, day + 9000]] }])
      expect(coverageOf({ ...empty, ...rest })).toEqual([]);
    expect(coverageOf({ ...empty, from: 0 })).toEqual([[Date.UTC(2000, 0, 1), day + 4000, 'inferred']]);
  });

  test('with more than 1 % of unusable elements covers nothing', () => {
    const many = Array.from({ length: 199 }, (_, i) => ({ t: day + i, p: 0.5 }));
    const page = (bad: number) => {
      const ticks = [...many, ...Array.from({ length: bad }, () => ({ t: day, p: 'x' }))];
      return { ...whole, ticks, count: ticks.length, to: day + 199 };
    };
    expect(coverageOf(page(2))).toEqual([[day, day + 199, 'stated']]);
    expect(coverageOf(page(3))).toEqual([]);
  });

  test('is dated by its file if it states no plausible time', () => {
    for (const generated_at of [undefined, 'noon', 5, day + 30_000])
      expect(readSavedPage(bytes({ ...whole, generated_at }), null, times)).toMatchObject({
        observedAt: times.writtenAt,
      });
  });

  test('keeps ticks outside of its window, and rejects unusable ones', () => {
    const ticks = [
      { t: day - 1, p: 0.5 },
      { t: day, p: 'x' },
      { t: 7, p: 0.5 },
      { t: day + 20_001, p: 0.5 },
    ];
    const page = readSavedPage(bytes({ ...whole, ticks, count: 4 }), null, times);
    if (page.kind !== 'ticks') throw new Error('no ticks');
    expect([...page.validated.ticks.t]).toEqual([day - 1]);
    expect(page.validated.rejected.map(({ reason }) => reason)).toEqual([
      'p is not a number',
      't is outside the years 2000 to 2100',
      't is in the future',
    ]);
  });

  test('without a usable tick covers nothing', () => {
    for (const tick of [{ t: day / 1000, p: 0.5 }, { t: day, p: '0.5' }, [day, 0.5]]) {
      const page = readSavedPage(bytes({ ...whole, ticks: [tick] }), null, times);
      expect(page).toMatchObject({ kind: 'ticks', covered: [] });
    }
  });

  test('without a symbol is rejected', () => {
    for (const symbol of [undefined, null, 7, '']) {
      const page = readSavedPage(bytes({ ...whole, symbol }), null, times);
      expect(page).toMatchObject({
        kind: 'rejected',
        rejected: { reason: expect.stringMatching(/states no symbol/) },
      });
    }
  });

  test('of markets is detected by its content, or required', () => {
    const page = { markets: [{ canonical_id: 'a' }], view: 'matched', generated_at: day };
    const expected = { kind: 'markets', observedAt: day, view: 'matched', records: page.markets };
    expect(readSavedPage(bytes(page), null, times)).toEqual(expected);
    expect(readSavedPage(bytes(page), 'markets', times)).toEqual(expected);
    expect(() => readSavedPage(bytes(page), 'ticks', times)).toThrow('no ticks array');
    expect(() => readSavedPage(bytes(whole), 'markets', times)).toThrow('no markets array');
  });

  test('of markets has the stated view', () => {
    for (const view of [undefined, 7, ''])
      expect(readSavedPage(bytes({ markets: [], view }), null, times)).toMatchObject({ kind: 'markets', view: null });
  });

  test('of ticks that is invalid does not count as one of markets', () => {
    const torn = { symbol: 'A', ticks: [], count: 3, markets: [{ canonical_id: 'a' }] };
    expect(() => readSavedPage(bytes(torn), null, times)).toThrow(UnreadableResponseError);
  });

  test.each([['[]'], ['{"ticks": ['], ['{"hello": 1}'], [''], ['{"symbol":"A","ticks":[],"count":3}']])(
    'cannot be read from %s',
    (text) => {
      expect(() => readSavedPage(Buffer.from(text), null, times)).toThrow(UnreadableResponseError);
    },
  );
});

describe('a row of markets', () => {
  const fieldPaths = {
    question: ['title'],
    source: ['venue'],
    opensAt: [],
    closesAt: ['end'],
    resolvedAt: [],
    outcome: ['won'],
    ...noDetailPaths,
  };
  const rules = {
    paths: { symbolPaths: ['symbol', 'symbols/*'], fieldPaths },
    zone: utcZone,
    truncates: false,
    localColumns: new Set(['end']),
    writtenAt: day,
    futureMs: day + 1000,
  };
  const read = (row: Record<string, unknown>, more = {}) => readMarketRow(row, { ...rules, ...more });

  test('uses its symbol as canonical_id, and the modification time of its file', () => {
    expect(read({ symbol: 'A', title: 'q', n: 5, nothing: null })).toMatchObject({
      firstSeen: day,
      lastSeen: day,
      facts: [{ symbol: 'A', canonicalId: 'A', question: 'q', views: [], isActive: null, extra: '{"n":5}' }],
    });
  });

  test('was seen at its stated times', () => {
    expect(read({ symbol: 'A', first_seen: day - 9, last_seen: day - 5 })).toMatchObject({
      firstSeen: day - 9,
      lastSeen: day - 5,
    });
    expect(read({ symbol: 'A', last_seen: '2026-07-10T00:00:00Z' })).toMatchObject({ firstSeen: day - 86_400_000 });
    expect(read({ symbol: 'A', observed_at: day - 3, generated_at: day - 2 })).toMatchObject({ lastSeen: day - 3 });
    expect(read({ symbol: 'A', generated_at: day - 2 })).toMatchObject({ firstSeen: day - 2, lastSeen: day - 2 });
  });

  test.each([
    [{ symbol: 'A', first_seen: 'soon' }, 'first_seen is not a time'],
    [{ symbol: 'A', observed_at: day + 1001 }, 'observed_at is not a time in the past'],
    [{ symbol: 'A', last_seen: true }, 'last_seen is not a time in the past'],
    [{ symbol: 'A', last_seen: timeMin - 1 }, 'last_seen is not a time in the past'],
    [{ symbol: 'A', last_seen: day - 0.5 }, 'last_seen is not a time in the past'],
    [{ symbol: 'A', first_seen: day, last_seen: 'soon' }, 'last_seen is not a time'],
    [{ title: 'q' }, 'canonical_id is not a string'],
  ])('%j is rejected', (row, reason) => {
    expect(read(row)).toEqual({ reason });
  });

  test('as published describes its own symbol only, and keeps its extra fields', () => {
    const extra = '{"symbols":["A","B"],  "opens_at":5,"venue":"w"}';
    const row = {
      canonical_id: 'm',
      symbol: 'A',
      source: 'v',
      views: '["x","a"]',
      first_seen: day,
      last_seen: day,
      extra,
    };
    expect(read(row)).toMatchObject({ facts: [{ canonicalId: 'm', symbol: 'A', views: ['a', 'x'], extra }] });
    expect(read(row)).toHaveProperty('facts.length', 1);
  });

  test.each<[string, Record<string, unknown>, string | null]>([
    ['none', {}, null],
    ['invalid JSON', { extra: '{"a"' }, null],
    ['a number', { extra: 5 }, null],
    ['a number as text', { extra: '5' }, null],
    ['a list', { extra: '["a"]' }, null],
    ['null as text', { extra: 'null' }, null],
    ['an object, with an unpublished column', { extra: '{"b": 1}', rank: 2 }, '{"b":1,"rank":2}'],
    ['an object, with published columns only', { extra: '{"b": 1}', outcome: 1, date: 'x', category: 'c' }, '{"b": 1}'],
  ])('with extra fields that are %s merges them with its own', (_, rest, extra) => {
    const row = { canonical_id: 'm', symbol: 'A', first_seen: day, last_seen: day, ...rest };
    expect(read(row)).toMatchObject({ facts: [{ symbol: 'A', extra }] });
  });

  test.each<[unknown, string[]]>([
    [
      ['b', 'a', 7, 'b'],
      ['a', 'b'],
    ],
    ['["b","a",null]', ['a', 'b']],
    ['matched', []],
    ['{"0":"a"}', []],
    [undefined, []],
  ])('with the views %j has %j', (views, expected) => {
    expect(read({ symbol: 'A', ...(views === undefined ? {} : { views }) })).toMatchObject({
      facts: [{ views: expected }],
    });
  });

  test('uses the published columns if the paths find nothing', () => {
    const columns = {
      question: 'q',
      source: 's',
      closes_at: day + 1,
      resolved_at: day + 2,
      opens_at: day,
      outcome: 0.5,
    };
    expect(read({ symbol: 'A', ...columns })).toMatchObject({
      facts: [{ question: 'q', source: 's', closesAt: day + 1, resolvedAt: day + 2, opensAt: day, outcome: 0.5 }],
    });
    expect(read({ symbol: 'A', ...columns, title: 't', venue: 'v' })).toMatchObject({
      facts: [{ question: 't', source: 'v' }],
    });
  });

  const detailCells = Object.fromEntries(detailColumns.map(([field, column]) => [column, fullDetails[field]]));

  test('that was published has its details again, also without extra fields', () => {
    const published = { canonical_id: 'm', symbol: 'A', first_seen: day, last_seen: day, outcome: 0.5, ...detailCells };
    const own = { extra: '{"event_ticker":"other","n":5}' };
    for (const [more, extra] of [
      [{}, null],
      [{ extra: null }, null],
      [own, own.extra],
    ] as const) {
      const seen = read({ ...published, ...more });
      expect(seen).toMatchObject({ facts: [{ ...fullDetails, outcome: 0.5, extra }] });
    }
  });

  test('of symbols has the hash of rules that it does not have in extra', () => {
    const { rules: _, ...ofSymbol } = detailCells;
    expect(read({ symbol: 'A', outcome: 1, ...ofSymbol })).toMatchObject({
      facts: [{ ...fullDetails, rules: null, rulesSha256: null, extra: expect.stringContaining('rules_sha256') }],
    });
  });

  test('of text has typed details', () => {
    const texts = Object.fromEntries(Object.entries(detailCells).map(([name, value]) => [name, String(value)]));
    expect(parseTypedColumns({ ...texts, event: '5', fee_schedule: 'true' }, rules.paths)).toEqual({
      ...detailCells,
      event: '5',
      fee_schedule: 'true',
    });
  });

  test('describes all its symbols, unless it is published with a symbol', () => {
    const symbols = (row: Record<string, unknown>) => {
      const seen = read({ canonical_id: 'm', symbols: ['A', 'B'], ...row });
      return 'reason' in seen ? seen.reason : seen.facts.map(({ symbol }) => symbol);
    };
    expect(symbols({ symbol: 'C' })).toEqual(['C', 'A', 'B']);
    expect(symbols({ first_seen: day })).toEqual(['A', 'B']);
    expect(symbols({ symbol: 'C', first_seen: day })).toEqual(['C']);
  });

  test('accepts times from the minimum to the end of the allowed skew', () => {
    expect(read({ symbol: 'A', first_seen: timeMin, last_seen: day + 1000 })).toMatchObject({
      firstSeen: timeMin,
      lastSeen: day + 1000,
    });
  });

  test('converts only the numbers of local-time columns by the zone', () => {
    const zone = openTimeZone('America/New_York');
    const row = { symbol: 'A', end: day, resolved_at: day + 1 };
    expect(read(row, { zone })).toMatchObject({ facts: [{ closesAt: day + 4 * 3_600_000, resolvedAt: day + 1 }] });
    expect(read({ ...row, end: '2026-07-11T00:00:00Z' }, { zone })).toMatchObject({ facts: [{ closesAt: day }] });
  });

  test('returns every symbol that the paths find', () => {
    expect(read({ canonical_id: 'm', symbols: ['A', 'B'] })).toMatchObject({
      facts: [{ symbol: 'A' }, { symbol: 'B' }],
    });
  });

  test('has local times in the given zone, and none without one', () => {
    const row = { symbol: 'A', end: day + 5, won: true };
    expect(read(row)).toMatchObject({ facts: [{ closesAt: day + 5, outcome: 1 }] });
    expect(read(row, { zone: null })).toMatchObject({
      facts: [{ closesAt: null, extra: '{"end":"2026-07-11T00:00:00.005"}' }],
    });
  });

  test('of text has numbers and booleans in the columns that may hold them', () => {
    expect(parseTypedColumns({ is_active: 'FALSE', closes_at: true, won: null }, rules.paths)).toEqual({
      is_active: false,
      closes_at: true,
      won: null,
    });
    const row = parseTypedColumns(
      { symbol: '12', is_active: 'True', confidence: '0.5', won: '1', end: `${day}`, category: '7', closes_at: 'soon' },
      rules.paths,
    );
    expect(row).toEqual({
      symbol: '12',
      is_active: true,
      confidence: 0.5,
      won: 1,
      end: day,
      category: '7',
      closes_at: 'soon',
    });
  });
});
