import { expect, test } from 'vitest';
import { openWorkerPool } from '../../../src/base/worker-threads.ts';

test('threads do what they are asked, and a task that fails fails alone', async () => {
  const pool = await openWorkerPool('./sums', import.meta.url, 2);
  const asked = [pool.run('sum', [1, 2]), pool.run('sum', []), pool.run('sum', [3])];
  expect(await Promise.allSettled(asked)).toEqual([
    { status: 'fulfilled', value: 3 },
    { status: 'rejected', reason: expect.objectContaining({ message: 'nothing to add' }) },
    { status: 'fulfilled', value: 3 },
  ]);
  await pool.close();
  await expect(pool.run('sum', [1])).rejects.toThrow('the threads have ended');
});

test('threads that die as they start are an error of what is asked of them, and of nothing else', async () => {
  // Of several, some die while the others are being ended.
  const pool = await openWorkerPool('./dying', import.meta.url, 6);
  await expect(pool.run('sum', [1])).rejects.toThrow();
  await expect(pool.run('sum', [2])).rejects.toThrow();
  await pool.close();
});

test('tasks that wait when the threads are ended are rejected', async () => {
  const pool = await openWorkerPool('./sums', import.meta.url, 1);
  const asked = Array.from({ length: 8 }, () => pool.run('sum', [1]));
  const all = Promise.allSettled(asked);
  await pool.close();
  expect((await all).map(({ status }) => status)).toContain('rejected');
});
