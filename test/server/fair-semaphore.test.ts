import { expect, test } from 'vitest';
import { createFairSemaphore } from '../../src/server/http/fair-semaphore.ts';
import { ProblemError } from '../../src/server/http/problem-details.ts';

const { signal: never } = new AbortController();
const settle = () => new Promise((resolve) => setImmediate(resolve));

test('grants a limited number of permits, and serves waiting requests in order', async () => {
  const gate = createFairSemaphore(2, 10);
  const order: number[] = [];
  const leaves: (() => void)[] = [];
  for (let i = 0; i < 5; i++)
    void gate.acquire(never).then((leave) => {
      order.push(i);
      leaves.push(leave);
    });
  await settle();
  expect([order, gate.getCounts()]).toEqual([[0, 1], { inside: 2, waiting: 3 }]);
  leaves[1]!();
  leaves[1]!();
  await settle();
  expect([order, gate.getCounts()]).toEqual([[0, 1, 2], { inside: 2, waiting: 2 }]);
  for (let i = 0; i < 5; i++) {
    for (const leave of leaves) leave();
    await settle();
  }
  expect([order, gate.getCounts()]).toEqual([[0, 1, 2, 3, 4], { inside: 0, waiting: 0 }]);
});

test('rejects with 503 and Retry-After if too many wait', async () => {
  const gate = createFairSemaphore(1, 1);
  await gate.acquire(never);
  void gate.acquire(never);
  const refused = await gate.acquire(never).catch((error: unknown) => error);
  expect(refused).toBeInstanceOf(ProblemError);
  expect((refused as ProblemError).status).toBe(503);
  expect(Number((refused as ProblemError).headers['retry-after'])).toBeGreaterThan(0);
  void gate.acquire(never, false);
  expect(gate.getCounts()).toEqual({ inside: 1, waiting: 2 });
});

test('an aborted request leaves the queue and takes no permit', async () => {
  const gate = createFairSemaphore(1, 5);
  const leave = await gate.acquire(never);
  const gone = new AbortController();
  const waiting = gate.acquire(gone.signal);
  const next = gate.acquire(never);
  gone.abort(new Error('gone'));
  await expect(waiting).rejects.toThrow('gone');
  leave();
  (await next)();
  expect(gate.getCounts()).toEqual({ inside: 0, waiting: 0 });
  await expect(gate.acquire(gone.signal)).rejects.toThrow('gone');
});

test('one holder cannot take all permits, nor starve others', async () => {
  const gate = createFairSemaphore(3, 5);
  const order: string[] = [];
  const leaves = new Map<string, () => void>();
  const come = (who: string, name: string): void =>
    void gate
      .forHolder(who)
      .acquire(never)
      .then((leave) => {
        order.push(name);
        leaves.set(name, leave);
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
    leaves.get(name)!();
    await settle();
  }
  expect(order).toEqual(['a1', 'a2', 'b1', 'c1', 'b2', 'a3', 'a4']);
});

test('limits waiting requests per holder', async () => {
  const gate = createFairSemaphore(1, 2);
  const leave = await gate.forHolder('a').acquire(never);
  for (let i = 0; i < 2; i++) void gate.forHolder('a').acquire(never);
  await expect(gate.forHolder('a').acquire(never)).rejects.toThrow('Too many');
  const other = gate.forHolder('b').acquire(never);
  expect(gate.getCounts()).toEqual({ inside: 1, waiting: 3 });
  // The total of waiting requests is limited, too.
  for (const who of ['c', 'c', 'd', 'd', 'e']) void gate.forHolder(who).acquire(never);
  await expect(gate.forHolder('f').acquire(never)).rejects.toThrow('Too many');
  leave();
  (await other)();
});
