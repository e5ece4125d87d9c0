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
    ['is restored after a reduction without effect', 0.1, null, 120],
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
  type Response = Pick<RateObservation, 'isThrottled' | 'nowMs'>;
  /** Sends requests one after another and returns the inferred rate after the last. */
  const observe = (responses: readonly Response[], configured = 100, before: InferredRate | null = null) =>
    responses.reduce<InferredRate | null>((inferred, response, i) => {
      const request = (before?.first ?? 0) + i;
      return updateInferredRate(inferred, { ...response, request, nextRequest: request + 1 }, configured);
    }, before);
  /** Bursts of one 429, a second apart, with `accepted` responses before each. */
  const bursts = (count: number, accepted: number): Response[] =>
    Array.from({ length: count }, (_, second) =>
      Array.from({ length: accepted + 1 }, (_, i) => {
        return { isThrottled: i === accepted, nowMs: 1000 * (second + (i + 1) / (accepted + 1)) };
      }),
    ).flat();
  const lowered = observe(bursts(4, 20))!;

  test('is unset before the first 429, and not lower after three', () => {
    expect(observe([{ isThrottled: false, nowMs: 0 }])).toBeNull();
    expect(getRateInForce(observe(bursts(3, 20)), 100)).toBe(100);
  });

  test('is unset again when three 429s are followed by enough responses', () => {
    const quiet = Array.from({ length: 500 }, (_, i) => ({ isThrottled: false, nowMs: 3000 + i * 10 }));
    expect(observe([...bursts(3, 20), ...quiet])).toBeNull();
  });

  test('is the accepted rate after four bursts, with the throttled one as an upper bound', () => {
    expect(lowered).toMatchObject({ rate: 20, good: 20, bad: 100 });
  });

  test('is a quarter after four 429s in a row', () => {
    const refused = Array.from({ length: 4 }, (_, i) => ({ isThrottled: true, nowMs: i }));
    expect(observe(refused.slice(1))!.rate).toBe(100);
    expect(observe(refused)).toMatchObject({ rate: 25, good: 25, bad: 100 });
  });

  test('ignores responses to requests at another rate', () => {
    const late = { request: lowered.first - 1, nextRequest: lowered.first, isThrottled: true, nowMs: 5000 };
    expect(updateInferredRate(lowered, late, 100)).toBe(lowered);
  });

  test('never exceeds the configured rate', () => {
    expect(getRateInForce(lowered, 7)).toBe(7);
    expect(getRateInForce(lowered, 70)).toBe(20);
  });

  test('is one request per minute if nothing is accepted', () => {
    const refused = Array.from({ length: 200 }, (_, i) => ({ isThrottled: true, nowMs: i * 1000 }));
    expect(observe(refused)!.rate).toBe(1 / 60);
  });

  test('rises again after the clock was set back', () => {
    const accepted = Array.from({ length: 200 }, (_, i) => ({ isThrottled: false, nowMs: -1e9 + i * 50 }));
    expect(observe(accepted, 100, lowered)!.rate).toBeGreaterThan(lowered.rate);
  });

  test('is read from JSON, and unset for JSON of another form', () => {
    expect(parseInferredRate(JSON.stringify(lowered))).toEqual(lowered);
    const { good, ...incomplete } = lowered;
    const older = { rate: 20, good: 20, bad: 100, sinceMs: 0, first: 3, answers: 0, runs: [], fall: { from: 3 } };
    const others = [incomplete, { ...lowered, rate: '20' }, { ...lowered, cut: { rate: null } }, older, [], 3, null];
    for (const other of others) expect(parseInferredRate(JSON.stringify(other))).toBeNull();
    expect(parseInferredRate(null)).toBeNull();
    expect(good).toBe(20);
  });
});
