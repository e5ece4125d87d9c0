import { expect, test } from 'vitest';
import { formatGaps, formatStatus } from '../../src/cli/format-archive.ts';
import { createReportData } from '../report/made-gathered.ts';

test('escapes control characters in symbols', () => {
  const { status } = createReportData();
  const text = formatStatus({ ...status, cursors: [{ symbol: 'a\nb\u001b[2J', cursor: 0 }] });
  expect(text).toMatch(/ 1970-01-01T00:00:00Z {2}a\\nb\\u001b\[2J\n$/);
});

const provisional = { windows: 0, symbols: 0 };

test('prints the number of lost ticks of a gap', () => {
  const gaps = [
    { symbol: 'A', from: 0, to: 1000, reason: 'never asked' as const },
    { symbol: 'A', from: 1000, to: 2000, reason: 'lost' as const, ticks: 1234 },
  ];
  const lines = formatGaps({ from: 0, to: 2000, count: 2, gaps, provisional }).split('\n');
  expect(lines[0]).toMatch(/ A {2}never asked$/);
  expect(lines[1]).toMatch(/ A {2}lost: 1,234 published ticks$/);
});

test('prints since when a gap fails, and the last result', () => {
  const gap = { symbol: 'A', from: 0, to: 1000, reason: 'failed' as const, detail: 'answered 500', since: 86_400_000 };
  const [line] = formatGaps({ from: 0, to: 1000, count: 1, gaps: [gap], provisional }).split('\n');
  expect(line).toMatch(/ A {2}failed since 1970-01-02T00:00:00Z: answered 500$/);
});

test('escapes control characters in symbols', () => {
  const gap = { symbol: 'a\nb\u001b[2J', from: 0, to: 1000, reason: 'never asked' as const };
  expect(formatGaps({ from: 0, to: 1000, count: 1, gaps: [gap], provisional }).split('\n')[0]).toMatch(
    /a\\nb\\u001b\[2J {2}never asked$/,
  );
});
