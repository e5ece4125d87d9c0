import {
  array,
  assert,
  boolean,
  constantFrom,
  dictionary,
  integer,
  oneof,
  property,
  record as recordArb,
} from 'fast-check';
import { expect, test } from 'vitest';
import type { MarketFacts } from '../../../src/archive/format/market.ts';
import { parseMarket, rebuildMarketRecords } from '../../../src/archive/format/parse-market.ts';
import { printSeed } from '../../harness/properties.ts';
import { market } from '../scratch.ts';
import { defaultPaths } from './facts.ts';

const paths = defaultPaths;

const seed = printSeed('market-given');
const noon = Date.UTC(2026, 6, 1, 12);

function read(record: object, views: readonly string[] = ['matched']): MarketFacts[] {
  const facts = parseMarket(record, views, paths);
  if ('reason' in facts) throw new Error(facts.reason);
  return facts;
}

const rebuildRecords = (rows: readonly MarketFacts[]) => rebuildMarketRecords(rows, paths).map(({ record }) => record);

test('rebuilds a record as received, with its symbols together', () => {
  const received = {
    canonical_id: 'M',
    confidence: 0.9,
    category: 'crypto',
    is_active: true,
    venues: [
      { source: 'kalshi', ticker: 'A', url: 'https://example.org/a' },
      { source: 'poly', ticker: 'B' },
    ],
    question: 'Will it?',
    opens_at: noon,
    closes_at: noon + 1,
    resolved_at: noon + 2,
    outcome: 1,
    volume: [1, { b: null }],
    outcome_source: 'derived',
    event_ticker: 7,
    event: 'E',
    exclusive: false,
    strike_low: 1,
    strike_high: 2.5,
    expected_end: noon + 3,
    rules: 'If it does.',
    fee_schedule: 'flat',
    tick_size: 0.01,
  };
  const [only, ...others] = rebuildMarketRecords(read(received), paths);
  expect(others).toEqual([]);
  expect(only!.record).toEqual(received);
  expect([...only!.sources]).toEqual(['kalshi', 'poly']);
  expect([...only!.views]).toEqual(['matched']);
});

test('restores the symbol of a single-symbol record under a free name', () => {
  expect(rebuildRecords(read({ canonical_id: 'M', ticker: 'A', source: 'kalshi' }))).toEqual([
    { canonical_id: 'M', symbol: 'A', source: 'kalshi' },
  ]);
  expect(rebuildRecords(read({ canonical_id: 'M', symbol: 7, ticker: 'A' }))).toEqual([
    { canonical_id: 'M', symbol: 7, ticker: 'A' },
  ]);
  expect(rebuildRecords(read({ canonical_id: 'M' }))).toEqual([{ canonical_id: 'M' }]);
  expect([...rebuildMarketRecords(read({ canonical_id: 'M' }), paths)[0]!.sources]).toEqual([]);
});

test('keeps records of two venues with one canonical_id separate', () => {
  const [a, b] = [
    { canonical_id: 'M', symbol: 'A', source: 'kalshi' },
    { canonical_id: 'M', symbol: 'B', source: 'poly' },
  ];
  expect(rebuildRecords([...read(a), ...read(b)])).toEqual([a, b]);
});

test("puts a symbol's own record after a longer record that names it too", () => {
  const full = { canonical_id: 'M', venues: [{ ticker: 'A' }, { ticker: 'B' }] };
  const own = { canonical_id: 'M', venues: [{ ticker: 'A' }] };
  const [rowA] = read(own);
  const [, rowB] = read(full);
  expect(rebuildRecords([rowA!, rowB!])).toEqual([full, own]);
});

test('rebuilds a separate record for a symbol found by other paths', () => {
  const legs = JSON.stringify({ legs: [{ code: 'A' }, { code: 'B' }] });
  const rows = ['A', 'B'].map((symbol) => market(symbol, { canonicalId: 'M', source: null, extra: legs }));
  const records = rebuildRecords(rows);
  expect(records.map(({ symbol }) => symbol)).toEqual(['A', 'B']);
  expect(records.flatMap((record) => read(record)).map(({ extra }) => extra)).toEqual([legs, legs]);
});

test('keeps the field order of the row with the most fields, whichever row comes first', () => {
  const received = { canonical_id: 'M', ticker: 'B', volume: 1, symbol: 'a longer name' };
  const rows = read(received);
  for (const order of [rows, rows.toReversed()])
    expect(JSON.stringify(rebuildRecords(order))).toBe(JSON.stringify([received]));
});

test("restores another member's fact if no plain name is left, even with one row", () => {
  const venues = [{ symbol: 'A' }, { symbol: 'B', source: 'kalshi' }];
  const [row] = read({ canonical_id: 'M', ticker: 'A', source: 5, venue: 7, venues });
  expect(row).toMatchObject({ symbol: 'A', source: 'kalshi' });
  expect(rebuildRecords([row!]).flatMap((record) => read(record))[0]).toEqual(row);
});

test('accepts extra fields that are not an object, as files may have', () => {
  for (const extra of ['[1]', '"a"', 'null', '{broken'])
    expect(rebuildRecords([market('A', { canonicalId: 'M', extra })])).toEqual(
      rebuildRecords([market('A', { canonicalId: 'M' })]),
    );
});

test('rebuilds records that parse to the same rows', () => {
  const name = constantFrom('A', 'B', 'M', '', 'É😀');
  const value = oneof(
    name,
    integer({ min: noon, max: noon + 9 }),
    boolean(),
    constantFrom(null, 0, 1, 0.5, -0.5, 'yes', 'derived', 'reported'),
  );
  const member = dictionary(constantFrom('ticker', 'symbol', 'source', 'venue', 'url'), value, { maxKeys: 4 });
  const plain = dictionary(
    oneof(
      constantFrom('symbol', 'ticker', 'source', 'venue', 'question', 'title', 'closes_at', 'close_time', 'end_date'),
      constantFrom(
        'resolved_at',
        'resolution_time',
        'outcome',
        'result',
        'confidence',
        'category',
        'is_active',
        'volume',
      ),
      constantFrom('outcome_source', 'event', 'event_ticker', 'exclusive', 'neg_risk', 'strike_low', 'floor_strike'),
      constantFrom('cap_strike', 'expected_end', 'rules', 'description', 'rules_sha256', 'fee_type', 'tick_size'),
    ),
    value,
    { maxKeys: 12 },
  );
  const received = recordArb(
    {
      canonical_id: constantFrom('M'),
      symbols: array(value, { maxLength: 3 }),
      venues: array(member, { maxLength: 3 }),
      plain,
    },
    { requiredKeys: ['canonical_id', 'plain'] },
  ).map(({ plain: { source, venue, ...fields }, ...rest }) => ({
    ...fields,
    // A source given twice, around the venues and in one of them, is restored only where needed.
    ...(source === undefined ? {} : { source: typeof source === 'string' ? `${source}!` : source }),
    ...(venue === undefined ? {} : { venue: typeof venue === 'string' ? `${venue}?` : venue }),
    ...rest,
  }));
  const sorted = (rows: readonly MarketFacts[]) =>
    rows
      .map((row) => JSON.stringify({ ...row, extra: Object.entries(JSON.parse(row.extra ?? '{}') as object).sort() }))
      .sort();
  assert(
    property(received, (record) => {
      const rows = read(record);
      const records = rebuildRecords(rows);
      expect(records).toHaveLength(1);
      expect(sorted(records.flatMap((one) => read(one)))).toEqual(sorted(rows));
    }),
    { seed, numRuns: 500 },
  );
});
