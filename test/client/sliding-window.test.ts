import { expect, test } from 'vitest';
import { checkRate, createSlidingWindow } from '../../src/client/sliding-window.ts';
import { createSeededRandom } from './seeded.ts';
import { countMaxWithin } from './sliding.ts';

interface Way {
  /** Time until the request arrives, and from there until its headers are received, in ms. */
  readonly there: number;
  readonly back: number;
}

/** Starts requests as early as the window allows, on a virtual clock with late timers. Returns the arrivals at the service. */
function arrivals(rate: number, requests: number, way: (index: number) => Way, timerLateMs: () => number): number[] {
  const slidingWindow = createSlidingWindow(() => rate);
  const arrived: number[] = [];
  let inFlight: { request: number; at: number }[] = [];
  let now = 0;
  while (arrived.length < requests) {
    const next = slidingWindow.computeEarliestMs(now);
    const response = inFlight.filter(({ at }) => at <= Math.max(now, next)).sort((a, b) => a.at - b.at)[0];
    if (response !== undefined) {
      now = Math.max(now, response.at);
      slidingWindow.noteResponse(response.request, now);
      inFlight = inFlight.filter((each) => each !== response);
    } else if (next <= now) {
      const { there, back } = way(arrived.length);
      inFlight.push({ request: slidingWindow.start(now), at: now + there + back });
      arrived.push(now + there);
    } else now = next + timerLateMs();
  }
  return arrived;
}

const share = (arrived: readonly number[], rate: number) =>
  (arrived.length - 1) / ((arrived.at(-1)! - arrived[0]!) / 1000) / rate;

test.each([1, 5, 20, 200, 1000, 5000])('uses %i per second evenly and never exceeds it', (rate) => {
  const random = createSeededRandom(rate);
  const arrived = arrivals(rate, rate * 5, () => ({ there: 1, back: 1 }), random);
  expect(countMaxWithin(arrived, 1000)).toBeLessThanOrEqual(rate);
  expect(share(arrived, rate)).toBeGreaterThan(0.97);
  // A tenth of a second has its share, plus what late timers leave to catch up.
  expect(countMaxWithin(arrived, 100)).toBeLessThanOrEqual(Math.ceil(rate * 0.115) + 1);
});

test('spaces requests below one per second by the full period', () => {
  const arrived = arrivals(0.25, 10, () => ({ there: 3, back: 3 }), createSeededRandom(1));
  const distances = arrived.slice(1).map((at, index) => at - arrived[index]!);
  expect(Math.min(...distances)).toBeGreaterThanOrEqual(4000);
  expect(Math.max(...distances)).toBeLessThan(4020);
});

test('rounds 2.5 per second down to 2', () => {
  const arrived = arrivals(
    2.5,
    20,
    () => ({ there: 1, back: 1 }),
    () => 0,
  );
  expect(countMaxWithin(arrived, 1000)).toBe(2);
});

test.each([1, 5, 50, 500])('never exceeds %i per second even if one request in ten arrives late', (rate) => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = createSeededRandom(seed * 1000 + rate);
    const jitter = () => (random() < 0.1 ? 200 * random() : 2 * random());
    const arrived = arrivals(
      rate,
      Math.max(60, rate * 3),
      () => ({ there: 20 + jitter(), back: 20 + random() }),
      random,
    );
    expect(countMaxWithin(arrived, 1000), `seed ${seed}`).toBeLessThanOrEqual(rate);
  }
});

test('counts a request without a response as late', () => {
  const slidingWindow = createSlidingWindow(() => 1);
  const request = slidingWindow.start(0);
  expect(slidingWindow.computeEarliestMs(1200)).toBe(1250);
  slidingWindow.noteNoResponse(request, 1210);
  expect(slidingWindow.computeEarliestMs(1210)).toBe(1250);
  const next = slidingWindow.start(1250);
  slidingWindow.noteResponse(next, 1252);
  expect(slidingWindow.computeEarliestMs(1252)).toBe(1250 + 1000 + 2 + 5);
});

test('ignores a late response to an old request', () => {
  const slidingWindow = createSlidingWindow(() => 1);
  const first = slidingWindow.start(0);
  const second = slidingWindow.start(2000);
  slidingWindow.noteResponse(second, 2002);
  slidingWindow.noteResponse(first, 2300);
  expect(slidingWindow.computeEarliestMs(2300)).toBe(3007);
});

test.each([
  ['catches up after a late timer', 9, 9],
  ['does not catch up after an idle time', 500, 1],
])('%s', (_, nowMs, startsAtOnce) => {
  const slidingWindow = createSlidingWindow(() => 1000);
  slidingWindow.start(0);
  let starts = 0;
  while (slidingWindow.computeEarliestMs(nowMs) <= nowMs) {
    slidingWindow.start(nowMs);
    starts++;
  }
  expect(starts).toBe(startsAtOnce);
});

test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 2_000_000])('rejects a rate of %d', (rate) => {
  expect(() => checkRate(rate)).toThrow(RangeError);
});
