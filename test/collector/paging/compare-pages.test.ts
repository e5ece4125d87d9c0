import { expect, test } from 'vitest';
import { hasTickBeyond } from '../../../src/collector/paging/fetch-side.ts';

const page = (...times: number[]) => Float64Array.from(times);

test.each([
  ['a tick after it', [1, 2, 3], 2, 'high', 9, true],
  ['a tick before it', [1, 2, 3], 2, 'low', 9, true],
  ['only the tick itself', [1, 2], 2, 'high', 9, false],
  ['only the tick itself', [2, 3], 2, 'low', 9, false],
  ['only ticks that followed the page', [2, 5, 6], 2, 'high', 5, false],
  ['a tick before those that followed the page', [2, 4, 6], 2, 'high', 5, true],
  ['no tick', [], 2, 'high', 9, false],
] as const)('the page has %s: %j beyond %d, at the %s side, before %d', (_, times, tick, side, before, isThere) => {
  expect(hasTickBeyond(page(...times), tick, side, before)).toBe(isThere);
});
