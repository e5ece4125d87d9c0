import fc from 'fast-check';
import { expect, test } from 'vitest';
import { formatBytes, formatDuration, formatNumber } from '../../src/base/format-quantity.ts';
import { checkProperty } from '../harness/properties.ts';

test('groups digits like toLocaleString', () => {
  const some = fc.oneof(fc.maxSafeInteger(), fc.integer(), fc.double(), fc.constantFrom(-0, 999, 1000, -1000));
  checkProperty([some], 100, (value) => {
    expect(formatNumber(value)).toBe((value === 0 ? 0 : value).toLocaleString('en-US'));
  });
});

test.each([
  [-1, '0 ms'],
  [850.4, '850 ms'],
  [999.4, '999 ms'],
  [999.6, '1.0 s'],
  [59_949, '59.9 s'],
  [59_950, '1 min'],
  [119_600, '2 min'],
  [245_000, '4 min 5 s'],
  [3_599_600, '1 h'],
  [18_720_000, '5 h 12 min'],
  [86_399_000, '1 d'],
  [273_600_000, '3 d 4 h'],
  [2.2e10, '255 d'],
  [1e11, '3.2 years'],
])('a duration of %i ms is shown as %s', (ms, text) => {
  expect(formatDuration(ms)).toBe(text);
});

test('shows sizes below 1000 of their unit', () => {
  expect([12, 999, 1000, 999_940, 999_950, 1e6, 999_960_000].map(formatBytes)).toEqual([
    '12 B',
    '999 B',
    '1.0 kB',
    '999.9 kB',
    '1.0 MB',
    '1.0 MB',
    '1.0 GB',
  ]);
});
