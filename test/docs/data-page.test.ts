import { expect, test } from 'vitest';
import { datasets } from '../../src/archive/format/datasets.ts';
import { type MarketFacts, mergeMarkets } from '../../src/archive/format/market.ts';
import { detailColumns, unknownDetails } from '../../src/archive/format/market-details.ts';
import { fullDetails } from '../archive/format/facts.ts';
import { readPage } from './blocks.ts';

// The traps of docs/for-data-scientists.md. test/readers runs its blocks.

const facts: MarketFacts = {
  canonicalId: 'a',
  symbol: 's',
  source: 'one',
  views: ['live'],
  category: 'one',
  confidence: 0.1,
  isActive: true,
  question: 'one',
  opensAt: 1,
  closesAt: 1,
  resolvedAt: 1,
  outcome: 0,
  extra: 'one',
  ...unknownDetails,
};
const others: MarketFacts = {
  canonicalId: 'b',
  symbol: 't',
  source: 'two',
  views: ['all'],
  category: 'two',
  confidence: 0.2,
  isActive: false,
  question: 'two',
  opensAt: 2,
  closesAt: 2,
  resolvedAt: 2,
  outcome: 1,
  extra: 'two',
  ...fullDetails,
};

test('the page names every column of markets that a later poll may change', () => {
  const changed = (Object.keys(facts) as (keyof MarketFacts)[]).filter((name) => {
    const polls = [facts, { ...facts, [name]: others[name] }].map((market, i) => ({
      observedAt: i,
      markets: [market],
    }));
    return mergeMarkets([], polls).length === 1;
  });
  const columns = new Set(datasets.markets.columns.map(({ name }) => name));
  const columnOf = new Map<string, string>(detailColumns);
  const changeable = [...changed.map((name) => columnOf.get(name) ?? name), 'last_seen'].filter((name) =>
    columns.has(name),
  );
  const [trap] = /^\| all \| a row of `markets` .*$/m.exec(readPage('docs/for-data-scientists.md')) ?? [''];
  const named = [...trap.split(' are from ')[0]!.matchAll(/`(\w+)`/g)].map(([, name]) => name!);
  expect(named.filter((name) => name !== 'markets').sort()).toEqual(changeable.sort());
});
