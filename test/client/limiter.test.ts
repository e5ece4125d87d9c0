import { expect, test } from 'vitest';
import { createLocalRateStore } from '../../src/base/rate-state.ts';
import { PauseTooLongError, RateLimiter } from '../../src/client/limiter.ts';
import { createVirtualClock } from './virtual-clock.ts';

function setUp(options: { requestsPerSecond?: number; concurrency?: number } = {}) {
  const clock = createVirtualClock();
  const limiter = new RateLimiter({ requestsPerSecond: 10, concurrency: 2, pauseMsMax: 60_000, ...options }, clock);
  const starts: [string, number][] = [];
  const { signal } = new AbortController();
  const run = (name: string, { tookMs = 1, priority = 0 } = {}) =>
    limiter.run(
      async (permit) => {
        starts.push([name, clock.monotonicMs()]);
        permit.noteResponse();
        await clock.sleep(tookMs);
        return name;
      },
      { priority, signal },
    );
  return { clock, limiter, starts, run };
}

test('starts requests in order, spaced by the rate', async () => {
  const { clock, run, starts } = setUp();
  const all = Promise.all(['a', 'b', 'c', 'd'].map((name) => run(name)));
  await clock.pass(1000);
  expect(await all).toEqual(['a', 'b', 'c', 'd']);
  expect(starts).toEqual([
    ['a', 0],
    ['b', 100],
    ['c', 200],
    ['d', 300],
  ]);
});

test('never exceeds the concurrency', async () => {
  const { clock, run, starts } = setUp({ concurrency: 2 });
  for (const name of ['a', 'b', 'c']) void run(name, { tookMs: 700 });
  await clock.pass(699);
  expect(starts).toHaveLength(2);
  await clock.pass(1);
  expect(starts[2]).toEqual(['c', 700]);
});

test('starts retries first', async () => {
  const { clock, run, starts } = setUp({ concurrency: 1 });
  void run('a', { tookMs: 50 });
  void run('b');
  void run('retry', { priority: 1 });
  await clock.pass(1000);
  expect(starts.map(([name]) => name)).toEqual(['a', 'retry', 'b']);
});

test('starts nothing during a pause, including waiting requests', async () => {
  const { clock, limiter, run, starts } = setUp();
  for (const name of ['a', 'b', 'c']) void run(name);
  await clock.pass(50);
  limiter.pause(2000);
  limiter.pause(500);
  await clock.pass(1999);
  expect(starts.map(([name]) => name)).toEqual(['a']);
  await clock.pass(1000);
  expect(starts.slice(1)).toEqual([
    ['b', 2050],
    ['c', 2150],
  ]);
  expect(limiter.getUse().throttledMs).toBe(2000);
});

test('counts overlapping pauses once', async () => {
  const { clock, limiter } = setUp();
  limiter.pause(1000);
  await clock.pass(400);
  limiter.pause(1000);
  expect(limiter.getUse().throttledMs).toBe(1400);
});

test('counts the wait for the rate without the pauses', async () => {
  const { clock, limiter, run } = setUp();
  limiter.pause(1000);
  for (const name of ['a', 'b', 'c']) void run(name);
  await clock.pass(3000);
  // a starts when the pause ends, b and c 100 ms after each other.
  expect(limiter.getUse().waitedMs).toBe(200);
});

test('fails instead of waiting for a pause beyond the limit', async () => {
  const { clock, limiter, run } = setUp();
  limiter.pause(3_600_000);
  await expect(run('a')).rejects.toThrow(PauseTooLongError);
  const waiting = run('b').catch((error: unknown) => error);
  await clock.pass(3_600_000 - 59_000);
  expect(await waiting).toBeInstanceOf(PauseTooLongError);
  const soon = run('c');
  await clock.pass(60_000);
  expect(await soon).toBe('c');
});

test('passes on a task’s error and continues', async () => {
  const { clock, limiter, run } = setUp();
  const { signal } = new AbortController();
  const failing = limiter.run(() => Promise.reject(new Error('no')), { priority: 0, signal });
  await expect(failing).rejects.toThrow('no');
  const next = run('b');
  await clock.pass(300);
  expect(await next).toBe('b');
});

test('shares rate, pauses and the lowest rate with others of the same store', async () => {
  const clock = createVirtualClock();
  const memory = createLocalRateStore();
  const options = { concurrency: 2, pauseMsMax: 60_000, rateStore: memory };
  const [slow, quick] = [5, 50].map((requestsPerSecond) => new RateLimiter({ ...options, requestsPerSecond }, clock));
  const starts: number[] = [];
  const { signal } = new AbortController();
  const run = (limiter = quick!) =>
    limiter.run(
      async (permit) => {
        starts.push(clock.monotonicMs());
        permit.noteResponse();
      },
      { priority: 0, signal },
    );
  void run(slow);
  for (let i = 0; i < 4; i++) void run();
  await clock.pass(900);
  expect(starts).toEqual([0, 200, 400, 600, 800]);
  slow!.pause(3000);
  void run();
  await clock.pass(4000);
  expect(starts.slice(5)).toEqual([3900]);
  expect(quick!.getUse().throttledMs).toBe(3000);
  // The slow one has not refreshed its rate for too long.
  await clock.pass(10_000);
  starts.length = 0;
  for (let i = 0; i < 3; i++) void run();
  await clock.pass(100);
  expect(starts).toHaveLength(3);
});

test('others know at once of a throttled request, although the process that sent it has a lease', async () => {
  const clock = createVirtualClock();
  const rateStore = createLocalRateStore();
  const options = { requestsPerSecond: 10, concurrency: 1, pauseMsMax: 60_000, rateStore };
  const limiter = new RateLimiter(options, clock);
  const { signal } = new AbortController();
  const run = (isThrottled: boolean) =>
    limiter.run(async (permit) => permit.noteResponse(isThrottled), { priority: 0, signal });
  void (async () => {
    for (;;) await run(false);
  })();
  for (let ms = 0; rateStore.read().reservedUntilMs < ms; ms += 10) await clock.pass(10);
  expect(rateStore.read()).toMatchObject({ inferred: null });
  let isDone = false;
  void run(true).then(() => {
    isDone = true;
  });
  while (!isDone) await clock.pass(10);
  expect(rateStore.read().inferred).not.toBeNull();
  expect(rateStore.read().reservedUntilMs).toBe(Number.NEGATIVE_INFINITY);
});

test('a start that has become late before its request is sent is not used', async () => {
  const clock = createVirtualClock();
  const rateStore = createLocalRateStore();
  let [suspendedMs, nextMs] = [0, 0];
  const suspendable = { ...clock, monotonicMs: () => clock.monotonicMs() + suspendedMs };
  const runExclusive = <T>(work: () => T): T => {
    const result = work();
    [suspendedMs, nextMs] = [suspendedMs + nextMs, 0];
    return result;
  };
  const options = { requestsPerSecond: 10, concurrency: 1, pauseMsMax: 60_000 };
  const limiter = new RateLimiter({ ...options, rateStore: { ...rateStore, runExclusive } }, suspendable);
  const run = async (): Promise<number> => {
    const before = rateStore.read().count;
    const signal = new AbortController().signal;
    const ran = limiter.run(async (permit) => permit.noteResponse(), { priority: 0, signal });
    await clock.pass(1000);
    await ran;
    return rateStore.read().count - before;
  };
  nextMs = 100;
  expect(await run()).toBe(1);
  nextMs = 101;
  expect(await run()).toBe(2);
});

test('does not share a pause that exceeds the maximum', async () => {
  const clock = createVirtualClock();
  const memory = createLocalRateStore();
  const options = { requestsPerSecond: 10, concurrency: 1, pauseMsMax: 1000, rateStore: memory };
  const [one, two] = [new RateLimiter(options, clock), new RateLimiter(options, clock)];
  const { signal } = new AbortController();
  one.pause(86_400_000);
  await expect(one.run(async () => 1, { priority: 0, signal })).rejects.toThrow(PauseTooLongError);
  expect(await two.run(async () => 2, { priority: 0, signal })).toBe(2);
});

test('applies the rate that the service states unless its own is lower', async () => {
  const { clock, limiter, run, starts } = setUp();
  limiter.capRate(2);
  for (const name of ['a', 'b', 'c']) void run(name);
  await clock.pass(700);
  expect(starts.map(([, at]) => at)).toEqual([0, 500]);
  limiter.capRate(1000);
  await clock.pass(5000);
  starts.length = 0;
  for (const name of ['d', 'e']) void run(name);
  await clock.pass(200);
  expect(starts[1]![1] - starts[0]![1]).toBe(100);
});
