import { expect, test } from 'vitest';
import { measureCoveredShare } from '../../../src/collector/run/covered-share.ts';

const planOf = (symbol: string, ...windows: [number, number][]) => ({
  symbol,
  windows: windows.map(([from, to]) => ({ from, to })),
  isFirst: false,
});

test('moves with each page of a long window, and counts nothing twice or outside of the plan', () => {
  const covered = measureCoveredShare([planOf('A', [0, 600]), planOf('B', [0, 100], [200, 500])]);
  expect(covered.share()).toBe(0);
  covered.noteCovered('A', [{ from: -50, to: 100 }]);
  // Half by the time, 100 of 1000, half by the symbols, 1/6 of 2.
  expect(covered.share()).toBeCloseTo((0.1 + 1 / 12) / 2, 10);
  covered.noteCovered('A', [{ from: 50, to: 200 }]);
  covered.noteCovered('A', [{ from: 50, to: 200 }]);
  covered.noteCovered('other', [{ from: 0, to: 1000 }]);
  expect(covered.share()).toBeCloseTo((0.2 + 2 / 12) / 2, 10);
  covered.noteCovered('B', [{ from: 50, to: 250 }]);
  expect(covered.share()).toBeCloseTo((0.3 + 2 / 12 + 1 / 8) / 2, 10);
});

test('counts a finished symbol whole, whatever was covered', () => {
  const covered = measureCoveredShare([planOf('A', [0, 600]), planOf('B', [0, 400])]);
  covered.noteCovered('A', [{ from: 0, to: 300 }]);
  covered.noteDone('A');
  covered.noteCovered('A', [{ from: 0, to: 600 }]);
  covered.noteDone('A');
  expect(covered.share()).toBe((0.6 + 0.5) / 2);
  covered.noteDone('B');
  expect(covered.share()).toBe(1);
  expect(measureCoveredShare([]).share()).toBe(1);
});

test('a run that starts with young symbols is not counted by their short windows alone', () => {
  const covered = measureCoveredShare([planOf('young', [0, 10]), planOf('older', [0, 990])]);
  covered.noteDone('young');
  expect(covered.share()).toBeCloseTo(0.255, 10);
});
