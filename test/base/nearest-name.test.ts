import { expect, test } from 'vitest';
import { findNearestName, suggestName } from '../../src/base/nearest-name.ts';

const known = ['ticks', 'trades', 'quotes', 'orderbooks', 'poll.page_limit', 'archive.parts'];

test.each([
  ['tick', 'ticks'],
  ['tciks', 'ticks'],
  ['ordrebooks', 'orderbooks'],
  ['Trades', 'trades'],
  ['pageLimit', 'poll.page_limit'],
  ['poll.parts', 'archive.parts'],
])('%s resembles %s', (given, meant) => {
  expect(findNearestName(given, known)).toBe(meant);
});

test.each(['', 'a', 'candles', 'weather', 'x'.repeat(10_000), '<script>', '__proto__'])(
  'nothing resembles %j',
  (given) => {
    expect(findNearestName(given, known)).toBeUndefined();
    expect(suggestName(given, known)).toBe('');
  },
);

test('the nearest of several is suggested, the first of equally near ones', () => {
  expect(findNearestName('ABC-3', ['ABC-1', 'ABC-2', 'ABC-33'])).toBe('ABC-1');
  expect(findNearestName('KXBTC-26DCE0204', ['KXBTC-26DEC0205', 'KXBTC-26DEC0204'])).toBe('KXBTC-26DEC0204');
});
