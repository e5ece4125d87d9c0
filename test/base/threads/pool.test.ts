import { getPriority } from 'node:os';
import { expect, test } from 'vitest';
import { openWorkerPool, putPoolsInBackground } from '../../../src/base/worker-threads.ts';

test('threads run tasks, and a failed task affects no other', async () => {
  const pool = await openWorkerPool('./sums', import.meta.url, 2);
  const requested = [pool.run('sum', [1, 2]), pool.run('sum', []), pool.run('sum', [3])];
  expect(await Promise.allSettled(requested)).toEqual([
    { status: 'fulfilled', value: 3 },
    { status: 'rejected', reason: expect.objectContaining({ message: 'nothing to add' }) },
    { status: 'fulfilled', value: 3 },
  ]);
  await pool.close();
  await expect(pool.run('sum', [1])).rejects.toThrow('the threads have ended');
});

test('threads that exit at start reject their tasks only', async () => {
  // Some threads exit while the others are being terminated.
  const pool = await openWorkerPool('./dying', import.meta.url, 6);
  await expect(pool.run('sum', [1])).rejects.toThrow();
  await expect(pool.run('sum', [2])).rejects.toThrow();
  await pool.close();
});

test('rejects waiting tasks when the threads are closed', async () => {
  const pool = await openWorkerPool('./sums', import.meta.url, 1);
  const requested = Array.from({ length: 8 }, () => pool.run('sum', [1]));
  const all = Promise.allSettled(requested);
  await pool.close();
  expect((await all).map(({ status }) => status)).toContain('rejected');
});

test.runIf(process.platform === 'linux')(
  'threads of a service have the lowest CPU priority, and only they',
  async () => {
    const readPriority = async (): Promise<unknown> => {
      const pool = await openWorkerPool('./sums', import.meta.url, 1);
      try {
        return await pool.run('readOwnPriority', null);
      } finally {
        await pool.close();
      }
    };
    const usual = getPriority(process.pid);
    expect(await readPriority()).toBe(usual);
    putPoolsInBackground();
    expect(await readPriority()).toBe(19);
    expect(getPriority(process.pid)).toBe(usual);
  },
);
