import { expect, test } from 'vitest';
import { createFairSemaphore } from '../../src/server/http/fair-semaphore.ts';
import { ProblemError } from '../../src/server/http/problem-details.ts';

const { signal: never } = new AbortController();
const settle = () => new Promise((resolve) => setImmediate(resolve));

test('grants a limited number of permits, and serves waiting requests in order', async () => {
  const semaphore = createFairSemaphore(2, 10);
  const order: number[] = [];
  const releases: (() => void)[] = [];
  for (let i = 0; i < 5; i++)
    void semaphore.acquire(never).then((release) => {
      order.push(i);
      releases.push(release);
    });
  await settle();
  expect([order, semaphore.getCounts()]).toEqual([[0, 1], { inside: 2, waiting: 3 }]);
  releases[1]!();
  releases[1]!();
  await settle();
  expect([order, semaphore.getCounts()]).toEqual([[0, 1, 2], { inside: 2, waiting: 2 }]);
  for (let i = 0; i < 5; i++) {
    for (const release of releases) release();
    await settle();
  }
  expect([order, semaphore.getCounts()]).toEqual([[0, 1, 2, 3, 4], { inside: 0, waiting: 0 }]);
});

test('rejects with 503 and Retry-After if too many wait', async () => {
  const semaphore = createFairSemaphore(1, 1);
  await semaphore.acquire(never);
  void semaphore.acquire(never);
  const refused = await semaphore.acquire(never).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(ProblemError);
  expect((refused as ProblemError).status).toBe(503);
  expect(Number((refused as ProblemError).headers['retry-after'])).toBeGreaterThan(0);
  void semaphore.acquire(never, false);
  expect(semaphore.getCounts()).toEqual({ inside: 1, waiting: 2 });
});

test('an aborted request leaves the queue and takes no permit', async () => {
  const semaphore = createFairSemaphore(1, 5);
  const release = await semaphore.acquire(never);
  const gone = new AbortController();
  const waiting = semaphore.acquire(gone.signal);
  const next = semaphore.acquire(never);
  gone.abort(new Error('gone'));
  await expect(waiting).rejects.toThrow('gone');
  release();
  (await next)();
  expect(semaphore.getCounts()).toEqual({ inside: 0, waiting: 0 });
  await expect(semaphore.acquire(gone.signal)).rejects.toThrow('gone');
});

test('one holder cannot take all permits, nor starve others', async () => {
  const semaphore = createFairSemaphore(3, 5);
  const order: string[] = [];
  const releases = new Map<string, () => void>();
  const come = (who: string, name: string): void =>
    void semaphore
      .forHolder(who)
      .acquire(never)
      .then((release) => {
        order.push(name);
        releases.set(name, release);
      });
  for (let i = 1; i <= 6; i++) come('a', `a${i}`);
  await settle();
  expect(order).toEqual(['a1', 'a2']);
  come('b', 'b1');
  come('b', 'b2');
  come('c', 'c1');
  await settle();
  expect(order).toEqual(['a1', 'a2', 'b1']);
  // c has no permit, so it comes before b with one, and before a although a has waited longer.
  for (const name of ['a1', 'b1', 'c1', 'a2']) {
    releases.get(name)!();
    await settle();
  }
  expect(order).toEqual(['a1', 'a2', 'b1', 'c1', 'b2', 'a3', 'a4']);
});

test('limits waiting requests per holder', async () => {
  const semaphore = createFairSemaphore(1, 2);
  const release = await semaphore.forHolder('a').acquire(never);
  for (let i = 0; i < 2; i++) void semaphore.forHolder('a').acquire(never);
  await expect(semaphore.forHolder('a').acquire(never)).rejects.toThrow('Too many');
  const other = semaphore.forHolder('b').acquire(never);
  expect(semaphore.getCounts()).toEqual({ inside: 1, waiting: 3 });
  // The total of waiting requests is limited, too.
  for (const who of ['c', 'c', 'd', 'd', 'e']) void semaphore.forHolder(who).acquire(never);
  await expect(semaphore.forHolder('f').acquire(never)).rejects.toThrow('Too many');
  release();
  (await other)();
});
