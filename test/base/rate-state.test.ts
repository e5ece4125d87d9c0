import { expect, test } from 'vitest';
import { initialRateState } from '../../src/base/rate-state.ts';

test('an initial state delays no request, at any time of the clock', () => {
  const moments = [
    initialRateState.slotMs,
    initialRateState.resumeMs,
    initialRateState.configuredMinAtMs,
    initialRateState.writtenAtMs,
  ];
  for (const nowMs of [-1e15, 0, 1e15]) expect(moments.every((ms) => ms < nowMs)).toBe(true);
  expect([initialRateState.count, initialRateState.responses, initialRateState.inferred]).toEqual([0, 0, null]);
  expect(Math.min(initialRateState.latencyMsMin, initialRateState.configuredMin)).toBe(Number.POSITIVE_INFINITY);
});
