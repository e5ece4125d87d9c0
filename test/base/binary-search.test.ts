import fc from 'fast-check';
import { expect, test } from 'vitest';
import { findFirstAtOrAfter, findFirstIndex, seek } from '../../src/base/binary-search.ts';
import { checkProperty } from '../harness/properties.ts';

test('finds the same first value at or after a moment as a linear scan', () => {
  checkProperty([fc.array(fc.nat(20), { maxLength: 12 }), fc.integer({ min: -1, max: 21 })], 500, (values, time) => {
    const sorted = Float64Array.from(values).sort();
    const index = sorted.findIndex((value) => value >= time);
    expect(findFirstAtOrAfter(sorted, time)).toBe(index < 0 ? sorted.length : index);
  });
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
  checkProperty([places], 1000, ({ sorted, from: a, to: b, moment: time }) => {
    const [from, to] = [Math.min(a, b), Math.max(a, b)];
    const index = sorted.findIndex((value, i) => i >= from && i < to && value >= time);
    expect([
      seek(sorted, from, to, time),
      findFirstAtOrAfter(sorted, time, from, to),
      findFirstIndex(from, to, (i) => sorted[i]! >= time),
    ]).toEqual(Array(3).fill(index < 0 ? to : index));
  });
});

test('finds an index beyond 32 bits', () => {
  const from = 1_780_272_000_000;
  for (const at of [from, from + 1, from + 1_234_567_890, from + 3_000_000_000])
    expect(findFirstIndex(from, from + 3_000_000_000, (ms) => ms >= at)).toBe(at);
});
