import { expect, test } from 'vitest';
import { isDiskFullError, JobThreadError, runInThread } from '../../../src/archive/job-thread.ts';
import { toBacktestFailure } from '../../../src/backtest/run/backtest-job.ts';
import { opened } from '../scratch.ts';

test('recognizes a full disk by the error, its cause and DuckDB messages', () => {
  const full = Object.assign(new Error('write'), { code: 'ENOSPC' });
  for (const error of [
    full,
    new Error('the file', { cause: full }),
    new Error('the file', {
      cause: new Error('its folder', { cause: Object.assign(new Error(''), { code: 'EDQUOT' }) }),
    }),
    new Error('IO Error: Could not write all bytes to file "x": wanted=1 wrote=0: No space left on device'),
  ])
    expect([error.message, isDiskFullError(error)]).toEqual([error.message, true]);
  for (const other of [new Error('write'), Object.assign(new Error('x'), { code: 'EIO' }), null, 'ENOSPC'])
    expect(isDiskFullError(other)).toBe(false);
});

test('keeps the failure reason of a thread; other errors are unexpected', () => {
  const faults = [{ name: 'from', reason: 'is late' }];
  expect(toBacktestFailure(new JobThreadError({ why: 'invalid', message: 'x', faults }))).toEqual({
    why: 'invalid',
    message: 'x',
    faults,
  });
  for (const error of [new JobThreadError({ why: 'unexpected', message: 'y' }), new Error('y'), 'y'])
    expect(toBacktestFailure(error)).toMatchObject({ why: 'unexpected', faults: [] });
});

test.runIf(process.platform === 'linux')(
  'jobs have the lowest CPU priority; a task that a client waits for a higher one, as the lowest would stop it on a busy machine',
  async () => {
    const archive = opened();
    const entry = { name: './priority-thread', beside: import.meta.url };
    const readPriority = (isAwaited: boolean): Promise<unknown> =>
      runInThread(entry, archive, null, { signal: new AbortController().signal, progress() {}, isAwaited });
    expect([await readPriority(false), await readPriority(true)]).toEqual([19, 10]);
  },
);
