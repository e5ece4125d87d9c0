import { hash } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { MarketFacts } from '../../../src/archive/format/market.ts';
import { detailColumns, type MarketDetails, unknownDetails } from '../../../src/archive/format/market-details.ts';
import { parseMarket, type RecordPaths } from '../../../src/archive/format/parse-market.ts';
import { defaultPaths, fullDetails } from './facts.ts';

/** As in config/default.yaml, with one more path to a member. */
const paths: RecordPaths = {
  ...defaultPaths,
  fieldPaths: { ...defaultPaths.fieldPaths, closesAt: [...defaultPaths.fieldPaths.closesAt, 'venues/*/closes_at'] },
};

const noon = Date.UTC(2026, 6, 1, 12);

function read(fields: object, views: readonly string[] = []): MarketFacts[] {
  const facts = parseMarket({ canonical_id: 'M', ...fields }, views, paths);
  if ('reason' in facts) throw new Error(facts.reason);
  return facts;
}

const symbols = (fields: object) => read(fields).map((facts) => facts.symbol);

test('reads a record with every field', () => {
  const record = {
    symbol: 'S',
    source: 'kalshi',
    category: 'crypto',
    confidence: 0.97,
    is_active: true,
    question: 'Will it?',
    opens_at: noon,
    closes_at: noon + 1,
    resolved_at: noon + 2,
    outcome: 1,
  };
  expect(read(record, ['matched', 'resolving'])).toEqual([
    {
      canonicalId: 'M',
      symbol: 'S',
      source: 'kalshi',
      views: ['matched', 'resolving'],
      category: 'crypto',
      confidence: 0.97,
      isActive: true,
      question: 'Will it?',
      opensAt: noon,
      closesAt: noon + 1,
      resolvedAt: noon + 2,
      outcome: 1,
      extra: JSON.stringify({ opens_at: noon }),
      ...unknownDetails,
      outcomeSource: 'reported',
    },
  ]);
});

/** What is neither in the record's columns nor in `extra`. */
const details = (fields: object): Partial<MarketDetails> => {
  const facts = read(fields)[0]!;
  return Object.fromEntries(detailColumns.flatMap(([field]) => (facts[field] === null ? [] : [[field, facts[field]]])));
};

describe('details', () => {
  const { rulesSha256, ...stated } = fullDetails;
  const columns = Object.fromEntries(
    detailColumns.flatMap(([field, column]) => (field === 'rulesSha256' ? [] : [[column, stated[field]]])),
  );

  test('are read under the names of their columns', () => {
    const [facts] = read({ outcome: 0.5, ...columns, other: 1 });
    expect(facts).toMatchObject({ ...stated, rulesSha256, outcome: 0.5 });
    expect(JSON.parse(facts!.extra!)).toEqual({ other: 1 });
  });

  test('are read from a record of Kalshi', () => {
    const record = {
      ticker: 'KXBTC-26NOV20-B90125',
      event_ticker: 'KXBTC-26NOV20',
      mutually_exclusive: true,
      strike_type: 'between',
      floor_strike: 90_000,
      cap_strike: 90_249.99,
      expected_expiration_time: '2026-11-20T22:00:00Z',
      rules_primary: fullDetails.rules,
      rules_secondary: 'Other sources do not count.',
      fee_type: 'quadratic',
      result: 'no',
    };
    expect(read(record)[0]).toMatchObject({ ...fullDetails, outcomeSource: 'reported', outcome: 0, tickSize: null });
    const { strike_type, rules_secondary } = record;
    expect(JSON.parse(read(record)[0]!.extra!)).toEqual({ strike_type, rules_secondary });
  });

  test('are read from a record of Polymarket', () => {
    const record = {
      symbols: ['71321', '52114'],
      events: [{ id: '16085', slug: 'rain' }],
      negRisk: false,
      endDate: '2026-11-20T22:00:00Z',
      description: fullDetails.rules,
      feeType: 'crypto_fees',
      feeSchedule: { rate: 0.07, exponent: 1 },
      orderPriceMinTickSize: 0.001,
    };
    const expected = {
      event: '16085',
      exclusive: false,
      expectedEnd: fullDetails.expectedEnd!,
      rules: fullDetails.rules!,
      rulesSha256: rulesSha256!,
      feeSchedule: 'crypto_fees',
      tickSize: 0.001,
    };
    const both = read(record);
    for (const facts of both) expect(facts).toMatchObject({ ...expected, outcome: null, outcomeSource: null });
    const { symbols: _, events, feeSchedule } = record;
    expect(JSON.parse(both[1]!.extra!)).toEqual({ symbols: record.symbols, events, feeSchedule });
  });

  test('of a wrong type are null and stay in extra', () => {
    const wrong: Record<string, readonly unknown[]> = {
      event: [5, '', null, { id: 'E' }, ['E']],
      exclusive: ['true', 1, 0, null],
      strike_low: ['5', null, true, [5]],
      strike_high: ['5', {}, Number.POSITIVE_INFINITY],
      expected_end: ['2026-11-20', '2026-11-20 22:00:00+00', '2026-11-20T22:00:00', 1e9, true],
      rules: [5, '', ['a']],
      fee_schedule: [5, { rate: 1 }, ''],
      tick_size: ['0.01', 0, -0.01, 1, 5, Number.NaN, true],
    };
    for (const [name, values] of Object.entries(wrong)) {
      for (const value of values) {
        expect(details({ [name]: value }), `${name} ${JSON.stringify(value)}`).toEqual({});
        expect(read({ [name]: value })[0]!.extra).toBe(JSON.stringify({ [name]: value }));
      }
    }
    // The next path applies.
    expect(details({ event: 5, event_ticker: 'E' })).toEqual({ event: 'E' });
  });

  test('have strikes of zero and below', () => {
    expect(details({ floor_strike: -0.5, cap_strike: 0 })).toEqual({ strikeLow: -0.5, strikeHigh: 0 });
  });

  test.each<[string, object, string | null, object]>([
    ['is reported if the record states an outcome', { outcome: 1 }, 'reported', {}],
    ['is derived if the record says so', { outcome: 1, resolution_source: 'derived' }, 'derived', {}],
    ['is reported if the record says so', { outcome: 1, outcome_source: 'reported' }, 'reported', {}],
    [
      'is reported if the record names a page',
      { outcome: 1, resolution_source: 'https://example.org' },
      'reported',
      { resolution_source: 'https://example.org' },
    ],
    ['is unknown without an outcome', { outcome_source: 'derived' }, null, { outcome_source: 'derived' }],
    ['is unknown if the outcome cannot be read', { outcome: 'maybe' }, null, { outcome: 'maybe' }],
  ])('of the outcome: its source %s', (_, fields, expected, extra) => {
    const facts = read(fields)[0]!;
    expect(facts.outcomeSource).toBe(expected);
    expect(JSON.parse(facts.extra ?? '{}')).toEqual(extra);
  });

  test('have the hash of the rules if and only if there are rules', () => {
    expect(details({ rules: 'a' })).toEqual({ rules: 'a', rulesSha256: hash('sha256', 'a') });
    // A hash that says nothing new is not repeated in extra; another one is kept.
    expect(read({ rules: 'a', rules_sha256: hash('sha256', 'a') })[0]!.extra).toBeNull();
    expect(read({ rules: 'a', rules_sha256: 'b' })[0]).toMatchObject({ extra: '{"rules_sha256":"b"}' });
    expect(read({ rules_sha256: 'b' })[0]).toMatchObject({ rulesSha256: null, extra: '{"rules_sha256":"b"}' });
  });
});

test('reads the four documented fields, under the canonical_id', () => {
  const facts = read({ confidence: 1, category: 'crypto', is_active: false });
  expect(facts).toHaveLength(1);
  expect(facts[0]).toMatchObject({ symbol: 'M', confidence: 1, category: 'crypto', isActive: false, extra: null });
  expect(facts[0]).toMatchObject({ source: null, question: null, opensAt: null, closesAt: null, outcome: null });
});

describe('symbols', () => {
  test('come from every path, each once, in path order', () => {
    const record = { venues: [{ ticker: 'C' }, { symbol: 'D', ticker: 'A' }], ticker: 'B', symbols: ['A', 'B'] };
    expect(symbols({ symbol: 'A', ...record })).toEqual(['A', 'B', 'C', 'D']);
  });

  test('come from object members too', () => {
    expect(symbols({ venues: { kalshi: { ticker: 'A' }, poly: { symbol: 'B' } } })).toEqual(['A', 'B']);
  });

  test.each([
    ['an empty string', { symbol: '' }],
    ['a number', { ticker: 5 }],
    ['null', { symbol: null, venues: null }],
    ['an empty list', { symbols: [] }],
    ['a string instead of a list', { venues: 'kalshi' }],
    ['a string instead of a list of symbols', { symbols: 'AB' }],
    ['members that are not objects', { venues: ['kalshi', 5, null] }],
    ['an inherited property', { venues: [Object.create({ ticker: 'X' })] }],
  ])('are the canonical_id if there is only %s', (_, fields) => {
    expect(symbols(fields)).toEqual(['M']);
  });

  test('are found at configured paths', () => {
    const nested = { ...paths, symbolPaths: ['legs/*/outcomes/*/id'] };
    const record = { canonical_id: 'M', legs: [{ outcomes: { yes: { id: 'Y' }, no: { id: 'N' } } }] };
    expect(parseMarket(record, [], nested)).toMatchObject([{ symbol: 'Y' }, { symbol: 'N' }]);
  });
});

describe('fields', () => {
  test('of a member apply only to the symbol of that member', () => {
    const venues = [
      { ticker: 'A', source: 'kalshi', closes_at: noon },
      { ticker: 'B', venue: 'poly' },
    ];
    expect(read({ venues })).toMatchObject([
      { symbol: 'A', source: 'kalshi', closesAt: noon },
      { symbol: 'B', source: 'poly', closesAt: null },
    ]);
  });

  test('of the record apply to every symbol', () => {
    const venues = [{ ticker: 'A' }, { ticker: 'B' }];
    expect(read({ venues, question: 'Will it?', close_time: noon })).toMatchObject([
      { symbol: 'A', question: 'Will it?', closesAt: noon },
      { symbol: 'B', question: 'Will it?', closesAt: noon },
    ]);
  });

  test('come from the first path with a valid value', () => {
    expect(read({ question: 5, title: 'Will it?' })[0]).toMatchObject({ question: 'Will it?' });
    expect(read({ closes_at: 'soon', end_date: noon })[0]).toMatchObject({ closesAt: noon });
  });

  test.each([
    ['category', 'category', 7],
    ['confidence', 'confidence', '0.9'],
    ['is_active', 'isActive', 'true'],
    ['question', 'question', ''],
  ])('that cannot be parsed are null and stay in extra: %s', (name, field, value) => {
    const facts = read({ [name]: value })[0]!;
    expect(facts[field as keyof MarketFacts]).toBeNull();
    expect(JSON.parse(facts.extra!)).toEqual({ [name]: value });
  });
});

describe('times', () => {
  test.each<[string, unknown, number | null]>([
    ['epoch milliseconds', noon, noon],
    ['an instant in UTC', '2026-07-01T12:00:00Z', noon],
    ['an instant with milliseconds', '2026-07-01T12:00:00.250Z', noon + 250],
    ['an instant with an offset', '2026-07-01T14:00:00+02:00', noon],
    ['an offset without a colon', '2026-07-01T09:30:00-0230', noon],
    ['an instant without a zone', '2026-07-01T12:00:00', null],
    ['an instant in a list', ['2026-07-01T12:00:00Z'], null],
    ['a day', '2026-07-01', null],
    ['a day that does not exist', '2026-13-01T00:00:00Z', null],
    ['digits in a string', String(noon), null],
    ['seconds', noon / 1000, null],
    ['half a millisecond', noon + 0.5, null],
    ['the first moment of 2000', Date.UTC(2000, 0, 1), Date.UTC(2000, 0, 1)],
    ['the year 1999', Date.UTC(1999, 11, 31), null],
    ['the year 2101', Date.UTC(2101, 0, 1), null],
    ['null', null, null],
  ])('are accepted or ignored: %s', (_, value, expected) => {
    expect(read({ closes_at: value, opens_at: value })[0]).toMatchObject({ closesAt: expected, opensAt: expected });
  });
});

describe('outcomes', () => {
  test.each<[unknown, number | null]>([
    ...([0, 1, 0.5] as const).map((value): [unknown, number] => [value, value]),
    ...([true, 'yes', 'YES', 'Yes'] as const).map((value): [unknown, number] => [value, 1]),
    ...([false, 'no', 'NO', 'No'] as const).map((value): [unknown, number] => [value, 0]),
    ...[-0.1, 1.1, Number.NaN, '1', 'maybe', 'yesterday', '', null, {}, ['yes'], ['no']].map(
      (value): [unknown, null] => [value, null],
    ),
  ])('%j is %j', (value, expected) => {
    expect(read({ result: value })[0]!.outcome).toBe(expected);
  });
});

describe('extra', () => {
  test('holds every field without a column as it came', () => {
    const rest = { volume: 12.5, tags: ['a', { b: null }], ' odd name ': '' };
    expect(JSON.parse(read({ ticker: 'A', category: 'x', ...rest })[0]!.extra!)).toEqual(rest);
  });

  test('keeps the whole list of venues, since its columns hold only parts of it', () => {
    const venues = [{ ticker: 'A', source: 'kalshi', url: 'https://example.org/a' }];
    expect(JSON.parse(read({ venues })[0]!.extra!)).toEqual({ venues });
  });

  test('keeps a top-level ticker for the symbols that it does not name', () => {
    const [first, second] = read({ symbol: 'A', ticker: 'B' });
    expect(JSON.parse(first!.extra!)).toEqual({ ticker: 'B' });
    expect(JSON.parse(second!.extra!)).toEqual({ symbol: 'A' });
  });
});

test.each([
  ['null', null, 'market is not an object'],
  ['a string', 'M', 'market is not an object'],
  ['a list', [{ canonical_id: 'M' }], 'market is not an object'],
  ['an empty object', {}, 'canonical_id is not a string'],
  ['a number for an id', { canonical_id: 5, symbol: 'A' }, 'canonical_id is not a string'],
  ['an empty id', { canonical_id: '' }, 'canonical_id is not a string'],
  [
    'half a surrogate pair',
    { canonical_id: 'M', symbol: 'A\ud800' },
    'canonical_id or symbol is not well-formed Unicode, or has a NUL or byte order mark',
  ],
])('rejects %s with a reason', (_, record, reason) => {
  expect(parseMarket(record, [], paths)).toEqual({ reason });
});
