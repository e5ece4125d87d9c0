import { expect, test } from 'vitest';
import { checkRate, createSlidingWindow } from '../../src/client/sliding-window.ts';
import { seeded } from './seeded.ts';
import { mostWithin } from './sliding.ts';

interface Way {
  /** Until the request arrives, and from there until its headers are back; milliseconds. */
  readonly there: number;
  readonly back: number;
}

/** Starts requests as early as the pacer allows, on a virtual clock with late timers; arrivals at the service. */
function arrivals(rate: number, requests: number, way: (index: number) => Way, timerLateMs: () => number): number[] {
  const pacer = createSlidingWindow(() => rate);
  const arrived: number[] = [];
  let underWay: { request: number; at: number }[] = [];
  let now = 0;
  while (arrived.length < requests) {
    const next = pacer.computeEarliestMs(now);
    const answered = underWay.filter(({ at }) => at <= Math.max(now, next)).sort((a, b) => a.at - b.at)[0];
    if (answered !== undefined) {
      now = Math.max(now, answered.at);
      pacer.noteResponse(answered.request, now);
      underWay = underWay.filter((each) => each !== answered);
    } else if (next <= now) {
      const { there, back } = way(arrived.length);
      underWay.push({ request: pacer.start(now), at: now + there + back });
      arrived.push(now + there);
    } else now = next + timerLateMs();
  }
  return arrived;
}

const share = (arrived: readonly number[], rate: number) =>
  (arrived.length - 1) / ((arrived.at(-1)! - arrived[0]!) / 1000) / rate;

test.each([1, 5, 20, 200, 1000, 5000])('uses %i a second evenly and never exceeds it', (rate) => {
  const random = seeded(rate);
  const arrived = arrivals(rate, rate * 5, () => ({ there: 1, back: 1 }), random);
  expect(mostWithin(arrived, 1000)).toBeLessThanOrEqual(rate);
  expect(share(arrived, rate)).toBeGreaterThan(0.97);
  // Evenly: a tenth of a second holds its share and what late timers leave to catch up.
  expect(mostWithin(arrived, 100)).toBeLessThanOrEqual(Math.ceil(rate * 0.115) + 1);
});

test('spaces requests below one a second by the whole period', () => {
  const arrived = arrivals(0.25, 10, () => ({ there: 3, back: 3 }), seeded(1));
  const distances = arrived.slice(1).map((at, index) => at - arrived[index]!);
  expect(Math.min(...distances)).toBeGreaterThanOrEqual(4000);
  expect(Math.max(...distances)).toBeLessThan(4020);
});

test('takes 2.5 a second for 2', () => {
  const arrived = arrivals(
    2.5,
    20,
    () => ({ there: 1, back: 1 }),
    () => 0,
  );
  expect(mostWithin(arrived, 1000)).toBe(2);
});

test.each([1, 5, 50, 500])('keeps to %i a second though one request in ten arrives late', (rate) => {
  for (let seed = 1; seed <= 20; seed++) {
    const random = seeded(seed * 1000 + rate);
    const jitter = () => (random() < 0.1 ? 200 * random() : 2 * random());
    const arrived = arrivals(
      rate,
      Math.max(60, rate * 3),
      () => ({ there: 20 + jitter(), back: 20 + random() }),
      random,
    );
    expect(mostWithin(arrived, 1000), `seed ${seed}`).toBeLessThanOrEqual(rate);
  }
});

test('counts a request without an answer as late', () => {
  const pacer = createSlidingWindow(() => 1);
  const request = pacer.start(0);
  expect(pacer.computeEarliestMs(1200)).toBe(1250);
  pacer.noteNoResponse(request, 1210);
  expect(pacer.computeEarliestMs(1210)).toBe(1250);
  const next = pacer.start(1250);
  pacer.noteResponse(next, 1252);
  expect(pacer.computeEarliestMs(1252)).toBe(1250 + 1000 + 2 + 5);
});

test('ignores the answer to a request that the window has forgotten', () => {
  const pacer = createSlidingWindow(() => 1);
  const first = pacer.start(0);
  const second = pacer.start(2000);
  pacer.noteResponse(second, 2002);
  pacer.noteResponse(first, 2300);
  expect(pacer.computeEarliestMs(2300)).toBe(3007);
});

test.each([
  ['catches up a late timer', 9, 9],
  ['does not catch up a silence', 500, 1],
])('%s', (_, nowMs, startsAtOnce) => {
  const pacer = createSlidingWindow(() => 1000);
  pacer.start(0);
  let starts = 0;
  while (pacer.computeEarliestMs(nowMs) <= nowMs) {
    pacer.start(nowMs);
    starts++;
  }
  expect(starts).toBe(startsAtOnce);
});

test.each([0, -1, Number.NaN, Number.POSITIVE_INFINITY, 2_000_000])('refuses a rate of %d', (rate) => {
  expect(() => checkRate(rate)).toThrow(RangeError);
});
