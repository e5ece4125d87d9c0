import { expect, test } from 'vitest';
import { isUnknownSymbolError } from '../../../src/collector/paging/collect-ticks.ts';

const printed = (status: number | undefined, reason = '') => isUnknownSymbolError({ status, reason } as never, 'KX-1');

test('404, 410 and a 400 that names the symbol mean that it is unknown', () => {
  expect([printed(404), printed(410)]).toEqual([true, true]);
  expect(printed(400, 'HTTP 400 ("no market KX-1 here")')).toBe(true);
  expect(isUnknownSymbolError({ status: 400, reason: 'HTTP 400 ("no such symbol: A\\"B")' } as never, 'A"B')).toBe(
    true,
  );
});

test('a 400 without the symbol as a word says nothing about it', () => {
  expect(printed(400, 'HTTP 400 ("limit is too large")')).toBe(false);
  expect(printed(400, 'HTTP 400 ("bad symbol KX-12")')).toBe(false);
  expect(isUnknownSymbolError({ status: 400, reason: 'HTTP 400 ("window too long")' } as never, 'w')).toBe(false);
});

test.each([undefined, 403, 408, 422, 429, 500, 502, 503])('%s says nothing about a symbol', (status) => {
  expect(printed(status, 'answered so ("KX-1 is not known")')).toBe(false);
});
