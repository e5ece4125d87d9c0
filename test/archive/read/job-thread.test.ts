import { expect, test } from 'vitest';
import { isDiskFullError, JobThreadError } from '../../../src/archive/job-thread.ts';
import { toBacktestFailure } from '../../../src/backtest/run/backtest-job.ts';

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
