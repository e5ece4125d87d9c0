import { describe, expect, test } from 'vitest';
import type { PublishedCoverage } from '../../../src/archive/format/coverage.ts';
import { overlayBookCoverage } from '../../../src/archive/format/order-book.ts';

const row = (from: number, to: number, ticks: number, rest: Partial<PublishedCoverage> = {}): PublishedCoverage => ({
  from,
  to,
  ticks,
  fetchedAt: from,
  origin: 'poll',
  evidence: 'inferred',
  ...rest,
});

describe('the coverage of order books', () => {
  test('is one millisecond per response, sorted by time', () => {
    const responses = [
      { at: 9, snapshots: 0 },
      { at: 3, snapshots: 2 },
    ];
    expect(overlayBookCoverage([row(5, 6, 1)], responses)).toEqual([row(3, 4, 2), row(5, 6, 1), row(9, 10, 0)]);
  });

  test('counts the larger of two responses of one moment', () => {
    const [less, more] = [
      { at: 3, snapshots: 1 },
      { at: 3, snapshots: 4 },
    ];
    expect(overlayBookCoverage([], [less, more])).toEqual([row(3, 4, 4)]);
    expect(overlayBookCoverage([], [more, less])).toEqual([row(3, 4, 4)]);
    expect(overlayBookCoverage([row(3, 4, 2)], [more])).toEqual([row(3, 4, 4)]);
    expect(overlayBookCoverage([row(3, 4, 2)], [less])).toEqual([row(3, 4, 2)]);
    expect(overlayBookCoverage([row(3, 4, 2)], [])).toEqual([row(3, 4, 2)]);
  });

  test('does not change a covered range of several milliseconds', () => {
    const wide = row(3, 5, 2);
    const responses = [3, 4].map((at) => ({ at, snapshots: 7 }));
    expect(overlayBookCoverage([wide], responses)).toEqual([wide]);
    expect(overlayBookCoverage([wide], [{ at: 5, snapshots: 7 }])).toEqual([row(3, 6, 9)]);
    expect(overlayBookCoverage([wide], [{ at: 2, snapshots: 7 }])).toEqual([row(2, 5, 9)]);
  });

  test('joins adjacent milliseconds of one origin and evidence under the earliest time', () => {
    const late = row(3, 4, 1, { fetchedAt: 90 });
    expect(overlayBookCoverage([late], [{ at: 4, snapshots: 2 }])).toEqual([row(3, 5, 3, { fetchedAt: 4 })]);
    const imported = row(3, 4, 1, { origin: 'import' });
    expect(overlayBookCoverage([imported], [{ at: 4, snapshots: 2 }])).toEqual([imported, row(4, 5, 2)]);
    const stated = row(3, 4, 1, { evidence: 'stated' });
    expect(overlayBookCoverage([stated], [{ at: 4, snapshots: 2 }])).toEqual([stated, row(4, 5, 2)]);
  });
});
