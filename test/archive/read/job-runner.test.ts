import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../src/base/system.ts';
import { startJobRunner } from '../../../src/server/jobs/job-runner.ts';
import { WorkspaceUnavailableError } from '../../../src/server/workspace/database-url.ts';

/** A queue of one job in memory, whose finish cannot be written down the first so many times. */
async function ran(lost: number): Promise<string[]> {
  const told: string[] = [];
  const over = Promise.withResolvers<void>();
  let state = 'waiting';
  let left = lost;
  const clock = { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 1000, signal) };
  const runner = startJobRunner<{ id: string }>(
    {
      plural: 'jobs',
      tryLock: () => ({ release() {} }),
      async releaseAll() {
        if (state === 'running') state = 'waiting';
      },
      cleanUp: async () => {},
      async take() {
        if (state !== 'waiting') return null;
        state = 'running';
        return { id: 'a' };
      },
      progress: async () => true,
      release: async () => {},
      async run() {
        told.push('made');
        return async () => {
          if (left-- > 0) throw new WorkspaceUnavailableError('not now');
          told.push('finished');
          state = 'done';
          over.resolve();
        };
      },
      async fail() {
        told.push('failed');
        state = 'failed';
        over.resolve();
      },
    },
    { clock, log: { debug() {}, info() {}, warn() {}, error() {} } },
  );
  onTestFinished(() => runner.stop());
  await over.promise;
  return told;
}

test('what was made is written down once the database is there again, and not made again', async () => {
  expect(await ran(3)).toEqual(['made', 'finished']);
});

test('where it stays away for long, the job is begun again, and has not failed', async () => {
  expect(await ran(12)).toEqual(['made', 'made', 'finished']);
});
