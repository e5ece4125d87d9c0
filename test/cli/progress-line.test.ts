import { expect, test } from 'vitest';
import { formatProgressLine, formatRemaining, type ProgressState } from '../../src/cli/progress.ts';

const ticks: ProgressState = {
  label: 'ticks',
  done: 5000,
  total: 20_000,
  unit: 'symbols',
  ticks: 1_234_567,
  ticksPerSecond: 3120,
  asking: { perSecond: 4.83, allowed: 5, heldBackMs: 0 },
  remainingMs: 200_000,
};

test('a wide line shows counts, tick rate, request rate with limit, and remaining time', () => {
  expect(formatProgressLine(ticks, 140)).toBe(
    'ticks ███████░░░░░░░░░░░░░░░░░░░░░░░  25 %  5,000/20,000 symbols  1.2M ticks  3.1K ticks/s  4.8 of 5 requests/s  3m20s left',
  );
});

test('at 80 columns the line keeps all rates and times', () => {
  const line = formatProgressLine(ticks, 79);
  expect(line).toBe('ticks ██░░░░░░  5,000/20,000 symbols  3.1K ticks/s  4.8 of 5 req/s  3m20s left');
  expect(line.length).toBeLessThanOrEqual(79);
});

test('at 60 columns the line keeps counts, request rate and remaining time', () => {
  expect(formatProgressLine(ticks, 59)).toBe('ticks █░░░░░  5,000/20,000  4.8 of 5 req/s  3m20s left');
});

test('fits any width and always shows the label', () => {
  const held = { ...ticks, asking: { perSecond: 0, allowed: 5, heldBackMs: 42_000 } };
  for (let width = 10; width < 160; width++) {
    for (const facts of [ticks, held, { ...ticks, leftMs: null }]) {
      const line = formatProgressLine(facts, width);
      expect(line.length).toBeLessThanOrEqual(width);
      expect(line.startsWith('ticks')).toBe(true);
    }
  }
});

test('shows throttling while it lasts', () => {
  const held = { ...ticks, asking: { perSecond: 0.2, allowed: 5, heldBackMs: 42_000 } };
  expect(formatProgressLine(held, 140)).toContain('  0.2 of 5 requests/s  throttled 42s  ');
  expect(formatProgressLine(ticks, 140)).not.toContain('throttled');
});

test('omits ticks and requests if there are none, and formats bytes as sizes', () => {
  const publish = { label: 'publish', done: 1, total: 8, unit: 'parts', remainingMs: null };
  expect(formatProgressLine(publish, 79)).toBe('publish ███░░░░░░░░░░░░░░░░░░░░░░░░░░░  12 %  1/8 parts');
  const bytes = {
    label: 'import',
    done: 1_200_000,
    total: 3_400_000_000,
    unit: 'bytes',
    note: '3/10 files',
    remainingMs: 0,
  };
  expect(formatProgressLine(bytes, 100)).toContain('  1.2 MB of 3.4 GB  3/10 files');
});

test('rounds longer remaining times more', () => {
  expect([900, 59_000, 60_001, 200_000, 599_000, 600_000, 3_599_000, 7_500_000].map(formatRemaining)).toEqual([
    '1s',
    '59s',
    '1m10s',
    '3m20s',
    '10m00s',
    '10m',
    '1h00m',
    '2h05m',
  ]);
});
