import { expect, test } from 'vitest';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import { emptyFacts, summarize } from '../../../src/collector/run/summary.ts';
import { openPushTask } from '../../../src/collector/schedule/push-task.ts';
import { InterruptedError } from '../../../src/context/context.ts';

const settle = () => new Promise((resolve) => setImmediate(resolve));

/** Pushes that end when the test ends them. */
function openTask() {
  const stop = new AbortController();
  const running: ((summary: Summary | null) => void)[] = [];
  const ended: Summary[] = [];
  const logged: string[] = [];
  const say = (_: object, message: string) => void logged.push(message);
  let started = 0;
  const task = openPushTask(
    { signal: stop.signal, log: { debug: say, info: say, warn: say, error: say } },
    () => {
      started++;
      return new Promise((resolve) => running.push(resolve));
    },
    async (summary) => {
      if (summary.exit_code === 1) throw new Error('a full disk');
      ended.push(summary);
    },
  );
  return {
    task,
    ended,
    logged,
    countStarted: () => started,
    async end(summary: Summary | null) {
      running.shift()!(summary);
      await settle();
    },
    stop: () => stop.abort(new InterruptedError('SIGTERM')),
  };
}

const summaryOf = (failure?: unknown): Summary =>
  summarize({
    ...emptyFacts,
    version: 'test',
    job: 'push',
    strict: false,
    started_at: 0,
    finished_at: 1,
    thrown: failure,
  });

test('pushes one generation at a time, and once more what was published meanwhile', async () => {
  const { task, ended, countStarted, end } = openTask();
  task.request();
  expect(countStarted()).toBe(1);
  for (let i = 0; i < 3; i++) task.request();
  await settle();
  expect(countStarted()).toBe(1);
  await end(summaryOf());
  expect(countStarted()).toBe(2);
  await end(summaryOf());
  expect([countStarted(), ended.length]).toEqual([2, 2]);
  // Nothing is published and pushed twice.
  await task.waitUntilIdle();
  task.request();
  expect(countStarted()).toBe(3);
  await end(null);
  expect(ended).toHaveLength(2);
});

test('a push that cannot be reported is logged, and the next request pushes', async () => {
  const { task, logged, countStarted, end } = openTask();
  task.request();
  await end(summaryOf(new Error('unexpected')));
  expect(logged).toEqual(['a push could not be reported']);
  task.request();
  expect(countStarted()).toBe(2);
  await end(summaryOf());
});

test('starts no push after the signal, and is idle when the running one has ended', async () => {
  const { task, countStarted, end, stop } = openTask();
  task.request();
  task.request();
  stop();
  let isIdle = false;
  const idle = task.waitUntilIdle().then(() => {
    isIdle = true;
  });
  await settle();
  expect(isIdle).toBe(false);
  await end(null);
  await idle;
  task.request();
  await settle();
  expect(countStarted()).toBe(1);
});
