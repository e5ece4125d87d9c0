import { describe, expect, test } from 'vitest';
import {
  isSelectedByRules,
  matchesSelector,
  selectorPattern,
  suggestExistingSelector,
  suggestSelector,
} from '../../src/base/symbol-selector.ts';

const facts = {
  symbol: 'KXBTCD-26NOV20-B90025',
  source: 'Kalshi',
  category: 'crypto',
  question: 'Will Bitcoin be above $90,025 on Nov 20?',
  event: null,
};

describe('a selector', () => {
  test.each([
    ['venue:kalshi', true],
    ['venue:polymarket', false],
    ['category:crypto', true],
    ['category:cry', false],
    ['symbol:KXBTC*', true],
    ['symbol:kxbtc*-b?????', true],
    ['symbol:KXBTC', false],
    ['symbol:*', true],
    ['question:*bitcoin*', true],
    ['question:*on nov 20?', true],
    ['event:*', false],
    ['venue: kalshi ', true],
    ['nonsense', false],
  ])('%s matches: %s', (selector, matches) => expect(matchesSelector(selector, facts)).toBe(matches));

  test('of a symbol matches it with and without its source', () => {
    const qualified = { ...facts, symbol: 'alpha:KXBTC-1' };
    for (const text of ['symbol:alpha:KXBTC*', 'symbol:KXBTC*']) expect(matchesSelector(text, qualified)).toBe(true);
    expect(matchesSelector('symbol:beta:KXBTC*', qualified)).toBe(false);
  });

  test('of a field that the records do not have matches nothing', () => {
    const unknown = { ...facts, source: null, category: null, question: null };
    for (const text of ['venue:*', 'category:*', 'question:*']) expect(matchesSelector(text, unknown)).toBe(false);
  });

  test('with many stars is compared in little time', () => {
    const question = 'a'.repeat(1000);
    expect(matchesSelector(`question:${'*a'.repeat(400)}*b`, { ...facts, question })).toBe(false);
  });
});

test('a symbol is selected if any selector of include, or none at all, matches it, and none of exclude', () => {
  const selected = (include: string[], exclude: string[]) => isSelectedByRules(facts, { include, exclude });
  expect(selected([], [])).toBe(true);
  expect(selected(['venue:polymarket', 'category:crypto'], [])).toBe(true);
  expect(selected(['venue:polymarket'], [])).toBe(false);
  expect(selected([], ['symbol:KXETH*'])).toBe(true);
  expect(selected([], ['symbol:KXETH*', 'symbol:KXBTC*'])).toBe(false);
  expect(selected(['venue:kalshi'], ['category:crypto'])).toBe(false);
  expect(selected(['venue:kalshi'], ['category:sports'])).toBe(true);
});

test.each([
  ['venu:kalshi', 'venue:kalshi'],
  ['source:kalshi', 'venue:kalshi'],
  ['Ticker: KXBTC*', 'symbol:KXBTC*'],
  ['KXBTC*', 'symbol:KXBTC*'],
  ['alpha:KXBTC*', 'symbol:alpha:KXBTC*'],
  [{ venue: 'kalshi' }, 'venue:kalshi'],
  ['venue:', null],
  ['', null],
  [7, null],
  [['venue:kalshi'], null],
])('for %j, which is no selector, the suggestion is %j', (value, suggestion) => {
  expect(suggestSelector(value)).toBe(suggestion);
  if (suggestion !== null) expect(suggestion).toMatch(new RegExp(selectorPattern, 'u'));
});

test.each([
  ['category:wether', 'category:weather'],
  ['venue:kalsi', 'venue:Kalshi'],
  ['symbol:KXBTCD-26NOV20-B90026', 'symbol:KXBTCD-26NOV20-B90025'],
  ['category:wet*', null],
  ['category:sports', null],
  ['event:weather', null],
  ['nothing', null],
])('%s, which matches no symbol, means %s', (selector, meant) => {
  const symbols = [facts, { ...facts, category: 'weather', source: null }];
  expect(suggestExistingSelector(selector, symbols)).toBe(meant);
});
