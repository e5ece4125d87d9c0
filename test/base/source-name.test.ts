import { expect, test } from 'vitest';
import {
  findSource,
  getSymbolRange,
  isSourceName,
  isSymbolOf,
  qualifySymbol,
  unqualifySymbol,
} from '../../src/base/source-name.ts';
import { compareUtf8 } from '../../src/base/symbol-name.ts';

test('a name has 1 to 32 lower-case letters, digits and dashes', () => {
  for (const name of ['a', 'alpha', 'kalshi-2', '0', 'x'.repeat(32), 'files', 'profile'])
    expect(isSourceName(name)).toBe(true);
  for (const name of ['', 'Alpha', 'a_b', 'a:b', 'a b', 'ä', 'x'.repeat(33), 'a\n'])
    expect(isSourceName(name)).toBe(false);
});

test('a name whose variables would be ambiguous is refused', () => {
  for (const name of ['file', 'file-alpha']) expect(isSourceName(name)).toBe(false);
});

test('the first colon separates, whatever the symbol contains', () => {
  for (const symbol of ['KX', 'a:b', ':', 'alpha:alpha', '\ufeffX']) {
    const qualified = qualifySymbol('alpha', symbol);
    expect(findSource(qualified, ['beta', 'alpha'])).toBe('alpha');
    expect(unqualifySymbol('alpha', qualified)).toBe(symbol);
  }
});

test('only names of sources qualify', () => {
  expect(findSource('KX:1', ['alpha'])).toBeNull();
  expect(findSource('alphaX', ['alpha'])).toBeNull();
  expect(findSource(':X', ['alpha'])).toBeNull();
  expect(isSymbolOf('alpha', 'alphabet:X')).toBe(false);
  expect(() => unqualifySymbol('alpha', 'beta:X')).toThrow('beta:X is not a symbol of the source alpha');
});

test('symbols of an archive of one service are not qualified', () => {
  expect(qualifySymbol(null, 'alpha:X')).toBe('alpha:X');
  expect(unqualifySymbol(null, 'alpha:X')).toBe('alpha:X');
  expect(isSymbolOf(null, 'X')).toBe(true);
});

test('the range of a source has its symbols and no others', () => {
  const { from, to } = getSymbolRange('a');
  const isInside = (symbol: string) => compareUtf8(from, symbol) <= 0 && compareUtf8(symbol, to) < 0;
  expect(['a:', 'a:X', 'a:\u{10ffff}', 'a:~'].every(isInside)).toBe(true);
  expect(['a', 'a-b:X', 'ab:X', 'a;', 'b:X', 'a0:X'].some(isInside)).toBe(false);
});
