import { describe, expect, test } from 'vitest';
import type { PublishedCoverage } from '../../src/archive/format/coverage.ts';
import { countCoverageTicks, subtractFromCoverage } from '../../src/archive/format/coverage.ts';
import { computeLostWindows, computeLostWindowsOfRestored } from '../../src/archive/integrity/repair-day.ts';
import { computeKeyRange, computeRangeWindow, type LostRange } from '../../src/archive/integrity/salvage-row-groups.ts';
import type { SortKey } from '../../src/archive/parquet/row-group-index.ts';
import { day0, dayMs } from './scratch.ts';

const range = (first: SortKey, last: SortKey, rows: number): LostRange => ({ keys: { first, last }, rows });
const unknown = (rows: number): LostRange => ({ keys: null, rows });
const stretch = (from: number, to: number, ticks: number): PublishedCoverage => ({
  from: day0 + from,
  to: day0 + to,
  ticks,
  fetchedAt: day0 + dayMs,
  origin: 'poll',
  evidence: 'confirmed',
});
const span = (from: number, to: number) => ({ from: day0 + from, to: day0 + to });
const times = (...offsets: number[]): Float64Array => Float64Array.from(offsets, (ms) => day0 + ms);
/** Columns of one symbol that has ticks at these moments of the day. */
const only = (symbol: string, ...offsets: number[]) => ({
  symbols: [symbol],
  offsets: Float64Array.of(0, offsets.length),
  t: times(...offsets),
  p: new Float64Array(offsets.length),
});

describe('a lost range of rows', () => {
  const lost = range(['B', day0 + 10], ['D', day0 + 20], 9);

  test.each([
    ['A', undefined],
    ['B', span(10, dayMs)],
    ['C', span(0, dayMs)],
    ['D', span(0, 21)],
    ['E', undefined],
  ])('may hold of %s what lies between its first and its last key', (symbol, wanted) => {
    expect(computeRangeWindow(lost, symbol, day0)).toEqual(wanted);
  });

  test('of one symbol ends after its last tick', () => {
    expect(computeRangeWindow(range(['B', day0 + 10], ['B', day0 + 20], 3), 'B', day0)).toEqual(span(10, 21));
  });

  test('of which nothing is known may hold the whole day of any symbol', () => {
    expect(computeRangeWindow(unknown(1), 'whatever', day0)).toEqual(span(0, dayMs));
  });

  test('is reported from the first key of the first to the last key of the last', () => {
    const [one, two] = [range(['A', 1], ['A', 2], 2), range(['B', 5], ['C', 6], 2)];
    expect(computeKeyRange([one, two])).toEqual({ first: ['A', 1], last: ['C', 6] });
    expect(computeKeyRange([unknown(3)])).toEqual({ first: null, last: null });
    expect(computeKeyRange([])).toEqual({ first: null, last: null });
  });
});

describe('coverage that claims lost rows', () => {
  test('is taken back where they were, and no wider', () => {
    const lost = [range(['A', day0 + 20], ['A', day0 + 40], 3)];
    const coverage = new Map([['A', [stretch(0, 100, 5)]]]);
    expect(computeLostWindows(day0, lost, coverage, only('A', 10, 60))).toEqual({
      windows: [{ dataset: 'ticks', symbol: 'A', ...span(20, 41), ticks: 3 }],
      uncovered: 0,
    });
  });

  test('between two lost ranges goes with them, its ticks that are there counted in', () => {
    const lost = [range(['A', day0 + 20], ['A', day0 + 29], 2), range(['A', day0 + 60], ['A', day0 + 69], 2)];
    const coverage = new Map([['A', [stretch(0, 100, 7)]]]);
    expect(computeLostWindows(day0, lost, coverage, only('A', 10, 40, 80))).toEqual({
      windows: [{ dataset: 'ticks', symbol: 'A', ...span(20, 70), ticks: 5 }],
      uncovered: 0,
    });
  });

  test('stays where none of its ticks is missing, where it is of another time, and where it is of another symbol', () => {
    const lost = [range(['A', day0 + 20], ['A', day0 + 40], 1)];
    const coverage = new Map([
      ['A', [stretch(0, 30, 2), stretch(41, 60, 4)]],
      ['B', [stretch(0, 100, 9)]],
    ]);
    expect(computeLostWindows(day0, lost, coverage, only('A', 10, 25))).toEqual({ windows: [], uncovered: 1 });
  });

  test('of two stretches is taken back in each of them', () => {
    const coverage = new Map([['A', [stretch(0, 30, 2), stretch(30, 60, 1)]]]);
    const { windows, uncovered } = computeLostWindows(day0, [unknown(4)], coverage, only('A', 10));
    expect(windows).toEqual([
      { dataset: 'ticks', symbol: 'A', ...span(0, 30), ticks: 2 },
      { dataset: 'ticks', symbol: 'A', ...span(30, 60), ticks: 1 },
    ]);
    expect(uncovered).toBe(2);
  });

  test('of more ticks than the rows that are gone leaves none of those uncovered', () => {
    const coverage = new Map([['A', [stretch(0, 30, 9)]]]);
    expect(computeLostWindows(day0, [unknown(2), unknown(1)], coverage, only('A')).uncovered).toBe(0);
  });

  test('keeps what is left of a stretch, with the ticks that are in it, and a stretch that lost nothing as it is', () => {
    const [whole, cut] = [stretch(0, 10, 99), stretch(10, 50, 6)];
    const t = times(1, 10, 15, 45, 49);
    const left = subtractFromCoverage([whole, cut], [span(20, 40)], t);
    expect(left).toEqual([whole, { ...cut, to: day0 + 20, ticks: 2 }, { ...cut, from: day0 + 40, ticks: 2 }]);
    expect(subtractFromCoverage([cut], [span(10, 40)], t)).toEqual([{ ...cut, from: day0 + 40, ticks: 2 }]);
    expect(subtractFromCoverage([cut], [span(20, 50)], t)).toEqual([{ ...cut, to: day0 + 20, ticks: 2 }]);
    expect(subtractFromCoverage([cut], [span(10, 50)], t)).toEqual([]);
  });
});

describe('coverage that was taken from the state', () => {
  const stretches = [stretch(0, 10, 0), stretch(10, 40, 0), stretch(50, 90, 0)];
  const there = times(0, 9, 10, 60);
  const lost = (spans: readonly ReturnType<typeof span>[], missing: number, elsewhere: 0 | 1 = 0) =>
    computeLostWindowsOfRestored('A', stretches, there, spans, missing, elsewhere).map(({ from, to, ticks }) => [
      from - day0,
      to - day0,
      ticks,
    ]);

  test('has the ticks that are there', () => {
    expect(countCoverageTicks(stretches, there).map(({ ticks }) => ticks)).toEqual([2, 1, 1]);
    expect(countCoverageTicks(stretches, times()).map(({ from, to }) => ({ from, to }))).toEqual(
      stretches.map(({ from, to }) => ({ from, to })),
    );
  });

  test('is lost wherever rows are gone: nothing tells which of its stretches had them', () => {
    expect(lost([span(0, 5)], 5)).toEqual([[0, 5, 6]]);
    expect(lost([span(5, 20)], 5)).toEqual([[5, 20, 7]]);
    expect(lost([span(5, 60)], 5)).toEqual([
      [5, 40, 7],
      [50, 60, 0],
    ]);
    expect(lost([span(35, 90)], 5)).toEqual([
      [35, 40, 0],
      [50, 90, 6],
    ]);
    // Where nobody knows how many there were, a quiet window is not proven.
    expect(lost([span(35, 90)], 1, 1)).toEqual([
      [35, 40, 1],
      [50, 90, 2],
    ]);
  });

  test('is not lost where no row is, or none of it is gone', () => {
    expect(lost([span(40, 50)], 5)).toEqual([]);
    expect(lost([span(0, 5)], 0)).toEqual([]);
    expect(lost([span(0, 5)], -1)).toEqual([]);
  });
});
