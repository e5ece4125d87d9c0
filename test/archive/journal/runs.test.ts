import { expect, test } from 'vitest';
import {
  endJob,
  finishRun,
  formatUnfinishedRuns,
  readCurrentRuns,
  readLastEndedRuns,
  readLatestRuns,
  startRun,
} from '../../../src/archive/journal/runs.ts';
import { now, opened } from '../scratch.ts';

const hourMs = 3_600_000;

test('ignores runs that ended in the future', () => {
  const { db } = opened().state;
  const recordRun = (runId: string, job: string, at: number, exitCode: number): void => {
    startRun(db, runId, job, 1, at);
    finishRun(db, runId, at + 1000, exitCode, `{"run":"${runId}"}`);
  };
  recordRun('a', 'nightly', now - 2 * hourMs, 0);
  recordRun('b', 'nightly', now - hourMs, 4);
  recordRun('c', 'nightly', now + 9000 * hourMs, 0);
  recordRun('d', 'ticks', now + 9000 * hourMs, 0);
  expect(readLastEndedRuns(db, now).map(({ job, summary, succeededAt }) => ({ job, summary, succeededAt }))).toEqual([
    { job: 'nightly', summary: '{"run":"b"}', succeededAt: now - 2 * hourMs + 1000 },
  ]);
  expect(readLatestRuns(db, 10, now).map(({ runId }) => runId)).toEqual(['a', 'b']);
});

test('finds the last end of a job after many runs of others', () => {
  const { db } = opened().state;
  startRun(db, 'b', 'ticks', 1, now - hourMs);
  startRun(db, 'n', 'nightly', 1, now - 3 * hourMs);
  finishRun(db, 'n', now - 3 * hourMs, 4, '{}');
  startRun(db, 'under way', 'nightly', 1, now - 2 * hourMs);
  expect(readLatestRuns(db, 1, now).map(({ runId }) => runId)).toEqual(['b']);
  expect(readLastEndedRuns(db, now)).toMatchObject([{ job: 'nightly', exitCode: 4, summary: '{}' }]);
  expect(readLastEndedRuns(db, now - 4 * hourMs)).toEqual([]);
});

test('shows no success of a job before all of its runs have ended', () => {
  const { db } = opened().state;
  startRun(db, 'a', 'nightly', process.pid, now - hourMs, undefined, 'alpha');
  finishRun(db, 'a', now - 1, null, '{}');
  const unfinished = { runId: 'a', finishedAt: null, exitCode: null };
  expect(readLastEndedRuns(db, now)).toEqual([]);
  expect(readLatestRuns(db, 1, now)).toMatchObject([{ ...unfinished, summary: null }]);
  endJob(db, ['a'], { exit_code: 0, verdict: { state: 'ok', text: 'OK', command: null }, findings: [] });
  expect(readLastEndedRuns(db, now)).toMatchObject([{ exitCode: 0, succeededAt: now - 1 }]);
});

test('names the runs that have not ended, but not those whose process is gone', () => {
  const { db } = opened().state;
  expect(formatUnfinishedRuns(db, 'own')).toBe('');
  startRun(db, 'own', 'nightly', process.pid, now);
  startRun(db, 'other', 'backfill', process.ppid, Date.UTC(2025, 5, 10, 3, 17));
  startRun(db, 'ended', 'markets', process.ppid, now);
  finishRun(db, 'ended', now, 0, '{}');
  // Linux has no process with a number this high.
  startRun(db, 'killed', 'ticks', 2 ** 30, now);
  expect(formatUnfinishedRuns(db, 'own')).toBe(
    `Not ended: backfill (process ${process.ppid}, since 2025-06-10T03:17:00Z). `,
  );
});

test('keeps the failure of a job among the current runs, however many other runs follow', () => {
  const { db } = opened().state;
  const recordRun = (runId: string, job: string, at: number, exitCode: number): void => {
    startRun(db, runId, job, 1, at);
    finishRun(db, runId, at, exitCode, '{}');
  };
  recordRun('mended by a nightly', 'push', now - 4 * hourMs, 1);
  recordRun('n', 'nightly', now - 3 * hourMs, 0);
  recordRun('p', 'push', now - 2 * hourMs, 6);
  for (let i = 0; i < 30; i++) {
    recordRun(`t${i}`, 'ticks', now - hourMs + i, 0);
    recordRun(`l${i}`, 'live', now - hourMs + i, 4);
  }
  startRun(db, 'under way', 'ticks', 1, now);
  expect(readCurrentRuns(db, now).map(({ runId }) => runId)).toEqual(['n', 'p', 't29', 'under way']);
});

test('the current runs have the last nightly of each source, and end those of a source that is not collected any more', () => {
  const { db } = opened().state;
  const recordRun = (runId: string, source: string | null, at: number, exitCode: number, job = 'nightly'): void => {
    startRun(db, runId, job, 1, at, undefined, source);
    finishRun(db, runId, at, exitCode, '{}');
  };
  recordRun('gone', 'gone', now - 9 * 24 * hourMs, 5);
  recordRun('older', 'alpha', now - 5 * hourMs, 0);
  recordRun('alpha', 'alpha', now - 4 * hourMs, 5);
  recordRun('mended by a nightly', null, now - 3 * hourMs, 4, 'import');
  recordRun('beta', 'beta', now - 2 * hourMs, 0);
  recordRun('import', null, now - hourMs, 4, 'import');
  expect(readCurrentRuns(db, now).map(({ runId }) => runId)).toEqual(['alpha', 'beta', 'import']);
});
