import fc from 'fast-check';
import { expect, test } from 'vitest';
import { findFirstAtOrAfter, seek } from '../../../src/archive/format/tick-columns.ts';

test('finds the same first value at or after a moment as a linear scan', () => {
  fc.assert(
    fc.property(fc.array(fc.nat(20), { maxLength: 12 }), fc.integer({ min: -1, max: 21 }), (values, time) => {
      const sorted = Float64Array.from(values).sort();
      const index = sorted.findIndex((value) => value >= time);
      expect(findFirstAtOrAfter(sorted, time)).toBe(index < 0 ? sorted.length : index);
    }),
    { numRuns: 500 },
  );
});

test('does so inside a range too', () => {
  const places = fc.array(fc.nat(200), { minLength: 2, maxLength: 200 }).chain((values) =>
    fc.record({
      sorted: fc.constant(Float64Array.from(values).sort()),
      from: fc.nat(values.length),
      to: fc.nat(values.length),
      moment: fc.integer({ min: -1, max: 201 }),
    }),
  );
  fc.assert(
    fc.property(places, ({ sorted, from: a, to: b, moment: time }) => {
      const [from, to] = [Math.min(a, b), Math.max(a, b)];
      const index = sorted.findIndex((value, i) => i >= from && i < to && value >= time);
      expect(seek(sorted, from, to, time)).toBe(index < 0 ? to : index);
    }),
    { numRuns: 1000 },
  );
});
