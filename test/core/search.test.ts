import fc from 'fast-check';
import { expect, test } from 'vitest';
import { firstAtOrAfter } from '../../src/core/search.ts';

test('the first value that is not before a moment is found where looking at all of them finds it', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20), { maxLength: 12 }), fc.integer({ min: -1, max: 21 }), (values, moment) => {
      const sorted = Float64Array.from(values).sort();
      const found = sorted.findIndex((value) => value >= moment);
      expect(firstAtOrAfter(sorted, moment)).toBe(found < 0 ? sorted.length : found);
    }),
    { numRuns: 500 },
  );
});
