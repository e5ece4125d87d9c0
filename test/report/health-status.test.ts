import { describe, expect, test } from 'vitest';
import type { ReportData } from '../../src/report/data/report-data.ts';
import { assessHealth, computeGrowth, describeRun, toRunMark } from '../../src/report/health-status.ts';
import { createReportData, createRun, nowMs } from './made-gathered.ts';

const hourMs = 3_600_000;
const completeness = (rest: Partial<ReportData> = {}) => {
  const gathered = createReportData(rest);
  const { shown, days, space } = gathered;
  return assessHealth(gathered, computeGrowth(days, space, { nowMs, shownFrom: shown.from, shownTo: shown.to }));
};
const { status, runs, gaps, cadence } = createReportData();

describe('health status', () => {
  test('is ok without findings after 14 days without problems', () => {
    expect(completeness()).toEqual({ state: 'ok', headline: 'OK', nextAction: null, findings: [] });
  });

  test.each([
    ['provisional', { provisional: 2 }, 'ok', 'OK, some coverage provisional'],
    ['complete_with_exceptions', {}, 'ok', 'OK, with exceptions'],
    ['complete_with_exceptions', { suspended: 1 }, 'warning', 'Needs attention'],
    ['incomplete', {}, 'ok', 'No new problems, but the archive is incomplete'],
  ] as const)('names the state of a %s archive: %o', (state, rest, sign, headline) => {
    const judged = { ...status, completeness: { ...status.completeness, state, ...rest } };
    expect(completeness({ status: judged })).toMatchObject({ state: sign, headline });
  });

  test('warns of a recent incomplete day, and notes one of a week ago', () => {
    const { days } = createReportData();
    const at = (n: number) => days.map((day, i) => (i === n ? { ...day, state: 'incomplete' as const } : day));
    const judged = { ...status, completeness: { ...status.completeness, state: 'incomplete' as const } };
    expect(completeness({ status: judged, days: at(11) })).toMatchObject({
      state: 'warning',
      headline: 'Needs attention',
    });
    expect(completeness({ status: judged, days: at(2) })).toMatchObject({
      state: 'ok',
      headline: 'No new problems, but the archive is incomplete',
    });
  });

  test('suggests the first step for an empty archive', () => {
    const empty = { runs: [], status: { ...status, generation: 0 } };
    expect(completeness(empty)).toMatchObject({ state: 'empty', nextAction: 'Start collecting: oddslake nightly' });
  });

  test.each([
    [3, 'action_required', 'key rejected', /Check ODDSLAKE_API_KEY/],
    [4, 'warning', 'incomplete', /nightly again/],
    [5, 'warning', 'another run was writing', /the other run/],
    [6, 'action_required', 'archive damaged', /verify --repair/],
    [7, 'action_required', 'upstream unreachable', /ODDSLAKE_BASE_URL/],
    [1, 'action_required', 'failed', /Run oddslake nightly again/],
  ])('a nightly that ended with %i: %s', (exitCode, state, word, action) => {
    const found = completeness({ runs: [...runs, createRun(1, { exitCode }, { error: 'What happened.' })] });
    expect(found).toMatchObject({ state, nextAction: expect.stringMatching(action) });
    expect(found.findings.map(({ message }) => message)).toEqual([
      `The last nightly (2026-11-22 08:00): ${word}. What happened.`,
    ]);
  });

  test('reports known damage whatever the outcome of the last runs', () => {
    const damaged = [{ path: 'ticks/a', kind: 'missing' as const, found_at: nowMs - hourMs }];
    const found = completeness({ status: { ...status, damaged, damaged_count: 1 } });
    expect(found).toMatchObject({
      state: 'action_required',
      nextAction: 'Repair the archive with oddslake verify --repair',
    });
    expect(found.findings[0]!.message).toMatch(/^1 file damaged: ticks\/a \(missing, found /);
  });

  test('repairing damage comes before what the last run suggests', () => {
    const damaged = ['a', 'b', 'c'].map((path) => ({ path, kind: 'missing' as const, found_at: nowMs - hourMs }));
    const reported = createRun(1, { exitCode: 4 }, { error: 'x', next_action: 'Fetch the missing windows.' });
    const unreadable = { ...cadence, error: 'a is missing' };
    const found = completeness({
      runs: [...runs, reported],
      status: { ...status, damaged, damaged_count: 3 },
      cadence: unreadable,
    });
    expect(found.nextAction).toBe('Repair the archive with oddslake verify --repair');
    // The damage is named once.
    expect(found.findings.map(({ severity }) => severity)).toEqual(['action_required', 'warning']);
    expect(found.findings[0]!.message).toMatch(/^3 files damaged: a \(missing, found .*\) and 2 more\.$/);
  });

  test.each([
    [1, 1000, 'ok'],
    [10, 1000, 'ok'],
    [11, 1000, 'warning'],
  ] as const)('%i unusable of %i ticks: %s', (unusable, fetched, state) => {
    const warning = `${unusable} unusable ticks were quarantined in .oddslake/quarantine.`;
    const reported = {
      ticks: { fetched, accepted: fetched, duplicates: 0, conflicts: 0, quarantined: unusable },
      next_action: 'Inspect the rejected rows',
      warnings: [warning],
      warnings_count: 1,
    };
    const found = completeness({ runs: [...runs, createRun(1, {}, reported)] });
    expect([found.state, found.nextAction]).toEqual([state, state === 'ok' ? null : 'Inspect the rejected rows']);
    const other = { ...reported, warnings: [warning, 'The disk is slow.'], warnings_count: 2 };
    expect(completeness({ runs: [...runs, createRun(1, {}, other)] }).state).toBe('warning');
    // The list of warnings is cut.
    expect(completeness({ runs: [...runs, createRun(1, {}, { ...reported, warnings_count: 21 })] }).state).toBe(
      'warning',
    );
  });

  test('the next action of the last run replaces the general one of its exit code', () => {
    const reported = createRun(1, { exitCode: 4 }, { error: 'x', next_action: 'Do this.' });
    expect(completeness({ runs: [...runs, reported] }).nextAction).toBe('Do this.');
    expect(completeness({ runs: [...runs, reported, createRun(0.5, { job: 'ticks' })] }).nextAction).toMatch(
      /nightly again/,
    );
  });

  test('reports a failed nightly after other successful jobs, but not a stopped one', () => {
    const failed = createRun(3, { exitCode: 7 });
    expect(completeness({ runs: [...runs, failed, createRun(1, { job: 'ticks' })] }).findings).toHaveLength(1);
    expect(completeness({ runs: [...runs, createRun(3, { exitCode: 143 })] }).state).toBe('ok');
    expect(
      completeness({ runs: [...runs, createRun(3, { state: 'interrupted', exitCode: null, summary: null })] }).state,
    ).toBe('warning');
  });

  test('reports a failed nightly after many runs of other jobs', () => {
    const others = Array.from({ length: 200 }, (_, i) => createRun((200 - i) / 12, { job: 'ticks' }));
    const { findings, state } = completeness({ runs: others, lastNight: createRun(18, { exitCode: 3 }) });
    expect([state, findings.length]).toEqual(['action_required', 1]);
    expect(completeness({ runs: [...runs, createRun(1)], lastNight: createRun(18, { exitCode: 3 }) }).state).toBe('ok');
  });

  test('lag without runs requires action; a gap that runs leave is a warning', () => {
    const behind = { ...status, lag_ms: 100 * hourMs };
    expect(completeness({ status: behind, runs: [createRun(100)] })).toMatchObject({
      state: 'action_required',
      nextAction: 'Run oddslake nightly, and check that its schedule is running.',
      findings: [{ message: 'The lag is 4 d 4 h; the limit is 2 d.' }],
    });
    expect(completeness({ status: behind })).toMatchObject({ state: 'warning' });
    expect(completeness({ status: { ...status, lag_ms: 48 * hourMs } }).state).toBe('ok');
  });

  test('recent gaps are a warning, old ones a note; lost ticks can be restored', () => {
    const some = { ...gaps, windows: 3, symbols: 2, span: { from: nowMs - 20 * hourMs, to: nowMs - 10 * hourMs } };
    const late = completeness({ gaps: { ...some, recent: { windows: 1, symbols: 1 } } });
    expect(late).toMatchObject({
      state: 'warning',
      findings: [{ message: '1 gap of 1 symbol in recent days.' }],
      nextAction: 'Fetch them with oddslake backfill --from 2026-11-21T13:00:00Z --to 2026-11-21T23:00:00Z',
    });
    expect(completeness({ gaps: some })).toMatchObject({
      state: 'ok',
      nextAction: null,
      findings: [{ severity: 'info' }],
    });
    expect(completeness({ gaps: { ...some, lost: 3 } })).toMatchObject({ state: 'warning', nextAction: /--repair/ });
  });

  test('a suggested backfill has whole minutes and contains the gaps', () => {
    const span = { from: nowMs - 20 * hourMs + 61, to: nowMs - 10 * hourMs + 1 };
    const { nextAction } = completeness({
      gaps: { ...gaps, windows: 3, symbols: 2, span, recent: { windows: 1, symbols: 1 } },
    });
    expect(nextAction).toBe('Fetch them with oddslake backfill --from 2026-11-21T13:00:00Z --to 2026-11-21T23:01:00Z');
  });

  test('warns of a full disk within a month, and requires action within a week', () => {
    // One million bytes per day.
    const free = (freeBytes: number) => completeness({ space: { freeBytes, totalBytes: 1e12 } });
    expect(free(40e6)).toMatchObject({ state: 'ok', findings: [] });
    expect(free(20e6)).toMatchObject({
      state: 'warning',
      findings: [{ message: 'The disk will be full in 20 d: 20.0 MB free, growing by 1.0 MB per day.' }],
    });
    expect(free(5e6).state).toBe('action_required');
  });

  test('an unreadable file requires action, a silent symbol is a note', () => {
    expect(completeness({ cadence: { ...cadence, error: 'x is damaged.' } })).toMatchObject({
      state: 'action_required',
    });
    const silent = [{ ...cadence.busiest[0]!, lastTick: 1, quietMs: 1 }];
    expect(completeness({ cadence: { ...cadence, silent } })).toMatchObject({
      state: 'ok',
      findings: [{ severity: 'info' }],
    });
  });
});

test('every outcome of a run has its own sign', () => {
  const warned = createRun(1, {}, { warnings: ['w'], warnings_count: 2 });
  const all = [
    createRun(1),
    warned,
    createRun(1, { exitCode: 4 }),
    createRun(1, { exitCode: 1 }),
    createRun(1, { exitCode: 130 }),
  ];
  const open = createRun(1, { state: 'running', finishedAt: null, summary: null });
  expect([...all, open].map((run) => toRunMark(run).sign).join('')).toBe('✓!◐✕–…');
  expect(describeRun(warned)).toBe('w (and 1 more)');
  expect(
    describeRun(
      createRun(
        1,
        { exitCode: 4 },
        { failures: [{ symbol: 'A', from: null, to: null, reason: 'no' }], failures_count: 1 },
      ),
    ),
  ).toBe('A: no');
});
