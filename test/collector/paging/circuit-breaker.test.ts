import { describe, expect, test } from 'vitest';
import { UpstreamError, type UpstreamFailure } from '../../../src/base/errors.ts';
import { forEachConcurrent } from '../../../src/base/for-each-concurrent.ts';
import { createCircuitBreaker } from '../../../src/collector/paging/circuit-breaker.ts';

const minute = 60_000;

function breakerAt() {
  const hand = { nowMs: 5 * minute };
  const breaker = createCircuitBreaker({ monotonicMs: () => hand.nowMs });
  const succeed = () => breaker.trackRequest(async () => 'page');
  const fail = async (failure: UpstreamFailure, status?: number) => {
    const error = new UpstreamError('page', { failure, reason: failure, ...(status === undefined ? {} : { status }) });
    await expect(breaker.trackRequest(() => Promise.reject(error))).rejects.toBe(error);
    return error;
  };
  return { hand, breaker, succeed, fail };
}

describe('a circuit breaker', () => {
  test('counts responses, including refusals and server errors', async () => {
    const { breaker, succeed, fail } = breakerAt();
    expect(await succeed()).toBe('page');
    await fail('refused', 404);
    await fail('transient', 503);
    expect(breaker.countResponses()).toBe(3);
    await fail('unreachable');
    await fail('transient');
    expect(breaker.countResponses()).toBe(3);
    const bug = new TypeError('a bug');
    await expect(breaker.trackRequest(() => Promise.reject(bug))).rejects.toBe(bug);
    expect(breaker.countResponses()).toBe(3);
  });

  test('keeps the unreachable error until a request is answered', async () => {
    const { breaker, succeed, fail } = breakerAt();
    expect(breaker.getUnreachableError()).toBeNull();
    await fail('transient');
    expect(breaker.getUnreachableError()).toBeNull();
    const down = await fail('unreachable');
    expect(breaker.getUnreachableError()).toBe(down);
    await fail('transient');
    expect(breaker.getUnreachableError()).toBe(down);
    await fail('transient', 500);
    expect(breaker.getUnreachableError()).toBeNull();
    await fail('unreachable');
    await succeed();
    expect(breaker.getUnreachableError()).toBeNull();
  });

  test('keeps no unreachable error if another request was answered meanwhile', async () => {
    const { breaker, succeed } = breakerAt();
    const down = new UpstreamError('page', { failure: 'unreachable', reason: 'refused' });
    const late = breaker.trackRequest(async () => {
      await succeed();
      throw down;
    });
    await expect(late).rejects.toBe(down);
    expect(breaker.getUnreachableError()).toBeNull();
  });

  test('opens after twenty failures in a row over ten minutes, and closes after a success or a refusal', async () => {
    const { hand, breaker, succeed, fail } = breakerAt();
    for (let i = 0; i < 19; i++) await fail('transient', 503);
    hand.nowMs += 10 * minute;
    expect(breaker.isOpen()).toBe(false);
    await fail('unreachable');
    expect(breaker.isOpen()).toBe(true);
    hand.nowMs -= 1;
    expect(breaker.isOpen()).toBe(false);
    hand.nowMs += 1;
    for (const recover of [succeed, () => fail('refused', 404)]) {
      await recover();
      expect(breaker.isOpen()).toBe(false);
      hand.nowMs += 10 * minute;
      for (let i = 0; i < 19; i++) await fail('transient');
      expect(breaker.isOpen()).toBe(false);
      await fail('transient');
      expect(breaker.isOpen()).toBe(true);
    }
  });

  test('runs work concurrently, and one piece alone while unreachable', async () => {
    const { breaker, succeed, fail } = breakerAt();
    const log: string[] = [];
    const gates: (() => void)[] = [];
    const start = (name: string, ends: () => Promise<unknown>, canContinue = () => true) =>
      breaker.attempt(canContinue, async (isAlone) => {
        log.push(isAlone ? `${name} alone` : name);
        await new Promise<void>((resolve) => void gates.push(resolve));
        await ends();
      });
    const turns = async () => {
      for (let i = 0; i < 20; i++) await Promise.resolve();
    };
    const first = [start('a', succeed), start('b', () => fail('unreachable'))];
    await turns();
    expect(log).toEqual(['a', 'b']);
    for (const open of gates.splice(0)) open();
    expect(await Promise.all(first)).toEqual([true, true]);
    await fail('unreachable');
    const [trial, next, last] = [start('c', () => fail('unreachable')), start('d', succeed), start('e', succeed)];
    await turns();
    expect(log.splice(0)).toEqual(['a', 'b', 'c alone']);
    gates.shift()!();
    expect(await trial).toBe(true);
    await turns();
    expect(log.splice(0)).toEqual(['d alone']);
    gates.shift()!();
    expect(await next).toBe(true);
    await turns();
    expect(log.splice(0)).toEqual(['e']);
    gates.shift()!();
    expect(await last).toBe(true);
    expect(await start('f', succeed, () => false)).toBe(false);
    expect(log).toEqual([]);
  });

  test('checks whether to continue after the previous work, and recovers after an exception', async () => {
    const { breaker, fail, succeed } = breakerAt();
    await fail('unreachable');
    let open = () => {};
    const broken = new Error('the disk is full');
    const trial = breaker.attempt(
      () => true,
      async () => {
        await new Promise<void>((resolve) => {
          open = resolve;
        });
        throw broken;
      },
    );
    let checks = 0;
    const waiting = breaker.attempt(
      () => {
        checks++;
        return false;
      },
      async () => void (await succeed()),
    );
    waiting.catch(() => {});
    expect(checks).toBe(0);
    open();
    await expect(trial).rejects.toBe(broken);
    await waiting.catch(() => {});
    expect(
      await breaker.attempt(
        () => true,
        async () => {},
      ),
    ).toBe(true);
  });
});

describe('forEachConcurrent', () => {
  test('runs at most the given number of items at a time, each once and in order', async () => {
    for (const [concurrency, items, expectedMax] of [
      [1, 5, 1],
      [3, 10, 3],
      [8, 3, 3],
      [4, 0, 0],
    ] as const) {
      let [running, runningMax] = [0, 0];
      const done: number[] = [];
      const list = Array.from({ length: items }, (_, i) => i);
      await forEachConcurrent(concurrency, list, async (item) => {
        done.push(item);
        runningMax = Math.max(runningMax, ++running);
        for (let i = item % 3; i >= 0; i--) await Promise.resolve();
        running--;
      });
      expect([done, runningMax]).toEqual([list, expectedMax]);
    }
  });

  test('stops at the first error and throws it after the running items', async () => {
    const log: string[] = [];
    const broken = new Error('broken');
    const work = forEachConcurrent(2, [0, 1, 2, 3, 4], async (item) => {
      log.push(`begin ${item}`);
      if (item === 1) throw broken;
      for (let i = 0; i < 10; i++) await Promise.resolve();
      log.push(`end ${item}`);
    });
    await expect(work).rejects.toBe(broken);
    expect(log).toEqual(['begin 0', 'begin 1', 'end 0']);
  });
});
