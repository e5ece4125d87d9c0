import { describe, expect, test } from 'vitest';
import {
  getRateInForce,
  type InferredRate,
  type RateObservation,
  updateInferredRate,
} from '../../src/client/adaptive-rate.ts';
import { type LimiterKind, limiterKinds } from '../../src/sandbox/rate-limit.ts';
import { share } from '../harness/share.ts';
import { asking } from './simulated-service.ts';

// What is judged are shares of drawn outcomes: another seed may fall out of bounds by chance.
const seed = Number(process.env.SEED ?? 1);
console.log(`adapt: SEED=${seed}`);

const cases = limiterKinds.flatMap((kind) => [1, 2, 5, 20, 50].map((limit): [LimiterKind, number] => [kind, limit]));

describe('of 100 configured', () => {
  test.each(share === 1 ? cases : cases.filter(([, limit]) => limit === 2 || limit === 20))(
    'a %s limit of %i is found within a minute, used, and hardly passed from then on',
    async (kind, limit) => {
      for (const retryAfter of [null, 1]) {
        const service = asking({ kind, limit, retryAfter }, 100, seed);
        await service.seconds(60);
        const later = await service.seconds(120);
        // Rare tries of a greater rate are refused, each once or a few times.
        expect(later.refused, `${retryAfter}`).toBeLessThanOrEqual(Math.max(4, 0.02 * later.passed));
        expect(later.used, `${retryAfter}`).toBeGreaterThan(0.9);
        await service.stop();
      }
    },
  );

  test('all of it is used while nothing is refused', async () => {
    const service = asking({ kind: 'sliding', limit: 100 }, 100, seed);
    const { refused, used } = await service.seconds(60);
    expect(refused).toBe(0);
    expect(used).toBeGreaterThan(0.97);
    expect(service.rate()).toBe(100);
    await service.stop();
  });

  test('a limit that rises is followed, and one that falls', async () => {
    const service = asking({ kind: 'sliding', limit: 20 }, 100, seed);
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

  test.each([1, 2, 50, 100])(
    'of %i configured all is used again after a minute of nothing but refusals',
    async (configured) => {
      const service = asking({ kind: 'sliding', limit: 1e5, faultShare: 1 }, configured, seed);
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
    },
  );

  // Chance may look like a limit for a while, hence the middle of several services.
  const noisy: [string, number, number | null, number][] = [
    ['one refusal in ninety for no reason leaves the rate near what is configured', 1 / 90, 1, 0],
    ['going down that does not help is taken back', 0.1, null, 120],
  ];
  test.each(share === 1 ? noisy : [])('%s', async (_, faultShare, retryAfter, afterSeconds) => {
    const rates: number[] = [];
    for (let i = 0; i < 5; i++) {
      const service = asking({ kind: 'sliding', limit: 1e5, faultShare, retryAfter }, 100, seed + i);
      await service.seconds(afterSeconds);
      rates.push((await service.seconds(120)).meanRate);
      await service.stop();
    }
    console.log(`adapt: mean rates with faults ${rates.map((rate) => rate.toFixed(0)).join(' ')}`);
    expect(rates.sort((a, b) => a - b)[2]).toBeGreaterThan(90);
  });
});

describe('what is learned', () => {
  const answer = (request: number, refused: boolean, nowMs: number, letThrough = 20): RateObservation => {
    return { request, nextRequest: request + 1, isThrottled: refused, countLetThrough: () => letThrough, nowMs };
  };
  const refusedFourTimes = (): InferredRate => {
    let learned: InferredRate | null = null;
    for (let i = 0; i < 4; i++) learned = updateInferredRate(learned, answer(20 + i, true, 1000 + i), 100);
    return learned!;
  };

  test('is nothing before the first refusal, and no less rate after a single one', () => {
    expect(updateInferredRate(null, answer(0, false, 0), 100)).toBeNull();
    const once = updateInferredRate(null, answer(90, true, 0, 90), 100);
    expect(getRateInForce(once, 100)).toBe(100);
  });

  test('is what was let through, and which rate was refused', () => {
    expect(refusedFourTimes()).toMatchObject({ rate: 20, good: 20, bad: 100 });
  });

  test('does not count answers to what was asked at another rate', () => {
    const learned = refusedFourTimes();
    expect(updateInferredRate(learned, answer(learned.first - 1, true, 1100), 100)).toBe(learned);
  });

  test('never exceeds what is configured now', () => {
    expect(getRateInForce(refusedFourTimes(), 7)).toBe(7);
    expect(getRateInForce(refusedFourTimes(), 70)).toBe(20);
  });

  test('goes on being asked for where nothing at all is let through, once a minute', () => {
    let learned: InferredRate | null = null;
    for (let i = 0; i < 200; i++) learned = updateInferredRate(learned, answer(i, true, i * 1000, 0), 100);
    expect(learned!.rate).toBe(1 / 60);
  });

  test('rises again though the clock was set back', () => {
    let learned: InferredRate | null = { ...refusedFourTimes(), fall: null };
    const before = learned.rate;
    for (let i = 0; i < 100; i++)
      learned = updateInferredRate(learned, answer(learned!.first + i, false, -1e9 + i * 50), 100);
    expect(learned!.rate).toBeGreaterThan(before);
  });
});
