import { describe, expect, test } from 'vitest';
import { dayMs } from '../../src/base/window.ts';
import {
  type ArchiveState,
  type CompletenessCounts,
  countCompleteness,
  countExceptedGaps,
  updatePublishedCompleteness,
} from '../../src/contract/completeness-counts.ts';
import type { DayState, GapReason } from '../../src/contract/day-reasons.ts';

const day = (state: DayState['state']): DayState => ({ state, expected: 1, covered: 1, missing: [], exceptions: 0 });
const nowMs = 10 * dayMs;

function counted(
  states: readonly DayState['state'][],
  {
    gaps = [],
    provisional = 0,
    suspended = 0,
    damaged = 0,
  }: Partial<Record<'provisional' | 'suspended' | 'damaged', number>> & {
    readonly gaps?: readonly GapReason[];
  } = {},
): CompletenessCounts {
  return countCompleteness({
    days: new Map(states.map((state, i) => [i * dayMs, { state }])),
    gaps: gaps.map((reason) => ({ reason })),
    provisional: { windows: provisional },
    live: ['S'],
    suspended,
    areListsComplete: true,
    nowMs,
    damage: damaged === 0 ? null : { files: damaged, days: new Set([dayMs]) },
  });
}

describe('the state of an archive', () => {
  test.each<[ArchiveState, CompletenessCounts]>([
    ['complete', counted(['complete', 'empty'])],
    ['complete', counted([])],
    ['complete_with_exceptions', counted(['complete'], { suspended: 1 })],
    ['complete_with_exceptions', counted(['complete'], { gaps: ['lost'] })],
    ['complete_with_exceptions', counted(['complete_with_exceptions'])],
    ['provisional', counted(['complete'], { provisional: 2 })],
    ['provisional', counted(['complete', 'provisional'])],
    ['incomplete', counted(['complete', 'incomplete'])],
    ['incomplete', counted(['complete'], { gaps: ['failed'] })],
    ['incomplete', counted(['complete'], { gaps: ['never asked'], suspended: 1 })],
    ['damaged', counted(['complete'], { damaged: 1 })],
  ])('%s', (state, completeness) => {
    expect(completeness.state).toBe(state);
  });

  test('counts the windows that are known to stay missing', () => {
    const gaps = ['lost', 'expired', 'accepted', 'failed', 'never asked', 'suspended'] as const;
    expect(countExceptedGaps(counted(['incomplete'], { gaps }))).toBe(3);
  });

  test('ignores a day that is not over', () => {
    const states = Array.from({ length: 10 }, () => 'complete' as const);
    expect(counted([...states, 'incomplete']).state).toBe('complete');
  });
});

describe('published completeness at a later time', () => {
  const completeness = counted(['complete', 'complete']);
  const days = { '1970-01-01': day('complete'), '1970-01-02': day('complete') };
  const published = { days, reached: 2 * dayMs, completeness };
  const unharmed = { files: 0, days: new Set<number>() };

  test('stays the same without damage and without a new day', () => {
    expect(updatePublishedCompleteness(published, unharmed, 3 * dayMs - 1)).toEqual(completeness);
  });

  test('counts days that ended since as incomplete', () => {
    const later = updatePublishedCompleteness(published, unharmed, 5 * dayMs);
    expect(later).toMatchObject({ state: 'incomplete', days: { complete: 2, incomplete: 3 } });
    const past = { ...published, completeness: { ...completeness, live: 0 } };
    expect(updatePublishedCompleteness(past, unharmed, 5 * dayMs)).toMatchObject({ state: 'complete' });
  });

  test('is damaged once damage is found, and its days are incomplete', () => {
    const found = { files: 1, days: new Set([dayMs]) };
    const later = updatePublishedCompleteness(published, found, 2 * dayMs);
    expect(later).toMatchObject({ state: 'damaged', days: { complete: 1, incomplete: 1 } });
    expect(later.damaged).toEqual({ files: 1, dates: ['1970-01-02'] });
  });
});
