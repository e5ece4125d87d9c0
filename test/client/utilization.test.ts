import { expect, test } from 'vitest';
import { createRateLimiter, createUtilizationMeter } from '../../src/client/limiter.ts';
import { createVirtualClock } from './virtual-clock.ts';

const never = Number.NEGATIVE_INFINITY;

test('by hand: what was started beside what would have been allowed while something was wanted', () => {
  const use = createUtilizationMeter();
  expect(use.computeShare()).toBe(0);
  use.note(0, 5, 1, never);
  for (let n = 0; n < 26; n++) use.noteStart();
  // Ten seconds at 5 a second allow 50, and one at once.
  use.note(10_000, 5, 0, never);
  expect(use.computeShare()).toBeCloseTo(26 / 51, 9);
  // Nothing is wanted for an hour, and then ten seconds at 1 a second.
  use.note(3_610_000, 1, 1, never);
  use.note(3_620_000, 1, 1, never);
  expect(use.computeShare()).toBeCloseTo(26 / 61, 9);
});

test('what the service holds back is not allowed', () => {
  const use = createUtilizationMeter();
  use.note(0, 10, 1, never);
  for (let n = 0; n < 11; n++) use.noteStart();
  use.note(1000, 10, 1, 61_000);
  use.note(61_000, 10, 1, 61_000);
  expect(use.computeShare()).toBe(1);
});

test('a limiter whose tasks are always there uses all of its rate, and one whose tasks are slow does not', async () => {
  for (const [tookMs, least, most] of [
    [10, 0.97, 1],
    [1000, 0.15, 0.25],
  ] as const) {
    const clock = createVirtualClock();
    const limiter = createRateLimiter({ requestsPerSecond: 10, concurrency: 2, pauseMsMax: 60_000 }, clock);
    const { signal } = new AbortController();
    const all = Array.from({ length: 40 }, () =>
      limiter.run(
        async (turn) => {
          turn.noteResponse();
          await clock.sleep(tookMs);
        },
        { priority: 0, signal },
      ),
    );
    await clock.pass(30_000);
    await Promise.all(all);
    expect(limiter.usedShare()).toBeGreaterThanOrEqual(least);
    expect(limiter.usedShare()).toBeLessThanOrEqual(most);
    expect(limiter.allowedPerSecond()).toBe(10);
    expect(limiter.remainingPauseMs()).toBe(0);
    limiter.pause(5000);
    expect(limiter.remainingPauseMs()).toBe(5000);
  }
});
