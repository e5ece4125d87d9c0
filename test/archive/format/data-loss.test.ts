import fc from 'fast-check';
import { expect, test } from 'vitest';
import {
  assessLostWindows,
  type CoveredWindow,
  compareLostWindows,
  type LostWindow,
  splitAtLostWindows,
} from '../../../src/archive/format/coverage.ts';
import { covers, intersect, isEmpty, subtract, union, type Window } from '../../../src/base/window.ts';
import { checkProperty } from '../../harness/properties.ts';

const lostAt = (from: number, to: number, ticks: number): LostWindow => ({
  dataset: 'ticks',
  symbol: 'S',
  from,
  to,
  ticks,
});
const response = (from: number, to: number, fetchedAt = 1000): CoveredWindow => ({
  from,
  to,
  fetchedAt,
  origin: 'backfill',
  evidence: 'confirmed',
});

/** Counts as if there were a tick at each of these moments. */
const countAmong =
  (times: readonly number[]) =>
  ({ from, to }: Window): number =>
    times.filter((t) => from <= t && t < to).length;

test('restores a lost window if a response covers it with as many ticks', () => {
  const assessment = assessLostWindows([response(0, 10)], [lostAt(2, 6, 3)], countAmong([2, 3, 5]));
  expect(assessment).toEqual({ covered: [response(0, 10)], restored: [lostAt(2, 6, 3)], stillLost: [] });
});

test('covers only the surroundings of a window with fewer ticks', () => {
  const assessment = assessLostWindows([response(0, 10)], [lostAt(2, 6, 3)], countAmong([2, 3]));
  expect(assessment).toEqual({
    covered: [response(0, 2), response(6, 10)],
    restored: [],
    stillLost: [lostAt(2, 6, 3)],
  });
});

test('does not take a window without ticks for a quiet one, unless it was quiet before', () => {
  expect(assessLostWindows([response(2, 6)], [lostAt(2, 6, 1)], countAmong([])).covered).toEqual([]);
  expect(assessLostWindows([response(2, 6)], [lostAt(2, 6, 0)], countAmong([])).restored).toEqual([lostAt(2, 6, 0)]);
});

test('neither restores a partly covered window nor reports it as still lost', () => {
  const assessment = assessLostWindows([response(0, 5)], [lostAt(2, 6, 1)], countAmong([2, 3, 4, 5]));
  expect(assessment).toEqual({ covered: [response(0, 2)], restored: [], stillLost: [] });
});

test('decides adjacent windows separately', () => {
  const lost = [lostAt(2, 4, 2), lostAt(4, 6, 2), lostAt(6, 8, 1)];
  const assessment = assessLostWindows([response(0, 10)], lost, countAmong([2, 3, 4, 6]));
  expect(assessment.restored).toEqual([lost[0], lost[2]]);
  expect(assessment.stillLost).toEqual([lost[1]]);
  expect(assessment.covered).toEqual([response(0, 4), response(6, 10)]);
});

test('ignores a lost window that no response touches', () => {
  const assessment = assessLostWindows([response(6, 9)], [lostAt(2, 6, 3)], countAmong([]));
  expect(assessment).toEqual({ covered: [response(6, 9)], restored: [], stillLost: [] });
});

test('sorts lost windows by dataset, then symbol, then time', () => {
  const window = (dataset: string, symbol: string, from: number) => ({ ...lostAt(from, from + 1, 1), dataset, symbol });
  const inOrder = [
    window('markets', 'Z', 9),
    window('ticks', 'A', 8),
    window('ticks', 'A', 9),
    window('ticks', 'B', 1),
    window('ticks', '\u{e000}', 5),
    window('ticks', '😀', 1),
  ];
  expect(inOrder.toReversed().sort(compareLostWindows)).toEqual(inOrder);
  expect(inOrder.toSorted(compareLostWindows)).toEqual(inOrder);
});

test('splits gaps where lost windows begin and end', () => {
  const [a, b] = [lostAt(2, 4, 1), lostAt(4, 7, 9)];
  const windows = [
    { from: 0, to: 5 },
    { from: 8, to: 9 },
  ];
  expect(splitAtLostWindows(windows, [a, b])).toEqual([
    { from: 0, to: 2, loss: null },
    { from: 2, to: 4, loss: a },
    { from: 4, to: 5, loss: b },
    { from: 8, to: 9, loss: null },
  ]);
});

const edges = fc.uniqueArray(fc.integer({ min: 0, max: 60 }), { minLength: 2, maxLength: 10 }).map((list) => {
  return list.sort((a, b) => a - b);
});
/** Windows of one symbol, adjacent or apart, and the number of ticks that each had. */
const losses = fc
  .tuple(edges, fc.infiniteStream(fc.boolean()), fc.infiniteStream(fc.integer({ min: 0, max: 6 })))
  .map(([list, isLost, ticks]) =>
    list.slice(1).flatMap((to, i) => (isLost.next().value ? [lostAt(list[i]!, to, ticks.next().value)] : [])),
  );
const arbitraryResponses = fc.array(
  fc
    .tuple(fc.integer({ min: 0, max: 60 }), fc.integer({ min: 1, max: 30 }), fc.integer({ min: 0, max: 3 }))
    .map(([from, length, fetchedAt]) => response(from, from + length, fetchedAt)),
  { maxLength: 6 },
);
const times = fc.uniqueArray(fc.integer({ min: 0, max: 90 }), { maxLength: 60 });

test('covers a lost window only completely and with as many ticks, and withholds nothing else', () => {
  checkProperty([arbitraryResponses, losses, times], 500, (given, lost, held) => {
    const { covered, restored, stillLost } = assessLostWindows(given, lost, countAmong(held));
    const expectedLost = lost.filter((window) => !restored.includes(window));
    expect(intersect(covered, expectedLost)).toEqual([]);
    expect(union([...covered])).toEqual(subtract(given, expectedLost));
    for (const window of restored) {
      expect(covers(given, window)).toBe(true);
      expect(countAmong(held)(window)).toBeGreaterThanOrEqual(window.ticks);
    }
    for (const window of expectedLost)
      expect(stillLost.includes(window)).toBe(covers(given, window) && !isEmpty(window));
  });
});

test('does not depend on the order and splitting of responses', () => {
  const cuts = fc.array(fc.integer({ min: 0, max: 90 }), { maxLength: 8 });
  checkProperty(
    [arbitraryResponses, losses, times, cuts, fc.infiniteStream(fc.nat())],
    500,
    (given, lost, held, at, order) => {
      const parts = given
        .flatMap((one) => {
          const ends = [one.from, ...at.filter((t) => one.from < t && t < one.to).sort((a, b) => a - b), one.to];
          return ends.slice(1).map((to, i) => ({ ...one, from: ends[i]!, to }));
        })
        .map((part) => ({ piece: part, key: order.next().value }))
        .sort((a, b) => a.key - b.key)
        .map(({ piece: part }) => part);
      const whole = assessLostWindows(given, lost, countAmong(held));
      const cut = assessLostWindows(parts, lost, countAmong(held));
      expect(cut.restored).toEqual(whole.restored);
      expect(cut.stillLost).toEqual(whole.stillLost);
      expect(union([...cut.covered])).toEqual(union([...whole.covered]));
    },
  );
});
