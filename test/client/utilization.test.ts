import { expect, test } from 'vitest';
import { createUtilizationMeter, RateLimiter } from '../../src/client/limiter.ts';
import { createVirtualClock } from './virtual-clock.ts';

const noPause = Number.NEGATIVE_INFINITY;

test('compares requests started with requests allowed while there were tasks', () => {
  const meter = createUtilizationMeter();
  expect(meter.computeShare()).toBe(0);
  meter.note(0, 5, 1, noPause);
  for (let n = 0; n < 26; n++) meter.noteStart();
  // Ten seconds at 5 per second allow 50, plus one immediately.
  meter.note(10_000, 5, 0, noPause);
  expect(meter.computeShare()).toBeCloseTo(26 / 51, 9);
  // No tasks for an hour, then ten seconds at 1 per second.
  meter.note(3_610_000, 1, 1, noPause);
  meter.note(3_620_000, 1, 1, noPause);
  expect(meter.computeShare()).toBeCloseTo(26 / 61, 9);
});

test('does not count a pause as allowed', () => {
  const meter = createUtilizationMeter();
  meter.note(0, 10, 1, noPause);
  for (let n = 0; n < 11; n++) meter.noteStart();
  meter.note(1000, 10, 1, 61_000);
  meter.note(61_000, 10, 1, 61_000);
  expect(meter.computeShare()).toBe(1);
});

test('a limiter with fast tasks uses its full rate, and one with slow tasks does not', async () => {
  for (const [tookMs, shareMin, shareMax] of [
    [10, 0.97, 1],
    [1000, 0.15, 0.25],
  ] as const) {
    const clock = createVirtualClock();
    const limiter = new RateLimiter({ requestsPerSecond: 10, concurrency: 2, pauseMsMax: 60_000 }, clock);
    const { signal } = new AbortController();
    const all = Array.from({ length: 40 }, () =>
      limiter.run(
        async (permit) => {
          permit.noteResponse();
          await clock.sleep(tookMs);
        },
        { priority: 0, signal },
      ),
    );
    await clock.pass(30_000);
    await Promise.all(all);
    expect(limiter.getUse().usedShare).toBeGreaterThanOrEqual(shareMin);
    expect(limiter.getUse().usedShare).toBeLessThanOrEqual(shareMax);
    expect(limiter.getUse().allowedPerSecond).toBe(10);
    expect(limiter.getUse().heldBackMs).toBe(0);
    limiter.pause(5000);
    expect(limiter.getUse().heldBackMs).toBe(5000);
  }
});
