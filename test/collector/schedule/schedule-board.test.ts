import { expect, test } from 'vitest';
import type { Summary } from '../../../src/archive/journal/run-summary.ts';
import type { ExitCode } from '../../../src/base/errors.ts';
import { createScheduleEntry } from '../../../src/base/timetable.ts';
import type { LastRunRecord } from '../../../src/collector/run/last-runs.ts';
import { emptyFacts, summarize } from '../../../src/collector/run/summary.ts';
import { openJobStatusBoard } from '../../../src/collector/schedule/job-status.ts';
import { parseCron } from '../../../src/settings/cron.ts';

const hour = 3_600_000;
const at = (text: string): number => Date.parse(`2026-11-${text}:00Z`);
const rhythm = parseCron('0 3 * * *');

const ended = (started_at: number, exit_code: ExitCode = 0): Summary => ({
  ...summarize({
    ...emptyFacts,
    ...{ version: '1', job: 'nightly', run_id: 'r', started_at, finished_at: started_at + 1000, strict: false },
    thrown: undefined,
  }),
  exit_code,
});
const known = (run: Summary): LastRunRecord[] => [{ run, succeededAt: run.finished_at }];
const board = (begun: number) => openJobStatusBoard([{ name: 'nightly', timetable: rhythm }], 6 * hour, begun);

test('a job is late if no run has ended in time since its scheduled time', () => {
  const { readStatus } = board(at('20T12:00'));
  const last = known(ended(at('20T03:00')));
  expect(readStatus(last, at('21T08:59')).faults).toEqual([]);
  expect(readStatus(last, at('21T09:00')).faults).toEqual([
    { name: 'nightly', reason: 'has not run since it was due at 2026-11-21T03:00:00Z' },
  ]);
  expect(readStatus(known(ended(at('21T03:00'), 3)), at('21T09:00')).faults).toEqual([]);
});

test('a job that hangs is late until it ends', () => {
  const { readStatus, recordStart, recordEnd: over } = board(at('20T12:00'));
  const last = known(ended(at('20T03:00')));
  recordStart('nightly', at('21T03:01'));
  expect(readStatus(last, at('21T09:30')).faults).toEqual([
    {
      name: 'nightly',
      reason: 'was due at 2026-11-21T03:00:00Z, and the run started at 2026-11-21T03:01:00Z has not ended',
    },
  ]);
  const value = (name: string, nowMs: number) =>
    readStatus(last, nowMs).samples.find((sample) => sample.name === `oddslake_schedule_job_${name}`)?.value;
  expect(value('running_seconds', at('21T09:30'))).toBe(6 * 3600 + 29 * 60);
  expect(value('late', at('21T09:30'))).toBe(1);
  // The board knows a run that the state lacks, because it could not be opened.
  over({ ...ended(at('21T03:01'), 1), run_id: null });
  expect(readStatus(last, at('21T09:30')).faults).toEqual([]);
  expect(value('running', at('21T09:30'))).toBe(0);
});

test('a job that never ran has missed nothing before the start of the schedule', () => {
  const { readStatus } = board(at('20T12:00'));
  expect(readStatus([], at('20T23:00')).faults).toEqual([]);
  expect(readStatus([], at('21T09:00')).faults).toHaveLength(1);
});

test('reports the next start, and later that it is stopping', () => {
  const { readStatus, updateEntries, recordStopping } = board(at('20T12:00'));
  updateEntries([createScheduleEntry('nightly', rhythm, null, at('20T12:00'))]);
  const next = () => readStatus([], at('20T12:00')).samples.find(({ name }) => name.includes('next_start'))?.value;
  expect(next()).toBe(at('21T03:00') / 1000);
  recordStopping();
  expect(next()).toBe(undefined);
  expect(readStatus([], at('20T12:00')).faults).toEqual([{ name: 'schedule', reason: 'is stopping' }]);
});

test('ignores runs in the future after the clock is corrected', () => {
  const { readStatus, recordEnd: over } = board(at('20T12:00'));
  const year = 365 * 24 * hour;
  over(ended(at('21T03:00') + year));
  const last = known(ended(at('20T03:00')));
  const seen = (nowMs: number) => readStatus(last, nowMs);
  expect(seen(at('21T09:00')).faults).toEqual([
    { name: 'nightly', reason: 'has not run since it was due at 2026-11-21T03:00:00Z' },
  ]);
  expect(seen(at('21T09:00')).runs).toEqual(last);
  over(ended(at('21T09:30'), 4));
  expect(seen(at('21T10:00')).runs.map(({ run }) => run.started_at)).toEqual([at('21T09:30')]);
  expect(seen(at('22T10:00')).faults).toHaveLength(1);
});
