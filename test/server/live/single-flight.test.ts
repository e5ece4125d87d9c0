import { expect, test } from 'vitest';
import type { Clock } from '../../../src/base/ports.ts';
import { createSingleFlight, type FetchResult } from '../../../src/server/live/single-flight.ts';

// A clock that stands: sleeps end when the test advances it.
function createClock(): Clock & { advance(ms: number): Promise<void> } {
  let nowMs = 0;
  const sleeps = new Set<{ readonly until: number; readonly wake: () => void }>();
  return {
    nowMs: () => nowMs,
    monotonicMs: () => nowMs,
    sleep: (ms, signal) =>
      new Promise((wake, reject) => {
        const sleep = { until: nowMs + ms, wake };
        sleeps.add(sleep);
        signal?.addEventListener('abort', () => {
          sleeps.delete(sleep);
          reject(signal.reason);
        });
      }),
    async advance(ms) {
      nowMs += ms;
      for (const sleep of [...sleeps]) if (sleep.until <= nowMs) sleep.wake();
      await settle();
    },
  };
}

const settle = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function opened(flightsMax = 4) {
  const clock = createClock();
  const flight = createSingleFlight({ maxAgeMs: 5000, timeoutMs: 1000, flightsMax }, clock);
  const requested: string[] = [];
  const answers: ((result: FetchResult) => void)[] = [];
  const outcomes: string[] = [];
  const join = (key: string): void => {
    void flight
      .join(key, () => () => {
        requested.push(key);
        return new Promise((resolve) => answers.push(resolve));
      })
      .then((outcome) => outcomes.push(outcome));
  };
  const answer = async (result: FetchResult): Promise<void> => {
    answers.shift()!(result);
    await settle();
  };
  return { clock, join, requested, answer, outcomes: () => outcomes.splice(0), flight };
}

test('readers of a key share one request, and the next one waits for the maximum age', async () => {
  const { clock, join, requested, answer, outcomes } = opened();
  for (let i = 0; i < 100; i++) join('A');
  join('B');
  expect(requested).toEqual(['A', 'B']);
  await answer('fetched');
  expect(outcomes()).toEqual(Array.from({ length: 100 }, () => 'fetched'));
  await answer('fetched');
  await clock.advance(4999);
  join('A');
  await settle();
  expect([requested.length, outcomes()]).toEqual([2, ['fetched', 'fresh']]);
  await clock.advance(1);
  join('A');
  expect(requested.length).toBe(3);
});

test('nobody waits longer than the timeout after the request was sent', async () => {
  const { clock, join, requested, answer, outcomes } = opened();
  join('A');
  await clock.advance(900);
  join('A');
  await clock.advance(100);
  expect(outcomes()).toEqual(['timeout', 'timeout']);
  join('A');
  await settle();
  expect([outcomes(), requested]).toEqual([['timeout'], ['A']]);
  await answer('fetched');
  join('A');
  await settle();
  expect(outcomes()).toEqual(['fresh']);
});

test('after failures, pauses twice as long each time, and sends one request to find out', async () => {
  const { clock, join, requested, answer, outcomes } = opened();
  for (const key of ['A', 'B', 'C']) join(key);
  // They fail together, which is one failure.
  for (let i = 0; i < 3; i++) await answer('down');
  expect(outcomes()).toEqual(['failed', 'failed', 'failed']);
  for (const pause of [1000, 2000, 4000, 8000, 16_000, 32_000, 60_000, 60_000]) {
    await clock.advance(pause - 1);
    join(`before ${pause}`);
    await settle();
    expect(outcomes()).toEqual(['paused']);
    await clock.advance(1);
    const count = requested.length;
    join(`trial ${pause}`);
    join(`other ${pause}`);
    await settle();
    expect(requested.length - count).toBe(1);
    await answer('down');
    expect(outcomes().sort()).toEqual(['failed', 'paused']);
  }
  await clock.advance(60_000);
  join('X');
  join('Y');
  await answer('fetched');
  expect(requested.slice(-2)).toEqual(['X', 'Y']);
  await answer('fetched');
  expect(outcomes()).toEqual(['fetched', 'fetched']);
});

test('a refused credential pauses for five minutes; an unknown key only itself, for one', async () => {
  const { clock, join, requested, answer, outcomes } = opened();
  join('A');
  await answer('refused-credential');
  await clock.advance(299_999);
  join('B');
  await settle();
  expect(outcomes()).toEqual(['failed', 'paused']);
  await clock.advance(1);
  join('B');
  await answer('unknown');
  await clock.advance(59_999);
  join('B');
  join('C');
  await settle();
  expect([outcomes(), requested]).toEqual([
    ['fetched', 'fresh'],
    ['A', 'B', 'C'],
  ]);
});

test('the number of waiting requests is limited', async () => {
  const { join, requested, outcomes, answer, flight } = opened(2);
  for (const key of ['A', 'B', 'C', 'A']) join(key);
  await settle();
  expect([requested, outcomes()]).toEqual([['A', 'B'], ['crowded']]);
  const idle = flight.waitUntilIdle();
  await answer('fetched');
  await answer('down');
  await idle;
  expect(outcomes().sort()).toEqual(['failed', 'fetched', 'fetched']);
});

test('a request that throws counts as failed', async () => {
  const { flight } = opened();
  expect(await flight.join('A', () => () => Promise.reject(new Error('no')))).toBe('failed');
  expect(await flight.join('B', () => () => Promise.resolve('fetched'))).toBe('paused');
});
