import { describe, expect, test } from 'vitest';
import { measureLateness } from '../../src/archive/publish/late-ticks.ts';

const part = (times: readonly number[]) => ({
  symbols: ['A'],
  offsets: Float64Array.of(0, times.length),
  t: Float64Array.from(times),
  p: new Float64Array(times.length),
});
const claimed = new Map([
  [
    'A',
    [
      { from: 0, to: 100, fetchedAt: 100 },
      { from: 60, to: 80, fetchedAt: 200 },
      { from: 300, to: 400, fetchedAt: 400 },
    ],
  ],
]);
const late = (old: readonly number[], now: readonly number[], withinMs = 1000) =>
  measureLateness(claimed, new Map([['A', now.length - old.length]]), { old: part(old), columns: part(now) }, withinMs);

describe('late ticks', () => {
  test('are new ones whose moment had been covered', () => {
    expect(late([10, 50], [5, 10, 50, 99, 350])).toBe(95);
  });

  test('are not those of a gap, however old, nor those at the end of a window', () => {
    expect(late([10], [10, 100, 200, 299, 400, 500])).toBe(0);
  });

  test('are as late as the latest response that did not bring them, at least', () => {
    expect(late([10], [10, 70])).toBe(130);
  });

  test('are measured in the overlap alone', () => {
    expect(late([10], [10, 20, 95], 50)).toBe(5);
  });

  test('are none where nothing had been covered', () => {
    const columns = { old: part([]), columns: part([5]) };
    expect(measureLateness(new Map(), new Map([['A', 1]]), columns, 1000)).toBe(0);
  });
});
