import { expect, onTestFinished, test } from 'vitest';
import { systemClock } from '../../../src/base/system.ts';
import { JobRunner } from '../../../src/server/jobs/job-runner.ts';
import { WorkspaceUnavailableError } from '../../../src/server/workspace/database-url.ts';

/** An in-memory queue of one job, whose result cannot be recorded the first few times. */
async function ran(lost: number): Promise<string[]> {
  const messages: string[] = [];
  const over = Promise.withResolvers<void>();
  let state = 'waiting';
  let failuresLeft = lost;
  const clock = { ...systemClock, sleep: (ms: number, signal?: AbortSignal) => systemClock.sleep(ms / 1000, signal) };
  const runner = new JobRunner<{ id: string }>(
    {
      tryLock: () => ({ release() {}, [Symbol.dispose]() {} }),
      jobs: {
        async releaseAll() {
          if (state === 'running') state = 'waiting';
        },
        async take() {
          if (state !== 'waiting') return null;
          state = 'running';
          return { id: 'a' };
        },
        progress: async () => true,
        release: async () => {},
        async finish(_id, _runner, result) {
          if (!('error' in result) && failuresLeft-- > 0) throw new WorkspaceUnavailableError('not now');
          state = 'error' in result ? 'failed' : 'finished';
          messages.push(state);
          over.resolve();
          return true;
        },
      },
      async run() {
        messages.push('made');
        return {};
      },
      describeFailure: String,
      cleanUp: async () => {},
      discard() {},
    },
    { clock, log: { debug() {}, info() {}, warn() {}, error() {} } },
  );
  onTestFinished(() => runner.stop());
  await over.promise;
  return messages;
}

test('records the result once the database is back, without running again', async () => {
  expect(await ran(3)).toEqual(['made', 'finished']);
});

test('restarts the job, without a failure, if the database stays away for long', async () => {
  expect(await ran(12)).toEqual(['made', 'made', 'finished']);
});
