import { expect, test } from 'vitest';
import { qualifyMarket } from '../../../src/archive/format/qualify-market.ts';
import { qualifySymbol } from '../../../src/base/source-name.ts';

const paths = ['symbol', 'symbols/*', 'venues/*/ticker', 'venues/k/ticker'];
const qualify = (record: unknown) => qualifyMarket(record, (name) => qualifySymbol('alpha', name), paths);

test('qualifies the canonical ID and every symbol, once, and nothing else', () => {
  const record = {
    canonical_id: 'C',
    symbol: 'S',
    symbols: ['A', 'B', '', 7, null],
    venues: { k: { ticker: 'K', name: 'kalshi' }, p: { ticker: 'P' }, none: null },
    event: 'E',
    title: 'S',
  };
  expect(qualify(record)).toEqual({
    canonical_id: 'alpha:C',
    symbol: 'alpha:S',
    symbols: ['alpha:A', 'alpha:B', '', 7, null],
    venues: { k: { ticker: 'alpha:K', name: 'kalshi' }, p: { ticker: 'alpha:P' }, none: null },
    event: 'E',
    title: 'S',
  });
  expect(record.symbols[0]).toBe('A');
});

test('leaves what is no record as it is', () => {
  for (const value of [null, 7, 'text', []]) expect(qualify(value)).toEqual(value);
});

test('keeps the order of the fields and odd names', () => {
  const record = JSON.parse('{"z":1,"symbol":"S","__proto__":{"ticker":"X"},"a":2}') as object;
  expect(JSON.stringify(qualify(record))).toBe('{"z":1,"symbol":"alpha:S","__proto__":{"ticker":"X"},"a":2}');
});
