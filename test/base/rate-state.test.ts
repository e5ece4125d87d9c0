import { expect, test } from 'vitest';
import { initialRateState } from '../../src/base/rate-state.ts';

test('a pace that nobody has kept yet holds nobody up, at whatever moment the clock begins', () => {
  const moments = [
    initialRateState.slotMs,
    initialRateState.resumeMs,
    initialRateState.lowestAtMs,
    initialRateState.atMs,
  ];
  for (const nowMs of [-1e15, 0, 1e15]) expect(moments.every((ms) => ms < nowMs)).toBe(true);
  expect([initialRateState.count, initialRateState.answers, initialRateState.learned]).toEqual([0, 0, null]);
  expect(Math.min(initialRateState.leastMs, initialRateState.lowest)).toBe(Number.POSITIVE_INFINITY);
});
