import { describe, expect, test } from 'vitest';
import { UpstreamError, type UpstreamFailure } from '../../../src/base/errors.ts';
import { createCircuitBreaker, forEachConcurrent } from '../../../src/collector/paging/circuit-breaker.ts';

const minute = 60_000;

function lineAt() {
  const hand = { nowMs: 5 * minute };
  const line = createCircuitBreaker({ monotonicMs: () => hand.nowMs });
  const answer = () => line.trackRequest(async () => 'page');
  const fail = async (failure: UpstreamFailure, status?: number) => {
    const error = new UpstreamError('page', { failure, reason: failure, ...(status === undefined ? {} : { status }) });
    await expect(line.trackRequest(() => Promise.reject(error))).rejects.toBe(error);
    return error;
  };
  return { hand, line, answer, fail };
}

describe('a line', () => {
  test('counts what was answered, refusals and failures of the service too, and not what reached nobody', async () => {
    const { line, answer, fail } = lineAt();
    expect(await answer()).toBe('page');
    await fail('refused', 404);
    await fail('transient', 503);
    expect(line.countResponses()).toBe(3);
    await fail('unreachable');
    await fail('transient');
    expect(line.countResponses()).toBe(3);
    const strange = new TypeError('a fault of ours');
    await expect(line.trackRequest(() => Promise.reject(strange))).rejects.toBe(strange);
    expect(line.countResponses()).toBe(3);
  });

  test('is silent from a request that reached nobody on, until one is answered', async () => {
    const { line, answer, fail } = lineAt();
    expect(line.getUnreachableError()).toBeNull();
    await fail('transient');
    expect(line.getUnreachableError()).toBeNull();
    const down = await fail('unreachable');
    expect(line.getUnreachableError()).toBe(down);
    await fail('transient');
    expect(line.getUnreachableError()).toBe(down);
    await fail('transient', 500);
    expect(line.getUnreachableError()).toBeNull();
    await fail('unreachable');
    await answer();
    expect(line.getUnreachableError()).toBeNull();
  });

  test('is not silent where another request was answered meanwhile', async () => {
    const { line, answer } = lineAt();
    const down = new UpstreamError('page', { failure: 'unreachable', reason: 'refused' });
    const late = line.trackRequest(async () => {
      await answer();
      throw down;
    });
    await expect(late).rejects.toBe(down);
    expect(line.getUnreachableError()).toBeNull();
  });

  test('is out of order after twenty failures in a row and ten minutes, and in order once one is served or refused', async () => {
    const { hand, line, answer, fail } = lineAt();
    for (let i = 0; i < 19; i++) await fail('transient', 503);
    hand.nowMs += 10 * minute;
    expect(line.isOpen()).toBe(false);
    await fail('unreachable');
    expect(line.isOpen()).toBe(true);
    hand.nowMs -= 1;
    expect(line.isOpen()).toBe(false);
    hand.nowMs += 1;
    for (const well of [answer, () => fail('refused', 404)]) {
      await well();
      expect(line.isOpen()).toBe(false);
      hand.nowMs += 10 * minute;
      for (let i = 0; i < 19; i++) await fail('transient');
      expect(line.isOpen()).toBe(false);
      await fail('transient');
      expect(line.isOpen()).toBe(true);
    }
  });

  test('does work side by side until it is silent, and then one piece alone, while the others wait', async () => {
    const { line, answer, fail } = lineAt();
    const log: string[] = [];
    const gates: (() => void)[] = [];
    const begin = (name: string, ends: () => Promise<unknown>, goesOn = () => true) =>
      line.attempt(goesOn, async (alone) => {
        log.push(alone ? `${name} alone` : name);
        await new Promise<void>((resolve) => void gates.push(resolve));
        await ends();
      });
    const turns = async () => {
      for (let i = 0; i < 20; i++) await Promise.resolve();
    };
    const first = [begin('a', answer), begin('b', () => fail('unreachable'))];
    await turns();
    expect(log).toEqual(['a', 'b']);
    for (const open of gates.splice(0)) open();
    expect(await Promise.all(first)).toEqual([true, true]);
    await fail('unreachable');
    const [trial, next, last] = [begin('c', () => fail('unreachable')), begin('d', answer), begin('e', answer)];
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
    expect(await begin('f', answer, () => false)).toBe(false);
    expect(log).toEqual([]);
  });

  test('asks whether to go on only once the piece before is over, and is free again after one that threw', async () => {
    const { line, fail, answer } = lineAt();
    await fail('unreachable');
    let open = () => {};
    const broken = new Error('the disk is full');
    const trial = line.attempt(
      () => true,
      async () => {
        await new Promise<void>((resolve) => {
          open = resolve;
        });
        throw broken;
      },
    );
    let asked = 0;
    const waiting = line.attempt(
      () => {
        asked++;
        return false;
      },
      async () => void (await answer()),
    );
    waiting.catch(() => {});
    expect(asked).toBe(0);
    open();
    await expect(trial).rejects.toBe(broken);
    await waiting.catch(() => {});
    expect(
      await line.attempt(
        () => true,
        async () => {},
      ),
    ).toBe(true);
  });
});

describe('work in parallel', () => {
  test('is of so many items at a time, each once and in order', async () => {
    for (const [concurrency, items, most] of [
      [1, 5, 1],
      [3, 10, 3],
      [8, 3, 3],
      [4, 0, 0],
    ] as const) {
      let [now, seen] = [0, 0];
      const done: number[] = [];
      const list = Array.from({ length: items }, (_, i) => i);
      await forEachConcurrent(concurrency, list, async (item) => {
        done.push(item);
        seen = Math.max(seen, ++now);
        for (let i = item % 3; i >= 0; i--) await Promise.resolve();
        now--;
      });
      expect([done, seen]).toEqual([list, most]);
    }
  });

  test('stops at the first error, which is thrown once what is under way is over', async () => {
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
