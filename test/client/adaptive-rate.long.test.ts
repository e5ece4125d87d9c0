import { describe, expect, test } from 'vitest';
import {
  getRateInForce,
  type InferredRate,
  parseInferredRate,
  type RateObservation,
  updateInferredRate,
} from '../../src/client/adaptive-rate.ts';
import { type LimiterKind, limiterKinds } from '../../src/sandbox/rate-limit.ts';
import { share } from '../harness/share.ts';
import { runAgainstService } from './simulated-service.ts';

// The checks are about shares of random outcomes: another seed may fail by chance.
const seed = Number(process.env.SEED ?? 1);
console.log(`adapt: SEED=${seed}`);

const cases = limiterKinds.flatMap((kind) => [1, 2, 5, 20, 50].map((limit): [LimiterKind, number] => [kind, limit]));

describe('a configured rate of 100', () => {
  test.each(share === 1 ? cases : cases.filter(([, limit]) => limit === 2 || limit === 20))(
    'adapts to a %s limit of %i within a minute, uses it, and rarely exceeds it',
    async (kind, limit) => {
      for (const retryAfter of [null, 1]) {
        const service = runAgainstService({ kind, limit, retryAfter }, 100, seed);
        await service.seconds(60);
        const later = await service.seconds(120);
        // Rare trials of a higher rate are throttled, each once or a few times.
        expect(later.refused, `${retryAfter}`).toBeLessThanOrEqual(Math.max(4, 0.02 * later.passed));
        expect(later.used, `${retryAfter}`).toBeGreaterThan(0.9);
        await service.stop();
      }
    },
  );

  test('is used in full while nothing is throttled', async () => {
    const service = runAgainstService({ kind: 'sliding', limit: 100 }, 100, seed);
    const { refused, used } = await service.seconds(60);
    expect(refused).toBe(0);
    expect(used).toBeGreaterThan(0.97);
    expect(service.rate()).toBe(100);
    await service.stop();
  });

  test('follows a limit that rises or falls', async () => {
    const service = runAgainstService({ kind: 'sliding', limit: 20 }, 100, seed);
    await service.seconds(120);
    expect(service.rate()).toBeLessThan(25);
    service.change({ limit: 1000 });
    await service.seconds(300);
    expect(service.rate()).toBe(100);
    service.change({ limit: 8 });
    await service.seconds(30);
    const later = await service.seconds(60);
    expect(later.refusedShare).toBeLessThan(0.03);
    expect(later.used).toBeGreaterThan(0.9);
    await service.stop();
  });

  test.each([1, 2, 50, 100])('recovers to %i after a minute of 429s only', async (configured) => {
    const service = runAgainstService({ kind: 'sliding', limit: 1e5, faultShare: 1 }, configured, seed);
    await service.seconds(60);
    expect(service.rate()).toBeLessThan(1);
    service.change({ faultShare: 0 });
    const rates: number[] = [];
    for (let i = 0; i < 5; i++) {
      await service.seconds(60);
      rates.push(service.rate());
    }
    console.log(`adapt: rates in the minutes after ${rates.map((rate) => rate.toFixed(1)).join(' ')}`);
    expect(service.rate()).toBe(configured);
    await service.stop();
  });

  // Random 429s may look like a limit for a while: the median of several services is checked.
  const noisy: [string, number, number | null, number][] = [
    ['stays nearly in full with one random 429 in ninety responses', 1 / 90, 1, 0],
    ['is restored after reductions without effect', 0.1, null, 120],
  ];
  test.each(share === 1 ? noisy : [])('%s', async (_, faultShare, retryAfter, afterSeconds) => {
    const rates: number[] = [];
    for (let i = 0; i < 5; i++) {
      const service = runAgainstService({ kind: 'sliding', limit: 1e5, faultShare, retryAfter }, 100, seed + i);
      await service.seconds(afterSeconds);
      rates.push((await service.seconds(120)).meanRate);
      await service.stop();
    }
    console.log(`adapt: mean rates with faults ${rates.map((rate) => rate.toFixed(0)).join(' ')}`);
    expect(rates.sort((a, b) => a - b)[2]).toBeGreaterThan(90);
  });
});

describe('the inferred rate', () => {
  const observation = (request: number, refused: boolean, nowMs: number, accepted = 20): RateObservation => {
    return { request, nextRequest: request + 1, isThrottled: refused, countAccepted: () => accepted, nowMs };
  };
  const throttleFourTimes = (): InferredRate => {
    let inferred: InferredRate | null = null;
    for (let i = 0; i < 4; i++) inferred = updateInferredRate(inferred, observation(20 + i, true, 1000 + i), 100);
    return inferred!;
  };

  test('is unset before the first 429, and not lower after a single one', () => {
    expect(updateInferredRate(null, observation(0, false, 0), 100)).toBeNull();
    const once = updateInferredRate(null, observation(90, true, 0, 90), 100);
    expect(getRateInForce(once, 100)).toBe(100);
  });

  test('is the accepted rate, with the throttled one as an upper bound', () => {
    expect(throttleFourTimes()).toMatchObject({ rate: 20, good: 20, bad: 100 });
  });

  test('ignores responses to requests at another rate', () => {
    const inferred = throttleFourTimes();
    expect(updateInferredRate(inferred, observation(inferred.first - 1, true, 1100), 100)).toBe(inferred);
  });

  test('never exceeds the configured rate', () => {
    expect(getRateInForce(throttleFourTimes(), 7)).toBe(7);
    expect(getRateInForce(throttleFourTimes(), 70)).toBe(20);
  });

  test('is one request per minute if nothing is accepted', () => {
    let inferred: InferredRate | null = null;
    for (let i = 0; i < 200; i++) inferred = updateInferredRate(inferred, observation(i, true, i * 1000, 0), 100);
    expect(inferred!.rate).toBe(1 / 60);
  });

  test('rises again after the clock was set back', () => {
    let inferred: InferredRate | null = { ...throttleFourTimes(), fall: null };
    const before = inferred.rate;
    for (let i = 0; i < 100; i++)
      inferred = updateInferredRate(inferred, observation(inferred!.first + i, false, -1e9 + i * 50), 100);
    expect(inferred!.rate).toBeGreaterThan(before);
  });

  test('is read from JSON, and unset for JSON of another form', () => {
    const lowered = throttleFourTimes();
    expect(parseInferredRate(JSON.stringify(lowered))).toEqual(lowered);
    const { good, ...incomplete } = lowered;
    const others = [incomplete, { ...lowered, rate: '20' }, { ...lowered, runs: null }, { rate: 20, good: 20 }, [], 3];
    for (const other of [...others, null]) expect(parseInferredRate(JSON.stringify(other))).toBeNull();
    expect(parseInferredRate(null)).toBeNull();
    expect(good).toBe(20);
  });
});
