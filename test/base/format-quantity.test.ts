import { expect, test } from 'vitest';
import { formatBytes, formatDuration } from '../../src/base/format-quantity.ts';
import { formatLongDuration, formatBytes as formatReportBytes } from '../../src/report/time-spans.ts';

test('never shows 60 s or 1000 ms', () => {
  expect([0, 850.4, 999.4, 999.6, 59_949, 59_950, 60_000].map(formatDuration)).toEqual([
    '0 ms',
    '850 ms',
    '999 ms',
    '1.0 s',
    '59.9 s',
    '1 min 0 s',
    '1 min 0 s',
  ]);
  expect([119_600, 245_000, 3_599_600, 7_500_000].map(formatDuration)).toEqual([
    '2 min 0 s',
    '4 min 5 s',
    '1 h 0 min',
    '2 h 5 min',
  ]);
  expect([59_400, 59_600, 119_600].map(formatLongDuration)).toEqual(['59 s', '1 min', '2 min']);
});

test('shows sizes below 1000 of their unit', () => {
  for (const of of [formatBytes, formatReportBytes])
    expect([999, 1000, 999_940, 999_950, 1e6, 999_960_000].map(of)).toEqual([
      '999 B',
      '1.0 kB',
      '999.9 kB',
      '1.0 MB',
      '1.0 MB',
      '1.0 GB',
    ]);
});
