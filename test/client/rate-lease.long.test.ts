import fc from 'fast-check';
import { expect, test } from 'vitest';
import { createLocalRateStore, initialRateState } from '../../src/base/rate-state.ts';
import { computeLease, leaseMsMax, RateLease } from '../../src/client/rate-lease.ts';
import { createSlidingWindow } from '../../src/client/sliding-window.ts';
import { createSeededRandom } from './seeded.ts';
import { runUsers, type SharedUse, type UserScript } from './shared-users.ts';
import { countMaxWithin } from './sliding.ts';

const lone: UserScript = {
  fromMs: 0,
  toMs: 60_000,
  isKilled: false,
  stops: [],
  idleMs: 0,
  tookMsMax: 2,
  pauses: [],
};

/** Users come, go, pause and are suspended around the same few moments, with more than the ten seconds before a lease between. */
const moment = fc
  .tuple(fc.constantFrom(0, 13_000, 13_000, 28_000, 43_000), fc.integer({ min: -700, max: 1_500 }))
  .map(([atMs, offMs]) => Math.max(0, atMs + offMs));

const script: fc.Arbitrary<UserScript> = fc
  .record({
    moments: fc.uniqueArray(moment, { minLength: 2, maxLength: 2 }),
    isKilled: fc.boolean(),
    stops: fc.array(
      fc.record({
        atMs: moment,
        forMs: fc.oneof(fc.integer({ min: 1, max: 2_000 }), fc.integer({ min: 1, max: 20_000 })),
      }),
      { maxLength: 2 },
    ),
    idleMs: fc.oneof(
      { weight: 6, arbitrary: fc.constant(0) },
      { weight: 1, arbitrary: fc.integer({ min: 0, max: 700 }) },
      { weight: 1, arbitrary: fc.constant(11_000) },
    ),
    tookMsMax: fc.oneof(fc.constant(2), fc.integer({ min: 1, max: 3_000 })),
    pauses: fc.array(fc.record({ atMs: moment, forMs: fc.integer({ min: 1, max: 5_000 }) }), { maxLength: 1 }),
  })
  .map(({ moments, ...rest }) => ({ ...rest, fromMs: Math.min(...moments), toMs: Math.max(...moments) }));

const times = (use: SharedUse): number[] => use.starts.map(({ atMs }) => atMs);

/** Starts of others while a pause is in force that they should know by now. */
function findStartsInPauses({ starts, pauses }: SharedUse) {
  return pauses.flatMap(({ atMs, untilMs, user }) =>
    starts.filter((start) => start.atMs > atMs + (start.user === user ? 0 : leaseMsMax) && start.atMs < untilMs),
  );
}

test('no interleaving of users that come, pause, are suspended and are killed exceeds the rate in any second', () => {
  let [starts, leased] = [0, 0];
  fc.assert(
    fc.property(
      fc.constantFrom(1, 2, 3, 5, 20, 120),
      fc.array(script, { minLength: 1, maxLength: 5 }),
      fc.integer({ min: 1, max: 2 ** 31 - 2 }),
      (rate, scripts, seed) => {
        const random = createSeededRandom(seed);
        const timerLateMs = () => (random() < 0.8 ? 3 : 150) * random();
        const use = runUsers(rate, scripts, random, { timerLateMs });
        expect(countMaxWithin(times(use), 1000)).toBeLessThanOrEqual(rate);
        expect(use.startsMaxAfterKill).toBeLessThanOrEqual(rate);
        expect(findStartsInPauses(use)).toEqual([]);
        starts += use.starts.length;
        leased += use.leasedStarts;
      },
    ),
    { numRuns: 300, endOnFailure: true },
  );
  console.log(`rate lease: ${leased} of ${starts} starts without a transaction`);
  expect(leased / starts).toBeGreaterThan(0.1);
});

const shareOf = (atMs: readonly number[], rate: number): number =>
  (atMs.length - 1) / ((atMs.at(-1)! - atMs[0]!) / 1000) / rate;

test.each([
  [3, 0.4],
  [5, 0.5],
  [20, 0.7],
  [200, 0.7],
  [2000, 0.7],
])('a process that is alone starts as without leases, %i a second, most without a transaction', (rate, leasedMin) => {
  const scripts = [{ ...lone, toMs: rate > 100 ? 8_000 : 60_000 }];
  const use = runUsers(rate, scripts, createSeededRandom(rate));
  const unleased = runUsers(rate, scripts, createSeededRandom(rate), { canLease: false });
  expect(unleased.leasedStarts).toBe(0);
  expect(times(use)).toEqual(times(unleased));
  expect(shareOf(times(use), rate)).toBeGreaterThan(0.95);
  expect(use.leasedStarts / use.starts.length).toBeGreaterThan(leasedMin);
});

test('another that comes by waits for the lease, and both then share the rate', () => {
  for (let fromMs = 20_000; fromMs < 20_700; fromMs += 50) {
    const { starts } = runUsers(5, [lone, { ...lone, fromMs, toMs: 40_000 }], createSeededRandom(fromMs));
    const [first, ...rest] = starts.filter(({ user }) => user === 1);
    // After the lease, the next slots go to the timer that fires first.
    expect(first!.atMs - fromMs).toBeLessThan(leaseMsMax + 2_000);
    expect(rest.length).toBeGreaterThan(20);
    expect(
      shareOf(
        starts.map(({ atMs }) => atMs),
        5,
      ),
    ).toBeGreaterThan(0.95);
  }
});

test.each([5, 20, 200])('a killed process loses no more than a second and a half of the rate, %i a second', (rate) => {
  for (let toMs = 12_000; toMs < 12_700; toMs += 13) {
    const scripts = [
      { ...lone, toMs, isKilled: true },
      { ...lone, fromMs: toMs + 1, toMs: 20_000 },
    ];
    const { starts } = runUsers(rate, scripts, createSeededRandom(toMs));
    const lost = 19 * rate - starts.filter(({ atMs }) => atMs >= 1_000).length;
    expect(lost).toBeLessThanOrEqual(1.5 * rate);
  }
});

test('a process that is suspended for longer than its lease uses none of it', () => {
  for (let atMs = 12_000; atMs < 12_600; atMs += 7) {
    const scripts = [
      { ...lone, toMs: 30_000, stops: [{ atMs, forMs: 3_000 }] },
      { ...lone, fromMs: atMs + 1, toMs: 30_000 },
    ];
    const { starts } = runUsers(20, scripts, createSeededRandom(atMs));
    expect(
      countMaxWithin(
        starts.map((start) => start.atMs),
        1000,
      ),
    ).toBeLessThanOrEqual(20);
    // No burst of slots that have passed.
    expect(
      starts.filter((start) => start.atMs >= atMs + 3_000 && start.atMs < atMs + 3_100).length,
    ).toBeLessThanOrEqual(4);
  }
});

test('a lease is used up by the requests that it reserves', () => {
  let nowMs = 0;
  let transactions = 0;
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs, sleep: () => Promise.resolve() };
  const memory = createLocalRateStore();
  const runExclusive = <T>(work: () => T): T => {
    transactions++;
    return work();
  };
  const lease = new RateLease({ ...memory, runExclusive }, clock, () => 5);
  const own = createSlidingWindow(() => 5, lease);
  for (; memory.read().reservedUntilMs < nowMs; nowMs += 200) lease.runStart((now) => own.start(now));
  const before = transactions;
  const counts = [1, 2, 3].map(() => {
    lease.runStart((now) => own.start(now));
    return transactions - before;
  });
  expect(counts).toEqual([0, 0, 1]);
});

test('the requests of a lease count as started at its end for all others', () => {
  let nowMs = 0;
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs, sleep: () => Promise.resolve() };
  const memory = createLocalRateStore();
  const lease = new RateLease(memory, clock, () => 5);
  const own = createSlidingWindow(() => 5, lease);
  for (; memory.read().reservedUntilMs < nowMs; nowMs += 200)
    lease.runStart((now) => own.noteResponse(own.start(now), now + 1));
  const { reservedFrom, reservedUntilMs, count } = memory.read();
  expect(count - reservedFrom).toBe(2);
  expect(reservedUntilMs).toBe(nowMs - 200 + leaseMsMax);
  const others = createSlidingWindow(() => 5, memory);
  const starts = Array.from({ length: 5 }, () => {
    const atMs = others.computeEarliestMs(nowMs);
    others.start(atMs);
    return atMs - reservedUntilMs;
  });
  expect(starts.slice(0, 3)).toEqual([200, 400, 600]);
  expect(starts[3]).toBeGreaterThan(1000);
});

test('the starts of a lease are stored when it is returned to another that waits', () => {
  let nowMs = 0;
  const clock = { nowMs: () => nowMs, monotonicMs: () => nowMs, sleep: () => Promise.resolve() };
  const memory = createLocalRateStore();
  const [lease, other] = [new RateLease(memory, clock, () => 20), new RateLease(memory, clock, () => 20)];
  const own = createSlidingWindow(() => 20, lease);
  const starts = new Map<number, number>();
  const start = (): void => void lease.runStart((now) => starts.set(own.start(now), now));
  for (; memory.read().reservedUntilMs < nowMs; nowMs += 50) start();
  const { reservedFrom } = memory.read();
  start();
  nowMs += 50;
  start();
  expect(memory.getStart(reservedFrom)).toBeUndefined();
  // It waits, and starts nothing.
  other.runStart(() => {});
  nowMs += leaseMsMax;
  start();
  const stored = [0, 1, 2].map((n) => memory.getStart(reservedFrom + n)?.atMs);
  expect(stored).toEqual([0, 1, 2].map((n) => starts.get(reservedFrom + n)));
  expect(stored).not.toContain(undefined);
  expect(memory.read()).toMatchObject({ count: reservedFrom + 3, reservedUntilMs: Number.NEGATIVE_INFINITY });
});

test('no lease is taken while another uses the rate, the rate is throttled, or it is used rarely', () => {
  const use = { othersAtMs: 0, busyFromMs: 0 };
  const lease = { end: 2, untilMs: 20_000 + leaseMsMax };
  expect(computeLease(initialRateState, 5, use, 20_000)).toEqual(lease);
  expect(computeLease(initialRateState, 5, { ...use, othersAtMs: 10_001 }, 20_000)).toBeNull();
  expect(computeLease(initialRateState, 5, { ...use, busyFromMs: 19_001 }, 20_000)).toBeNull();
  expect(computeLease(initialRateState, 1, use, 20_000)).toBeNull();
  for (const state of [{ inferred: '{}' }, { resumeMs: 20_001 }, { reservedUntilMs: 10_001 }])
    expect(computeLease({ ...initialRateState, ...state }, 5, use, 20_000)).toBeNull();
});
