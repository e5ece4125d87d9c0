import { describe, expect, test } from 'vitest';
import type { ReportData } from '../../src/report/data/report-data.ts';
import { assessHealth, computeGrowth, describeRun, toRunMark } from '../../src/report/health-status.ts';
import { madeGathered, madeRun, nowMs } from './made-gathered.ts';

const hourMs = 3_600_000;
const verdict = (rest: Partial<ReportData> = {}) => {
  const gathered = madeGathered(rest);
  const { shown, days, space } = gathered;
  return assessHealth(gathered, computeGrowth(days, space, { nowMs, shownFrom: shown.from, shownTo: shown.to }));
};
const { status, runs, gaps, cadence } = madeGathered();

describe('whether all is well', () => {
  test('a fortnight without a flaw is, and nothing has to be done', () => {
    expect(verdict()).toEqual({ state: 'well', headline: 'All is well', nextAction: null, findings: [] });
  });

  test.each([
    ['provisional', { provisional: 2 }, 'well', 'All is well, provisionally'],
    ['complete_with_exceptions', {}, 'well', 'All is well, with exceptions'],
    ['complete_with_exceptions', { suspended: 1 }, 'look', 'Worth a look'],
    ['incomplete', {}, 'well', 'Nothing new, but the archive is incomplete'],
  ] as const)('an archive that is %s is not called well without a word: %o', (state, rest, sign, headline) => {
    const judged = { ...status, verdict: { ...status.verdict, state, ...rest } };
    expect(verdict({ status: judged })).toMatchObject({ state: sign, headline });
  });

  test('a day that stays incomplete is worth a look, and one that is a week old is good to know', () => {
    const { days } = madeGathered();
    const at = (n: number) => days.map((day, i) => (i === n ? { ...day, state: 'incomplete' as const } : day));
    const judged = { ...status, verdict: { ...status.verdict, state: 'incomplete' as const } };
    expect(verdict({ status: judged, days: at(11) })).toMatchObject({ state: 'look', headline: 'Worth a look' });
    expect(verdict({ status: judged, days: at(2) })).toMatchObject({
      state: 'well',
      headline: 'Nothing new, but the archive is incomplete',
    });
  });

  test('an archive that nothing was done with says how to begin', () => {
    const empty = { runs: [], status: { ...status, generation: 0 } };
    expect(verdict(empty)).toMatchObject({ state: 'empty', nextAction: 'Start collecting: oddslake nightly' });
  });

  test.each([
    [3, 'act', 'key refused', /Check ODDSLAKE_API_KEY/],
    [4, 'look', 'incomplete', /nightly again/],
    [5, 'look', 'another run was writing', /which run/],
    [6, 'act', 'archive damaged', /verify --repair/],
    [7, 'act', 'upstream unreachable', /ODDSLAKE_BASE_URL/],
    [1, 'act', 'failed', /Run oddslake nightly again/],
  ])('a nightly that ended with %i: %s', (exitCode, state, word, action) => {
    const found = verdict({ runs: [...runs, madeRun(1, { exitCode }, { error: 'What happened.' })] });
    expect(found).toMatchObject({ state, nextAction: expect.stringMatching(action) });
    expect(found.findings.map(({ text }) => text)).toEqual([
      `The last nightly (2026-11-22 08:00): ${word}. What happened.`,
    ]);
  });

  test('damage that is known is told, whatever the last runs came to', () => {
    const damaged = [{ path: 'ticks/a', kind: 'missing' as const, found_at: nowMs - hourMs }];
    const found = verdict({ status: { ...status, damaged, damaged_count: 1 } });
    expect(found).toMatchObject({ state: 'act', nextAction: 'Mend it with oddslake verify --repair' });
    expect(found.findings[0]!.text).toMatch(/^1 file not as published: ticks\/a \(missing, found /);
  });

  test('what the last run says is to be done next comes before what the report would say', () => {
    const told = madeRun(1, { exitCode: 4 }, { error: 'x', nextAction: 'Do this.' });
    expect(verdict({ runs: [...runs, told] }).nextAction).toBe('Do this.');
    expect(verdict({ runs: [...runs, told, madeRun(0.5, { job: 'ticks' })] }).nextAction).toMatch(/nightly again/);
  });

  test('a nightly that failed is told after another job went well, and one that was stopped is no fault', () => {
    const failed = madeRun(3, { exitCode: 7 });
    expect(verdict({ runs: [...runs, failed, madeRun(1, { job: 'ticks' })] }).findings).toHaveLength(1);
    expect(verdict({ runs: [...runs, madeRun(3, { exitCode: 143 })] }).state).toBe('well');
    expect(verdict({ runs: [...runs, madeRun(3, { state: 'broken off', exitCode: null, summary: null })] }).state).toBe(
      'look',
    );
  });

  test('a nightly that failed is told however many runs of other jobs came after it', () => {
    const others = Array.from({ length: 200 }, (_, i) => madeRun((200 - i) / 12, { job: 'ticks' }));
    const { findings, state } = verdict({ runs: others, lastNight: madeRun(18, { exitCode: 3 }) });
    expect([state, findings.length]).toEqual(['act', 1]);
    expect(verdict({ runs: [...runs, madeRun(1)], lastNight: madeRun(18, { exitCode: 3 }) }).state).toBe('well');
  });

  test('lagging because nothing runs is urgent; a hole that jobs leave is worth a look', () => {
    const behind = { ...status, lag_ms: 100 * hourMs };
    expect(verdict({ status: behind, runs: [madeRun(100)] })).toMatchObject({
      state: 'act',
      nextAction: 'Run oddslake nightly, and see whether its schedule is running.',
      findings: [{ text: 'Collecting lies 4 d 4 h behind; 2 d are allowed for.' }],
    });
    expect(verdict({ status: behind })).toMatchObject({ state: 'look' });
    expect(verdict({ status: { ...status, lag_ms: 48 * hourMs } }).state).toBe('well');
  });

  test('gaps of late are worth a look, old ones good to know, lost ticks can be had again', () => {
    const some = { ...gaps, windows: 3, symbols: 2, span: { from: nowMs - 20 * hourMs, to: nowMs - 10 * hourMs } };
    const late = verdict({ gaps: { ...some, recent: { windows: 1, symbols: 1 } } });
    expect(late).toMatchObject({
      state: 'look',
      findings: [{ text: '1 gap in the lives of 1 symbol in the last days.' }],
      nextAction: 'Ask again with oddslake backfill --from 2026-11-21T13:00:00Z --to 2026-11-21T23:00:00Z',
    });
    expect(verdict({ gaps: some })).toMatchObject({
      state: 'well',
      nextAction: null,
      findings: [{ severity: 'note' }],
    });
    expect(verdict({ gaps: { ...some, lost: 3 } })).toMatchObject({ state: 'look', nextAction: /--repair/ });
  });

  test('a disk that is full within a month is told, within a week it is urgent', () => {
    // A million bytes a day.
    const free = (freeBytes: number) => verdict({ space: { freeBytes, totalBytes: 1e12 } });
    expect(free(40e6)).toMatchObject({ state: 'well', findings: [] });
    expect(free(20e6)).toMatchObject({
      state: 'look',
      findings: [{ text: 'The disk is full in 20 d: 20.0 MB free, 1.0 MB more a day.' }],
    });
    expect(free(5e6).state).toBe('act');
  });

  test('a file that cannot be read is urgent, a symbol that is silent good to know', () => {
    expect(verdict({ cadence: { ...cadence, error: 'x is damaged.' } })).toMatchObject({ state: 'act' });
    const silent = [{ ...cadence.busiest[0]!, lastTick: 1, quietMs: 1 }];
    expect(verdict({ cadence: { ...cadence, silent } })).toMatchObject({
      state: 'well',
      findings: [{ severity: 'note' }],
    });
  });
});

test('every end of a run has a sign of its own, so that colour is not needed', () => {
  const warned = madeRun(1, {}, { warnings: ['w'], warningsCount: 2 });
  const all = [
    madeRun(1),
    warned,
    madeRun(1, { exitCode: 4 }),
    madeRun(1, { exitCode: 1 }),
    madeRun(1, { exitCode: 130 }),
  ];
  const open = madeRun(1, { state: 'under way', finishedAt: null, summary: null });
  expect([...all, open].map((run) => toRunMark(run).sign).join('')).toBe('✓!◐✕–…');
  expect(describeRun(warned)).toBe('w (and 1 more)');
  expect(
    describeRun(madeRun(1, { exitCode: 4 }, { failures: [{ symbol: 'A', reason: 'no' }], failuresCount: 1 })),
  ).toBe('A: no');
});
