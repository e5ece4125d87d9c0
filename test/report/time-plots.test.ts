import { expect, test } from 'vitest';
import { shortenText } from '../../src/base/format-quantity.ts';
import { findHeatLevel, formatShortNumber, mergeHeatRuns } from '../../src/report/time-plots.ts';

test('only full coverage has the darkest level', () => {
  expect([0, 1e-9, 0.01, 0.5, 0.9, 0.999_999, 1].map(findHeatLevel)).toEqual([0, 0, 1, 2, 3, 3, 4]);
});

test('merges equal steps, clipped to the window', () => {
  expect(mergeHeatRuns([1, 1, null, 0.5, 0.6, 1], 3, { from: 0, to: 55 }, 10)).toEqual([
    { row: 3, level: 4, isDamaged: false, from: 0, to: 20 },
    { row: 3, level: 2, isDamaged: false, from: 30, to: 50 },
    { row: 3, level: 4, isDamaged: false, from: 50, to: 55 },
  ]);
  expect(mergeHeatRuns([0, 0, 0.5, 0], 0, { from: 0, to: 40 }, 10, new Set([1, 2]))).toEqual([
    { row: 0, level: 0, isDamaged: false, from: 0, to: 10 },
    { row: 0, level: 0, isDamaged: true, from: 10, to: 30 },
    { row: 0, level: 0, isDamaged: false, from: 30, to: 40 },
  ]);
});

test('formats numbers', () => {
  expect([0, 0.25, 7, 1500, 20_000_000, 3.2e9].map(formatShortNumber)).toEqual([
    '0',
    '0.25',
    '7',
    '1.5K',
    '20M',
    '3.2B',
  ]);
});

test('shortens a name at whole characters, in one line', () => {
  expect(shortenText('🦆🦆🦆🦆', 3)).toBe('🦆🦆…');
  expect(shortenText('two\nlines', 20)).toBe('two lines');
});
