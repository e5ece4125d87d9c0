import { expect, test } from 'vitest';
import { isName } from '../../src/core/symbol-name.ts';

test.each(['A', ' ', 'KXBTC-26 "x"', 'É😀', 'A\ufeff', '\ufffd'])('%j can name a market', (text) => {
  expect(isName(text)).toBe(true);
});

test.each(['', '\0', 'A\0B', '\ufeffA', 'A\ud83d', '\ude00A'])('%j cannot name a market', (text) => {
  expect(isName(text)).toBe(false);
});
