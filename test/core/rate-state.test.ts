import { expect, test } from 'vitest';
import { newPace } from '../../src/core/rate-state.ts';

test('a pace that nobody has kept yet holds nobody up, at whatever moment the clock begins', () => {
  const moments = [newPace.slotMs, newPace.resumeMs, newPace.lowestAtMs, newPace.atMs];
  for (const nowMs of [-1e15, 0, 1e15]) expect(moments.every((ms) => ms < nowMs)).toBe(true);
  expect([newPace.count, newPace.answers, newPace.learned]).toEqual([0, 0, null]);
  expect(Math.min(newPace.leastMs, newPace.lowest)).toBe(Number.POSITIVE_INFINITY);
});
