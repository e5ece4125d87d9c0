import { expect, test } from 'vitest';
import { isSymbolName } from '../../src/base/symbol-name.ts';

test.each(['A', ' ', 'KXBTC-26 "x"', 'É😀', 'A\ufeff', '\ufffd'])('%j is a valid symbol', (text) => {
  expect(isSymbolName(text)).toBe(true);
});

test.each(['', '\0', 'A\0B', '\ufeffA', 'A\ud83d', '\ude00A'])('%j is not a valid symbol', (text) => {
  expect(isSymbolName(text)).toBe(false);
});
