import fc from 'fast-check';
import { expect, test } from 'vitest';
import { findFirstAtOrAfter, seek } from '../../../src/archive/format/tick-columns.ts';

test('the first value that is not before a moment is found where looking at all of them finds it', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20), { maxLength: 12 }), fc.integer({ min: -1, max: 21 }), (values, moment) => {
      const sorted = Float64Array.from(values).sort();
      const found = sorted.findIndex((value) => value >= moment);
      expect(findFirstAtOrAfter(sorted, moment)).toBe(found < 0 ? sorted.length : found);
    }),
    { numRuns: 500 },
  );
});

test('so it is from a place on, up to another one', () => {
  const places = fc.array(fc.nat(200), { minLength: 2, maxLength: 200 }).chain((values) =>
    fc.record({
      sorted: fc.constant(Float64Array.from(values).sort()),
      from: fc.nat(values.length),
      to: fc.nat(values.length),
      moment: fc.integer({ min: -1, max: 201 }),
    }),
  );
  fc.assert(
    fc.property(places, ({ sorted, from: a, to: b, moment }) => {
      const [from, to] = [Math.min(a, b), Math.max(a, b)];
      const found = sorted.findIndex((value, i) => i >= from && i < to && value >= moment);
      expect(seek(sorted, from, to, moment)).toBe(found < 0 ? to : found);
    }),
    { numRuns: 1000 },
  );
});
