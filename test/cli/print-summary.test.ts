import { expect, test } from 'vitest';
import type { FailureLine } from '../../src/app/summary.ts';
import { noBooks, summarize } from '../../src/app/summary.ts';
import { summaryText } from '../../src/cli/print-summary.ts';

const textOf = (failures: readonly FailureLine[]): string =>
  summaryText(
    summarize({
      ...{ version: '0', job: 'nightly', run_id: 'run', started_at: 1, finished_at: 2, requests: 0, retries: 0 },
      ...{ throttled_ms: 0, pages: 0, recovered: 0, generation: 1, watermark: null, gaps: 0, warnings: [], failures },
      ticks: { fetched: 0, accepted: 0, duplicates: 0, conflicts: 0, quarantined: 0 },
      symbols: { planned: 0, done: 0, failed: 0, retired: 0 },
      books: noBooks,
      ...{ files: [], strict: false, reached: true, thrown: undefined },
    }),
    '/lake',
  );

const fall = { symbol: null, from: null, to: null, reason: 'markets fell by 80 %' };
const window = (n: number) => ({ symbol: `S${n}`, from: 0, to: 60_000, reason: 'answered 500' });

test('what failed as a whole is told apart from windows, of which a few are shown and all counted', () => {
  const text = textOf([fall, ...Array.from({ length: 30 }, (_, n) => window(n))]);
  expect(text.split('\n').slice(-9)).toEqual([
    'incomplete: markets fell by 80 %',
    '',
    '30 windows could not be fetched; the next run asks again:',
    ...[0, 1, 2, 3, 4].map((n) => `  S${n}  1970-01-01T00:00:00Z … 1970-01-01T00:01:00Z  answered 500`),
    '  … and 25 more',
  ]);
});

test('of windows that stay lost it is not said that the next run asks again, since a night does not', () => {
  const text = textOf([window(1), { ...window(2), reason: 'lost: 3 of 7 ticks came back' }]);
  expect(text).toContain('\n2 windows could not be fetched:\n');
});

test('where nothing but a fall is to be told, no window is spoken of', () => {
  expect(textOf([fall])).toMatch(/\nincomplete: markets fell by 80 %$/);
  expect(textOf([fall])).not.toContain('windows');
  expect(textOf([window(1)])).not.toContain('incomplete:');
});

test('one window is told as one, and of ticks nothing is said where none were asked for', () => {
  expect(textOf([window(1)])).toContain('\n1 window could not be fetched');
  expect(textOf([window(1)])).not.toContain('  ticks');
});
