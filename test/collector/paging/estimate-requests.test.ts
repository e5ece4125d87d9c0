import { describe, expect, test } from 'vitest';
import { dayMs } from '../../../src/base/window.ts';
import {
  computeTickDensity,
  estimateRequests,
  type PlanDensity,
} from '../../../src/collector/paging/estimate-requests.ts';

const always = { from: Number.NEGATIVE_INFINITY, to: Number.POSITIVE_INFINITY };
const week = { from: 0, to: 7 * dayMs };

/** A plan of one window with as many ticks as expected. */
const windowOf = (ticks: number | null): PlanDensity => ({
  plan: { symbol: 'S', windows: [week], isFirst: false },
  ticksPerMs: ticks === null ? null : ticks / (7 * dayMs),
  lifetime: always,
});
const cap = { truncatedPages: 40, truncatedMin: 100, truncatedMax: 100, largestWhole: 90, side: 'earliest' as const };
const server = { known: cap, pageLimit: 5000, omitsTicks: false };

describe('the estimated requests', () => {
  test('are one for a window without ticks, and more for the checks of one with ticks', () => {
    expect(estimateRequests([windowOf(0)], server)).toMatchObject({ requests: 1, ticks: 0, unknownPlans: 0 });
    expect(estimateRequests([windowOf(null)], server)).toMatchObject({ requests: 1, unknownPlans: 1 });
    expect(estimateRequests([windowOf(50)], server).requests).toBeGreaterThanOrEqual(3);
  });

  test('count each page of a long window', () => {
    const [few, many] = [estimateRequests([windowOf(2000)], server), estimateRequests([windowOf(200_000)], server)];
    expect(few.requests).toBeGreaterThanOrEqual(20);
    expect(few.requests).toBeLessThan(26);
    expect(many.requests / 100).toBeGreaterThan(19);
    expect(many.requests / 100).toBeLessThan(22);
  });

  test('carry over fractions of a tick, so that quiet windows have as many as expected', () => {
    const quiet = estimateRequests(
      Array.from({ length: 100 }, () => windowOf(0.25)),
      server,
    );
    expect(quiet.ticks).toBe(25);
    expect(quiet.requests).toBeGreaterThan(100);
  });

  test('are more if the server has left ticks out', () => {
    const plans = [windowOf(60), windowOf(60)];
    const [plain, checked] = [false, true].map((omitsTicks) => estimateRequests(plans, { ...server, omitsTicks }));
    expect(checked!.requests).toBeGreaterThan(plain!.requests);
  });

  test('have one more for each piece in which is requested again what answers do not reach', () => {
    const known = { ...cap, reachMs: dayMs };
    const [whole, pieces] = [false, true].map((hasPieces) =>
      estimateRequests([windowOf(60)], { ...server, known, hasPieces }),
    );
    expect(pieces!.requests).toBe(whole!.requests + 14);
  });

  test('have one more for each symbol of an oddslake that is mirrored', () => {
    const plans = [windowOf(60), windowOf(0)];
    const { requests, byPlan } = estimateRequests(plans, { ...server, isMirror: true });
    const plain = estimateRequests(plans, server);
    expect(requests).toBe(plain.requests + 2);
    expect(byPlan).toEqual(plain.byPlan.map((one) => one + 1));
  });

  test('expect no tick outside of a lifetime', () => {
    const plan = { ...windowOf(7000), lifetime: { from: 6 * dayMs, to: Number.POSITIVE_INFINITY } };
    expect(estimateRequests([plan], server).ticks).toBe(1000);
  });
});

test('the density of a symbol is that of what was fetched, or of its own ticks if it is known from files', () => {
  const span = { firstTick: 0, lastTick: 1000 };
  expect(computeTickDensity(100, span, [{ from: 0, to: 50 }], always)).toBe(2);
  expect(computeTickDensity(100, span, [{ from: 0, to: 50 }], { from: 25, to: 1e9 })).toBe(4);
  expect(computeTickDensity(0, { firstTick: null, lastTick: null }, [{ from: 0, to: 50 }], always)).toBe(0);
  expect(computeTickDensity(100, span, [], always)).toBe(0.1);
  expect(computeTickDensity(0, { firstTick: null, lastTick: null }, [], always)).toBeNull();
});
