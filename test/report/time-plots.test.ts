import { expect, test } from 'vitest';
import { findHeatLevel, formatShortNumber, mergeHeatRuns } from '../../src/report/time-plots.ts';
import { formatBytes, formatLongDuration, formatMinute, shortenText } from '../../src/report/time-spans.ts';

test('only full coverage has the darkest level', () => {
  expect([0, 1e-9, 0.01, 0.5, 0.9, 0.999_999, 1].map(findHeatLevel)).toEqual([0, 0, 1, 2, 3, 3, 4]);
});

test('merges equal steps, clipped to the window', () => {
  expect(mergeHeatRuns([1, 1, null, 0.5, 0.6, 1], 3, { from: 0, to: 55 }, 10)).toEqual([
    { row: 3, level: 4, from: 0, to: 20 },
    { row: 3, level: 2, from: 30, to: 50 },
    { row: 3, level: 4, from: 50, to: 55 },
  ]);
});

test('formats numbers, durations and sizes', () => {
  expect([0, 0.25, 7, 1500, 20_000_000, 3.2e9].map(formatShortNumber)).toEqual([
    '0',
    '0.25',
    '7',
    '1.5k',
    '20M',
    '3.2G',
  ]);
  const lengths = [400, 8000, 720_000, 7_200_000, 18_720_000, 172_800_000, 273_600_000, 2.2e10, 1e11, 2e11];
  expect(lengths.map(formatLongDuration)).toEqual([
    '0 s',
    '8 s',
    '12 min',
    '2 h',
    '5 h 12 min',
    '2 d',
    '3 d 4 h',
    '254 d',
    '3.2 years',
    '6.3 years',
  ]);
  expect([12, 1000, 1_234_567].map(formatBytes)).toEqual(['12 B', '1.0 kB', '1.2 MB']);
  expect(formatMinute(Date.UTC(2026, 10, 22, 3, 17, 59))).toBe('2026-11-22 03:17');
});

test('shortens a name at whole characters, in one line', () => {
  expect(shortenText('🦆🦆🦆🦆', 3)).toBe('🦆🦆…');
  expect(shortenText('two\nlines', 20)).toBe('two lines');
});
