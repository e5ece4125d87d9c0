import { expect, test } from 'vitest';
import { computeDailyGrowth } from '../../src/archive/format/growth.ts';
import { formatDay } from '../../src/base/time.ts';
import { computeGrowth, describeRun, toRunMark } from '../../src/report/growth-and-runs.ts';
import { createFinding, createRun } from './made-gathered.ts';

const dayMs = 86_400_000;
const first = Date.UTC(2026, 5, 1);
const daysOf = (bytes: readonly (number | null)[]) =>
  bytes.flatMap((value, i) => (value === null ? [] : [{ date: formatDay(first + i * dayMs), bytes: value }]));
const space = { freeBytes: 1000, totalBytes: 5000 };
const at = (days: number) => ({
  nowMs: first + days * dayMs,
  shownFrom: first,
  shownTo: first + Math.ceil(days) * dayMs,
});

test('forecasts a full disk from the growth of the last finished days', () => {
  // Four finished days of 100 bytes, and half of today.
  const growth = computeGrowth(daysOf([100, 100, 100, 100, 30]), space, at(4.5));
  expect(growth).toMatchObject({ bytesPerDay: 100, days: 3, fullAt: first + 14.5 * dayMs });
  expect(growth.sizes.map(({ bytes }) => bytes)).toEqual([100, 200, 300, 400, 430]);
});

test('a day without files counts as no growth', () => {
  // The first day does not count: (0 + 90 + 0 + 90) / 4.
  expect(computeGrowth(daysOf([90, null, 90, null, 90]), space, at(5))).toMatchObject({ bytesPerDay: 45, days: 4 });
  // Days that are only judged, before the first file, are not days of the archive.
  expect(computeGrowth(daysOf([0, 0, 0, 5, 90, 90]), space, at(6))).toMatchObject({ bytesPerDay: 90, days: 2 });
});

test('the bytes of a day are those of all its files', () => {
  const files = [
    { date: '2026-06-05', bytes: 5 },
    { date: '2026-06-04', bytes: 100 },
    { date: '2026-06-03', bytes: 200 },
    { date: '2026-06-03', bytes: 300 },
    { date: '2026-06-02', bytes: 1e9 },
    { date: null, bytes: 1e9 },
  ];
  const nowMs = Date.UTC(2026, 5, 5, 9);
  expect(computeDailyGrowth(files, nowMs)).toEqual({ bytesPerDay: 300, days: 2 });
  expect(computeDailyGrowth(files.slice(0, 4), nowMs)).toBeNull();
});

test('the mean is that of the last 30 finished days', () => {
  const days = daysOf(Array.from({ length: 50 }, (_, i) => (i < 20 ? 1000 : i === 49 ? 7 : 10)));
  expect(computeGrowth(days, space, at(49.5))).toMatchObject({ bytesPerDay: (1000 + 29 * 10) / 30, days: 30 });
});

test('gives no forecast without growth, for slow growth or for too few days', () => {
  expect(computeGrowth(daysOf([100, 100, 1]), space, at(2.5))).toMatchObject({ bytesPerDay: null, fullAt: null });
  expect(computeGrowth(daysOf([0.1, 0.1, 0.1, 0.1]), space, at(4))).toMatchObject({ fullAt: null });
  // Forty days after the last one.
  expect(computeGrowth(daysOf([100, 100, 100]), space, { ...at(43), shownTo: first + 3 * dayMs })).toMatchObject({
    bytesPerDay: 0,
    fullAt: null,
  });
  expect(computeGrowth(daysOf([100, 100, 100]), null, at(3))).toMatchObject({ bytesPerDay: 100, fullAt: null });
  expect(computeGrowth([], space, at(3))).toEqual({ sizes: [], bytesPerDay: null, days: 0, fullAt: null });
});

test('every outcome of a run has its own sign, and its verdict is shown', () => {
  const [noted, warned] = (['info', 'warning'] as const).map((severity) =>
    createRun(1, {}, { findings: [{ ...createFinding('A failed'), severity }] }),
  );
  const codes = [4, 1, 130].map((exitCode) => createRun(1, { exitCode }));
  const open = createRun(1, { state: 'running', finishedAt: null, summary: null });
  const killed = createRun(1, { state: 'interrupted', exitCode: null, summary: null });
  const all = [createRun(1), noted!, warned!, ...codes, killed, open];
  expect(all.map((run) => toRunMark(run).sign).join('')).toBe('✓✓!◐✕–✕…');
  const verdict = { state: 'warning', text: 'A failed (and 1 more finding)', command: null } as const;
  expect([createRun(1, {}, { verdict }), killed, open].map(describeRun)).toEqual([
    verdict.text,
    'Killed; the next run recovers what it accepted',
    '',
  ]);
});
