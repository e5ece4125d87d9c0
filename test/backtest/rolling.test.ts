import fc from 'fast-check';
import { expect, test } from 'vitest';
import { computeRollingColumn, createRollingWindow } from '../../src/backtest/engine/rolling-window.ts';
import { checkProperty } from '../harness/properties.ts';

/** Direct computation for one tick. A mean of differences has less rounding error than a mean of prices. */
function directly(t: Float64Array, p: Float64Array, windowMs: number, i: number) {
  const inside = [...p.subarray(0, i + 1)].filter((_, k) => t[k]! > t[i]! - windowMs);
  const base = inside[0]!;
  const mean = base + inside.reduce((sum, price) => sum + (price - base), 0) / inside.length;
  const variance = inside.reduce((sum, price) => sum + (price - mean) ** 2, 0) / inside.length;
  return { mean, deviation: Math.sqrt(variance), full: t[0]! <= t[i]! - windowMs };
}

/** Values at the given ticks; other ticks are skipped. */
function expectDirect(t: Float64Array, p: Float64Array, windowMs: number, isRead: (i: number) => boolean): void {
  const window = createRollingWindow(t, p, windowMs);
  for (let i = 0; i < t.length; i++) {
    if (!isRead(i)) continue;
    window.advanceTo(i);
    const { mean, deviation, full } = directly(t, p, windowMs, i);
    expect(window.isFull(), `full at ${i}`).toBe(full);
    expect(Math.abs(window.getDeviation() - deviation), `deviation at ${i}`).toBeLessThan(1e-12 + 1e-8 * deviation);
    expect(Math.abs(window.getMean() - mean), `mean at ${i}`).toBeLessThan(1e-13);
  }
}

const prices = fc.array(
  fc.oneof(
    fc.integer({ min: 0, max: 1_000_000 }).map((n) => n / 1e6),
    fc.constantFrom(0.1, 0.1, 0.1, 0.9),
    // Close to each other, far from the others.
    fc.integer({ min: 0, max: 9 }).map((n) => 0.7 + n * 1e-9),
  ),
  { minLength: 1, maxLength: 80, size: 'max' },
);

test('computes mean and deviation of the window', () => {
  checkProperty(
    [
      prices,
      fc.infiniteStream(fc.integer({ min: 1, max: 30 })),
      fc.integer({ min: 1, max: 200 }),
      fc.infiniteStream(fc.boolean()),
    ],
    500,
    (values, steps, windowMs, isRead) => {
      let time = 0;
      const t = Float64Array.from(values, () => {
        time += steps.next().value!;
        return time;
      });
      expectDirect(t, Float64Array.from(values), windowMs, () => isRead.next().value!);
    },
  );
});

test('equal prices give an exact mean and deviation 0', () => {
  const p = Float64Array.from({ length: 5000 }, (_, i) => (i < 1000 ? ((i * 7919) % 1000) / 1000 : 0.1 + 0.2));
  const t = Float64Array.from(p, (_, i) => i);
  const window = createRollingWindow(t, p, 100);
  for (let i = 0; i < p.length; i++) {
    window.advanceTo(i);
    if (i < 1099) continue;
    expect(window.getDeviation()).toBe(0);
    expect(window.getMean()).toBe(0.1 + 0.2);
  }
});

test('keeps small deviations in a long series with jumps', () => {
  let level = 0.5;
  const p = Float64Array.from({ length: 3000 }, (_, i) => {
    if (i % 300 === 0) level = 0.05 + ((i * 7) % 900) / 1000;
    // Occasional outliers of a single tick.
    return i % 127 === 0 ? 1 : level + ((i * 7919) % 11) * 1e-8;
  });
  const t = Float64Array.from(p, (_, i) => i * 60_000);
  for (const ticks of [2, 7, 50, 200]) expectDirect(t, p, ticks * 60_000, (i) => i % 3 !== 0);
});

test('recomputes a window that was skipped', () => {
  const t = Float64Array.of(0, 1, 2, 1000, 1001, 1002);
  const p = Float64Array.of(0.9, 0.8, 0.7, 0.1, 0.2, 0.3);
  const window = createRollingWindow(t, p, 10);
  window.advanceTo(1);
  window.advanceTo(5);
  expect(window.getMean()).toBeCloseTo(0.2, 14);
  expect(window.getDeviation()).toBeCloseTo(Math.sqrt(2 / 300), 14);
  expect(window.isFull()).toBe(true);
});

test('a column has the numbers of a window that is advanced tick by tick, to the last bit', () => {
  checkProperty(
    [
      fc.array(
        fc.record({
          gap: fc.oneof(fc.integer({ min: 1, max: 5 }), fc.integer({ min: 1, max: 5000 })),
          price: fc.oneof(
            fc.constantFrom(0, 0.5, 1, 0.1 + 0.2, -1, 1e6, Number.NaN),
            fc.double({ min: 0, max: 1, noNaN: true }),
            fc.double({ min: 0.5, max: 0.5 + 1e-9, noNaN: true }),
          ),
          times: fc.constantFrom(1, 1, 3, 40),
        }),
        { maxLength: 300 },
      ),
      fc.oneof(fc.integer({ min: 1, max: 30 }), fc.integer({ min: 1, max: 20_000 })),
    ],
    300,
    (steps, windowMs) => {
      const t: number[] = [];
      const p: number[] = [];
      let at = 0;
      for (const { gap, price, times } of steps)
        for (let k = 0; k < times; k++) {
          at += gap;
          t.push(at);
          p.push(price);
        }
      const [times, prices] = [Float64Array.from(t), Float64Array.from(p)];
      const [means, scores] = (['moving_average', 'z_score'] as const).map((measure) =>
        computeRollingColumn(times, prices, windowMs, measure),
      );
      const [ofMeans, ofScores] = [0, 1].map(() => createRollingWindow(times, prices, windowMs));
      for (let i = 0; i < t.length; i++) {
        ofMeans!.advanceTo(i);
        ofScores!.advanceTo(i);
        const isFull = ofMeans!.isFull();
        const deviation = isFull ? ofScores!.getDeviation() : 0;
        const score = deviation > 0 ? (prices[i]! - ofScores!.getMean()) / deviation : Number.NaN;
        expect(Object.is(means![i], isFull ? ofMeans!.getMean() : Number.NaN), `mean at ${i}`).toBe(true);
        expect(Object.is(scores![i], score), `z-score at ${i}`).toBe(true);
      }
    },
  );
});
