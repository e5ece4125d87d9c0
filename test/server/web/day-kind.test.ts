import { expect, test } from 'vitest';
import type { DayState } from '../../../src/contract/day-reasons.ts';
import { dayKinds, formatCoverageShare, toDayKind } from '../../../src/server/web/client/day-kind.ts';

const day = (state: string, changes: Partial<DayState> = {}): DayState => ({
  state: state as DayState['state'],
  expected: 3,
  covered: 3,
  missing: [],
  exceptions: 0,
  ...changes,
});

test('a day is of the case that its state says, and of no other', () => {
  const kinds = ['complete', 'provisional', 'complete_with_exceptions', 'empty', 'incomplete', 'a later state'];
  expect(kinds.map((state) => toDayKind(day(state), false))).toEqual([
    'complete',
    'provisional',
    'exceptions',
    'empty',
    'incomplete',
    'incomplete',
  ]);
  expect(toDayKind(null, false)).toBe('before');
});

test('a damaged file decides, whatever the state says', () => {
  expect([null, day('complete'), day('empty')].map((state) => toDayKind(state, true))).toEqual([
    'damaged',
    'damaged',
    'damaged',
  ]);
});

test('every case has a label in the legend', () => {
  const states = ['complete', 'complete_with_exceptions', 'provisional', 'incomplete', 'empty'];
  const found = [
    ...states.map((state) => toDayKind(day(state), false)),
    toDayKind(day(''), true),
    toDayKind(null, false),
  ];
  expect([...new Set(found)].sort()).toEqual(Object.keys(dayKinds).sort());
});

test('the coverage of a day is described with its numbers', () => {
  expect([
    formatCoverageShare(day('empty', { expected: 0, covered: 0 })),
    formatCoverageShare(day('complete', { expected: 1, covered: 1 })),
    formatCoverageShare(day('incomplete', { expected: 1200, covered: 1100 })),
    formatCoverageShare(day('complete_with_exceptions', { exceptions: 2 })),
    formatCoverageShare(day('complete_with_exceptions', { exceptions: 1 })),
  ]).toEqual([
    'no symbols expected',
    '1 of 1 symbol covered, complete',
    '1,100 of 1,200 symbols covered, incomplete',
    '3 of 3 symbols covered, complete with exceptions, 2 exceptions',
    '3 of 3 symbols covered, complete with exceptions, 1 exception',
  ]);
});
